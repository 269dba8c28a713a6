"""Each metric in kube-scheduler's source is exposed, or docs/metrics.md says why it is not."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from deploy.tools.controlplane import binaries, building
from scheduler.model.releases import REFERENCES
from scheduler.observe.metrics.absent import ABSENT
from scheduler.observe.metrics.catalogue import CATALOGUE

pytestmark = [pytest.mark.cluster, pytest.mark.fidelity]

SOURCE = "pkg/scheduler/metrics/metrics.go"


def metric_names(version: str) -> set[str]:
    """Return the names of the metrics in the source of a release."""
    go = building.find_go(binaries.cache_folder(os.environ), os.environ, print)
    answer = subprocess.run(
        [go, "mod", "download", "-json", f"k8s.io/kubernetes@{version}"],
        cwd=binaries.tools_folder(binaries.BINARIES["scheduler-oracle"], version),
        capture_output=True,
        text=True,
        check=True,
    )
    source = (Path(json.loads(answer.stdout)["Dir"]) / SOURCE).read_text()
    return {f"scheduler_{name}" for name in re.findall(r'\bName:\s+"([a-z_]+)"', source)}


@pytest.mark.parametrize("reference", REFERENCES)
def test_every_metric_of_kube_scheduler_is_listed(reference: str):
    upstream = metric_names(REFERENCES[reference].version)
    listed = {row.name for row in CATALOGUE} | {name for each in ABSENT for name in each.names}

    assert len(upstream) > 30
    assert upstream - listed == set()
