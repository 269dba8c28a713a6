"""What a plugin is, and how a profile puts plugins in order."""
