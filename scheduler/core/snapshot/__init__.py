"""A copy of all that a machine knows, from which another machine goes on in the same way."""
