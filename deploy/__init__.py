"""How the scheduler is run: manifests, and a control plane on this machine."""
