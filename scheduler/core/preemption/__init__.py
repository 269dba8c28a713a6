"""Preemption: which node, which victims, in what order. Decided on values, then acted on."""
