"""Values: the API objects that we read, and the words of the core. No I/O, no clock."""
