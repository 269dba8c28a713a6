"""The scheduler beside kube-scheduler, on a real etcd and kube-apiserver, under the same load.

`workloads` has the pods and clusters, `contenders` the schedulers, and `run` does one run:
`population` creates the cluster once and restores it for each run, `observer` measures from
outside, `verify` decides whether the result counts. `results` keeps every run, so that an
interrupted benchmark continues where it stopped; `report` turns them into a page with plots.
"""
