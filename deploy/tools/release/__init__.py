"""Builds the parts of a release, and says whether it may be published."""
