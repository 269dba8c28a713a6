"""What the machine does around an attempt: handle events, suspend and resume, commit."""
