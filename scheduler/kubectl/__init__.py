"""`kubectl preemptive`: queries the scheduler in a cluster, with the kubeconfig of the user."""
