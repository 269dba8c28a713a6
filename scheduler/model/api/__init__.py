"""Objects of the Kubernetes API, with the fields that decisions depend on."""
