"""`preemptive-scheduler`: a Kubernetes secondary scheduler with preemption that can be trusted."""

__version__ = "0.1.0"
