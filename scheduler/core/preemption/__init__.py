"""Preemption: decides on which node which victims are to be evicted. Nothing is changed here."""
