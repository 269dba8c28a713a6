"""One command a file; the composition root."""
