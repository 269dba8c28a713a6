"""The web server: connections, TLS, and the thread that serves."""
