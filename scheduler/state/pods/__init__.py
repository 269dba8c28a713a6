"""Pods on nodes and nominated pods, with the PDBs, terms and workloads that select pods."""
