"""Informers: list, watch, and compare the cache with the API server."""
