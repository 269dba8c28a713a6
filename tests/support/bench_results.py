"""Records of runs that never took place."""

from deploy.tools.bench.results import Environment, Result, Window

MACHINE = Environment(
    cores=2, cpu="a processor", kernel="6.0", python="3.11", kubernetes="v1.36.3", etcd="v3.6"
)


def result(workload="Basic", contender="kube-scheduler", run=1, **changed):
    """Return a run in which 5 pods were bound in 2 seconds, and the last event came in another."""
    made = {
        "workload": workload,
        "size": "small",
        "contender": contender,
        "run": run,
        "fingerprint": "print",
        "environment": MACHINE,
        "load_average": 0.5,
        "loop_seconds": 0.001,
        "stolen_seconds": 0.0,
        "pods": 5,
        "problems": [],
        "bound": [1.0, 1.5, 2.0, 2.5, 3.0],
        "first_write": 1.0,
        "finished": 5.0,
        "cpu": {
            "scheduler": Window(start=0.5, work=0.01),
            "kube-apiserver": Window(start=0.25, work=0.02),
            "etcd": Window(start=0.125, work=0.03),
            "benchmark": Window(start=0.125, work=0.04),
            "machine": Window(start=1.5, work=2.1),
        },
        "peak_rss_bytes": 100 * 2**20,
        "calls": {"POST pods/binding 201": 5, "POST events 201": 5},
        "writes": 10,
        "events": 5,
        "deleted": 0,
        "cuts": 0,
    }
    return Result(**{**made, **changed})
