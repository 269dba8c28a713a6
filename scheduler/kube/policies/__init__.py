"""Preemption policies: informer, kopf operator, registry and status."""
