"""Views of node rows, as they are and what-if, and counters over them."""
