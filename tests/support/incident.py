"""The incident of docs/recording.md: a web server takes the node of a batch job."""

from pathlib import Path

from scheduler.model.events import NodeObserved, PodGone, PodObserved
from tests.support.builders import OURS, node, pod
from tests.support.recordings import RecordedMachine

#: 2026-01-02T15:04:00Z
BEGIN = 1_767_366_240.0


def write_incident(path: Path) -> None:
    """Write the recording."""
    recorded = RecordedMachine(path)
    batch = pod("batch-0").scheduler(OURS).cpu("2").on("node-1").started(0).build()
    web = pod("web-0").scheduler(OURS).cpu("2").priority(1000).build()
    recorded.observe_all(NodeObserved(node("node-1").cpu("2").build()), BEGIN)
    recorded.observe_all(NodeObserved(node("node-2").cpu("1").build()), BEGIN)
    recorded.observe_all(PodObserved(batch), BEGIN)
    recorded.observe_all(PodObserved(web), BEGIN + 4)
    recorded.step_all(BEGIN + 5)
    recorded.observe_all(PodGone("default/batch-0", batch.uid), BEGIN + 8)
    recorded.step_all(BEGIN + 9)
    recorded.flush(BEGIN + 60)
