"""The scheduler beside kube-scheduler, on a real etcd and kube-apiserver, under the same load.

`workloads` says what is scheduled, `contenders` who schedules, `run` plays one run: `population`
creates the cluster once and restores it for each run, `observer` measures from outside, `verify`
decides whether the result counts. `records` keeps every run, so that an interrupted benchmark goes
on where it stopped; `report` turns them into a page with plots.
"""
