"""The flight recorder: recent events and decisions, in files of limited size, for `replay`."""
