"""PodTopologySpread: the plugin, its filter, its score and its queueing hints."""
