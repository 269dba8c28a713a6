"""The live scheduler: the clock, the loop, wiring and graceful shutdown."""
