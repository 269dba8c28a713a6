"""The commands of the plugin, one module each."""
