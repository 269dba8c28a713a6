"""What preemption policies, and failures of the past, forbid."""
