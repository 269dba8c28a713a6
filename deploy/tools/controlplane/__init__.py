"""A real Kubernetes control plane on this machine, without a container engine.

`binaries` finds or builds etcd, kube-apiserver, kube-controller-manager and KWOK; `cluster` starts
them on loopback ports in a temporary folder and hands out clients (`api`) and kubeconfigs; `keeper`
sees to it that nothing outlives its owner.
"""
