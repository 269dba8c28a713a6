"""How a client authenticates: kubeconfig, service account tokens, exec plugins."""
