"""Prometheus metrics: the catalogue, the instruments, and what records them."""
