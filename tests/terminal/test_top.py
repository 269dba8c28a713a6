"""The view of `kubectl preemptive top`."""

from rich.console import Console

from scheduler.model.rest.cluster import PendingPodView, Summary
from scheduler.model.rest.common import PodView
from scheduler.terminal.top import TopPicture, TopSnapshot

NOW = "2026-01-01T00:00:00Z"
SUMMARY = Summary(NOW, "v1.37", leader=True, revision=1, queue={})


def drawn(*pods: PodView) -> str:
    pending = [PendingPodView(each, "preemptive-scheduler", "unschedulable", NOW) for each in pods]
    console = Console(width=80, height=24, color_system=None)
    with console.capture() as captured:
        console.print(TopPicture(TopSnapshot(SUMMARY, pending=pending)))
    return captured.get()


def test_a_namespace_that_all_pods_share_is_in_the_title():
    text = drawn(PodView("prod", "api-0"), PodView("prod", "api-1"))

    assert "Waiting pods namespace prod ─" in text
    assert "prod/" not in text


def test_namespaces_that_differ_are_with_the_names():
    text = drawn(PodView("prod", "api-0"), PodView("batch", "api-1"))

    assert "Waiting pods ─" in text
    assert "prod/api-0" in text
