"""Node facts as arrays over rows, and the small structures they are built from."""
