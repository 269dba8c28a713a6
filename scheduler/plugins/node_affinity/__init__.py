"""NodeAffinity, and node selector terms, which the volume plugins use, too."""
