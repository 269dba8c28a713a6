"""Which nodes are feasible for a pod, how they score, and why the others are not feasible."""
