"""The web server: connections, TLS, and the serving thread."""
