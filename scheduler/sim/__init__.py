"""The same machine against an imagined cluster: plan and settle."""
