"""Preemptions that are carried out: nominate, count, evict, wait for the victims, and look back."""
