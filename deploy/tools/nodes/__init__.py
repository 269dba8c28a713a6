"""A real cluster on this machine, without a container engine: kubelet, kube-proxy and containerd.

`cluster` is the interface. It starts `sandbox` in its own network, mount and PID namespaces. The
sandbox runs the control plane of `deploy.tools.controlplane` and the nodes, each of which has its
own namespaces inside of those of the sandbox; `init` is the first process of a node. So every
address except loopback is in a namespace that ends with its processes, and ending one process ends
all. Cgroups and a folder outlive the processes. Their names contain the process id of the owner,
and `leftovers` removes those of owners that have ended.

    with NodeCluster([archive]) as cluster:
        cluster.api.get("/api/v1/nodes")
        cluster.cut_power("worker-1")
"""
