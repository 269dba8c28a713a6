"""A copy of the state of a machine, from which another machine continues in the same way."""
