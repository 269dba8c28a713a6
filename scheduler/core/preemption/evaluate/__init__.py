"""Evaluates a preemption: the dry run on the candidate nodes, and the choice among candidates."""
