"""A real Kubernetes control plane on this machine, without a container engine.

`binaries` finds or builds etcd, kube-apiserver, kube-controller-manager and KWOK. `cluster` starts
them on loopback ports in a temporary folder and provides clients (`api`) and kubeconfigs.
`supervisor` ends all processes when their owner has ended.
"""
