"""InterPodAffinity: the plugin, its counters and its queueing hints."""
