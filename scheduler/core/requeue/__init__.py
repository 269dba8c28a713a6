"""Which waiting pods are tried again."""
