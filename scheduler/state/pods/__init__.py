"""Pods on nodes and nominated pods, with the budgets, terms and workloads that select pods."""
