"""Devices: claims, classes, slices and pools, and the allocated state."""
