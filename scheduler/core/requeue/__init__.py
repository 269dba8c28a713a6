"""Which waiting pods are tried again, and what is reported about them."""
