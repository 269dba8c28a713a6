"""The machine that decides: events in, attempts and effects out. No I/O, no clock."""
