"""Logs: records as lines, escaping, and one record for each attempt."""
