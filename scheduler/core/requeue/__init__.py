"""Which waiting pods are tried again, and what the status of a pod says."""
