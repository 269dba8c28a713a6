"""The terminal view: live display of the scheduler, and a summary at the end."""
