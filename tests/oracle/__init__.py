"""The differential oracle: this scheduler and kube-scheduler's own code on the same clusters."""
