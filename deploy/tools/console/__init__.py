"""The libraries of the console's page: copied from npm packages that a lock file pins."""
