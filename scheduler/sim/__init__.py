"""The same machine against an simulated cluster: plan and settle."""
