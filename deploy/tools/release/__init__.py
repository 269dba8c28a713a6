"""Builds the parts of a release: packages, charts, bill of materials, a base for the image."""
