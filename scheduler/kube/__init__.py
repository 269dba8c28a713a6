"""The only package that talks to an API server: connection, informers, writer, leader election."""
