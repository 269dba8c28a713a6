"""Preemption policies: informer, kopf watcher, registry and status."""
