"""The configuration and status pages."""

import json
import platform

from scheduler import __version__
from scheduler.config import load
from scheduler.model.effects import Bind
from scheduler.service import config_pages
from tests.support.builders import node, pod
from tests.support.cluster import Cluster

CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
extenders:
- urlPrefix: https://extender.example.com
  filterVerb: filter
  tlsConfig: {insecure: true, keyData: aHVudGVyMg==, certData: Y2VydA==}
"""
STARTED = 1_767_225_600.0
PATHS = ["/x/deeper", "/a", "/statusz", "/x"]


def test_the_configuration_is_shown_without_private_keys():
    told = json.dumps(config_pages.configz(load.parse(CONFIG, source="test")))

    (extender,) = json.loads(told)["componentconfig"]["extenders"]
    assert extender["urlPrefix"] == "https://extender.example.com"
    assert extender["tlsConfig"]["keyData"] == "REDACTED"
    assert "aHVudGVyMg" not in told
    assert "Y2VydA" in told


def test_the_status_shows_the_numbers():
    cluster = Cluster(node("n1").cpu("2"), pod("a").cpu("1"), pod("b").cpu("2"))
    cluster.hold(Bind)
    cluster.drain()

    told = config_pages.statusz(cluster.machine, None, STARTED, STARTED + 3725.5, PATHS)

    start = "\npreemptive-scheduler statusz\nWarning: This endpoint is not meant"
    assert told.text.startswith(start)
    rows = dict(line.split(": ", 1) for line in told.text.splitlines()[4:])
    assert rows["Started"] == "2026-01-01T00:00:00Z"
    assert rows["Up"] == "1 hr 02 min 05 sec"
    assert rows["Leader"] == "yes, without an election"
    assert rows["Decides as"] == "kube-scheduler v1.36.3"
    assert rows["Nodes"] == "1"
    assert rows["Pods on nodes"] == "1 (1 assumed)"
    assert rows["Pods waiting"] == "active 0, backoff 0, unschedulable 1, gated 0"
    assert rows["Paths"] == "/a /x"
    assert (told.kind, told.name) == ("Statusz", "preemptive-scheduler")
    assert told.fields == {
        "startTime": "2026-01-01T00:00:00Z",
        "uptimeSeconds": 3725,
        "goVersion": f"python{platform.python_version()}",
        "binaryVersion": __version__,
        "paths": ["/a", "/x"],
    }


def test_flags_are_shown_by_name():
    told = config_pages.flagz({"v": "2", "secure-port": "10259"})

    start = "\npreemptive-scheduler flagz\nWarning: This endpoint is not meant"
    assert told.text.startswith(start)
    assert told.text.splitlines()[3:] == ["secure-port=10259", "v=2"]
    assert told.fields == {"flags": {"v": "2", "secure-port": "10259"}}
