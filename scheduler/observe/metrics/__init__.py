"""Prometheus metrics: catalogue, instruments, and what is counted."""
