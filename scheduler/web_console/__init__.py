"""The console: a page that shows the scheduler, and the server on loopback that serves it."""
