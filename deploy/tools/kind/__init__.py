"""A cluster of kind, which needs Docker; `make kind` runs the end-to-end tests on it."""
