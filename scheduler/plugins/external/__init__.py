"""Plugins of other packages: discovery by entry points, and a sandbox for their errors."""
