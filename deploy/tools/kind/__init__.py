"""A cluster of kind, for those who have Docker: `make kind` runs the end-to-end tests on one."""
