"""Values: API objects, effects, events, decisions and policies. No I/O, no clock."""
