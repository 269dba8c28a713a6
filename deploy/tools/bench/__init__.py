"""Compares the scheduler with kube-scheduler on a real etcd and kube-apiserver.

`workloads` and `cases` define the load, `contenders` the schedulers. `run` does one run:
`snapshots` creates the cluster once and restores it for each run, `observer` measures from outside,
`verify` decides whether the result counts. `results` keeps the records of all runs, so that an
interrupted benchmark continues; `report` writes a page with tables and plots.
"""
