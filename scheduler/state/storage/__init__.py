"""Volumes, claims, attachments and limits, as observed and as assumed."""
