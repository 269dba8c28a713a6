"""The demonstration of `make run`: a control plane, the scheduler, and a preemption.

`player` applies the steps of an `example` to a control plane of `deploy.tools.controlplane`. `feed`
reads what the scheduler serves and logs, `completion` decides when a step is done, and `screens`
are the kinds of output. `storyteller` tells one of the `stories`, whose commands `commands` carries
out. `address` writes the files by which kubectl and the plugin find all this.
"""
