"""Carries out preemptions: nominate, count, evict, wait for the victims, count wasted evictions."""
