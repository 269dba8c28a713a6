"""The demonstration behind `make run`: a control plane, the scheduler, and preemption to watch.

`performance` plays the steps of an `example` on a control plane of `deploy.tools.controlplane`.
`feed` watches the cluster and reads the scheduler's log, `chronicle` collects what
`scheduler.console.view` shows, `settling` decides when a step is done, and `screens` are the kinds
of output.
"""
