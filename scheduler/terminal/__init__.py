"""The live view in a terminal, drawn from documents of `/api/v1`."""
