"""The terminal view: what the scheduler is doing, live, and what it did, in the end."""
