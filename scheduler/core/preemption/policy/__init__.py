"""Vetoes against preemptions: by preemption policies, and by the history of failed preemptions."""
