"""The demonstration behind `make run`: a control plane, the scheduler, and preemption to watch.

`performance` plays the steps of an `example` on a control plane of `deploy.tools.controlplane`.
`feed` watches the cluster and reads the scheduler's log, `chronicle` makes of it what
`scheduler.console.view` shows, `settling` tells when a step is done, `screens` are the ways of
showing it.
"""
