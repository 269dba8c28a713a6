"""What the outside sees: metrics, logs, health and debug pages."""
