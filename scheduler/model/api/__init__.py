"""Objects of the Kubernetes API, as far as decisions need them."""
