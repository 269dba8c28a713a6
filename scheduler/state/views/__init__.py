"""Views of node rows, of the present state and what-if, and counters over pods."""
