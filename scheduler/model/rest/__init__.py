"""The documents of `/api/v1`: what the server writes, and the plugin and the console read."""
