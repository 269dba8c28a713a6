"""The allocator of devices for claims.

Source: dynamic-resource-allocation v0.36.3 structured.
"""
