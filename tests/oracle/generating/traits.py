"""What a cluster is made of: the probability of each trait."""

from dataclasses import dataclass

__all__ = ["DeviceTraits", "Traits"]


@dataclass(frozen=True, kw_only=True)
class DeviceTraits:
    """Probabilities, 0 to 1, of what concerns devices."""

    #: That a pod uses claims.
    claims: float = 0.75
    #: That a claim is one that several pods use.
    shared: float = 0.15
    #: That a claim was generated for its pod.
    template: float = 0.4
    #: That the claim of a waiting pod has an allocation.
    allocated: float = 0.1
    #: That a claim, its owner, or a class is missing, or a claim is being deleted.
    missing: float = 0.01
    #: That a request has choices.
    choices: float = 0.05
    #: That a request asks for all devices.
    every: float = 0.05
    #: That a request asks for about as many devices as a claim may have.
    many: float = 0.0
    admin: float = 0.03
    selectors: float = 0.25
    #: That selectors have one that may fail.
    failing: float = 0.01
    constraints: float = 0.1
    config: float = 0.05
    #: That there is a pool that several nodes reach.
    network: float = 0.1
    #: That a pool lacks a slice, or has one of an older generation.
    incomplete: float = 0.03
    invalid: float = 0.01
    #: That devices of a pool consume counters that they share.
    counters: float = 0.0
    #: That a pool or a request needs what a feature gate turns off.
    gated: float = 0.0
    #: That an amount is negative or beyond 64 bits.
    odd_amounts: float = 0.0
    #: That a pool has up to 32 devices, most of them equal but for a serial number and some of them
    #: taken, and that a request asks for many of them.
    large: float = 0.0
    #: That a device may be shared, and a request wants some of its capacity.
    capacity: float = 0.0
    tainted: float = 0.0
    #: That there are rules that taint devices.
    rules: float = 0.0
    tolerations: float = 0.0
    #: That a device has to be made ready before a pod is bound.
    conditions: float = 0.0
    #: That a class provides an extended resource, and that a pod requests one.
    extended: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Traits:
    """Probabilities, 0 to 1: for pod traits that a pod has it, for the others as they say."""

    #: That a cluster has many nodes, and pods that are copies of each other.
    wide: float = 0.0
    #: That many pods wait.
    queue: float = 0.0
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
    #: What concerns devices; `None` for a cluster without any.
    devices: DeviceTraits | None = None
