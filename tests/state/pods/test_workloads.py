"""The default selector of a pod, from services and controllers."""

from scheduler.state.pods.workloads import Workloads
from tests.support.affinities import service
from tests.support.builders import pod

WEB = pod("web-0").label("app", "web").label("tier", "front").build()


def test_the_version_of_a_namespace_grows_with_its_selectors_only() -> None:
    workloads = Workloads()
    assert workloads.version("default") == 0

    workloads.write(service("s", app="web"))
    workloads.write(service("s", app="web"))
    assert workloads.version("default") == 1
    assert workloads.version("other") == 0

    workloads.erase("Service", "default/s")
    workloads.erase("Service", "default/s")
    workloads.erase("ReplicaSet", "default/unknown")
    assert workloads.version("default") == 2
    assert workloads.default_selector(WEB).empty
