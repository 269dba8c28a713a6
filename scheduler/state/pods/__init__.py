"""Pods on nodes, nominated pods, and what selects them."""
