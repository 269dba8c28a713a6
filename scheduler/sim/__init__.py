"""The machine against a simulated cluster: `plan` and `replay`."""
