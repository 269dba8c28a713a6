"""Which nodes are feasible for a pod, how good each one is, and why the others are not."""
