"""Which node, and which victims: the dry run, and the choice among candidates."""
