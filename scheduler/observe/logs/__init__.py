"""Log records: their fields, their escaping, and one record for each attempt."""
