"""A real cluster on this machine, without a container engine: kubelet, kube-proxy and containerd.

`cluster` is what others use. It starts `site` in network, mount and PID namespaces of its own:
there stand the control plane of `deploy.tools.controlplane` and, each in namespaces of its own
again, the nodes (`init` is the first process of each). So every address but loopback lies in a
namespace that ends with its processes, and ending one process ends all. What outlives processes,
cgroups and a folder, carries the owner's process id; `leftovers` removes that of owners that are
gone.

    with NodeCluster([archive]) as cluster:
        cluster.api.get("/api/v1/nodes")
        cluster.cut_power("worker-1")
"""
