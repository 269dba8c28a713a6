"""Views of node rows, present and hypothetical, and counters over pods."""
