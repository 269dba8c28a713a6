"""What preemption remembers: the ledger, backoff, wasted evictions, policies."""
