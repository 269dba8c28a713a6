"""What a cluster is made of: the probability of each trait."""

from dataclasses import dataclass

__all__ = ["Traits"]


@dataclass(frozen=True, kw_only=True)
class Traits:
    """Probabilities, 0 to 1: for pod traits that a pod has it, for the others as they say."""

    #: That a cluster has many nodes, and pods that are copies of each other.
    wide: float = 0.0
    #: That a node is small beside what its pods request.
    tight: float = 0.2
    #: That there are many pods for the nodes.
    crowded: float = 0.0
    #: That a node has few places for pods.
    few_places: float = 0.05
    ephemeral: float = 0.0
    extended: float = 0.0
    init: float = 0.0
    overhead: float = 0.0
    pod_level: float = 0.0
    resized: float = 0.0
    limits: float = 0.05
    #: That a node is tainted, and that a pod tolerates something.
    taints: float = 0.0
    cordoned: float = 0.0
    node_selector: float = 0.0
    node_affinity: float = 0.0
    preferred_nodes: float = 0.0
    ports: float = 0.0
    #: That a node has images, and a container uses one of them.
    images: float = 0.0
    #: That a node declares features, and a pod needs one.
    features: float = 0.0
    pod_affinity: float = 0.0
    preferred_pods: float = 0.0
    spread: float = 0.0
    #: That there are Services and controllers.
    workloads: float = 0.0
    #: That a pod has another priority than 0; waiting pods tend to have high ones.
    priorities: float = 0.0
    never_preempts: float = 0.0
    #: That a cluster has budgets.
    budgets: float = 0.0
    nominated: float = 0.0
    terminating: float = 0.0
    gates: float = 0.0
    #: That a pod has volumes.
    volumes: float = 0.0
    #: That a pod is invalid in some way.
    odd: float = 0.0
    #: That a cluster has a configuration of its own.
    config: float = 0.0
    #: That the cluster is decided until nothing changes.
    settle: float = 0.15
