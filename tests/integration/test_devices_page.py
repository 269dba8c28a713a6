"""The commands of the page about devices do what the page says; so do those that feed `plan`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from deploy.tools.controlplane import binaries
from tests.integration.devices import GROUP
from tests.support import pages
from tests.support.live import PATIENCE_SECONDS, ROOT

pytestmark = [pytest.mark.cluster, pytest.mark.chart]  # kubectl is one of its tools

PAGE = ROOT / "docs" / "devices.md"
PIPED = [ROOT / "README.md", ROOT / "docs" / "cli.md", ROOT / "docs" / "troubleshooting.md"]


@pytest.fixture
def terminal(scene, tmp_path):
    """Run a command as a reader of the page does; return what it prints."""
    config = yaml.safe_load(scene.plane.admin_kubeconfig.read_text())
    for context in config["contexts"]:
        context["context"]["namespace"] = scene.namespace
    kubeconfig = tmp_path / "kubeconfig.yaml"
    kubeconfig.write_text(yaml.safe_dump(config))
    folders = [binaries.find("kubectl").parent, Path(sys.executable).parent]
    environ = {
        **os.environ,
        "KUBECONFIG": str(kubeconfig),
        "PATH": ":".join([*map(str, folders), os.environ["PATH"]]),
    }

    def run(command: str) -> str:
        answer = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            cwd=ROOT,
            env=environ,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert answer.returncode == 0, f"{command}\n{answer.stdout}{answer.stderr}"
        return answer.stdout.strip()

    return run


@pytest.mark.needs_server("1.37", "the messages on the page are those of 1.37")
def test_the_page_about_devices_does_what_it_says(scene, schedulers, terminal):
    scene.node()
    schedulers.start(name="preemptive-scheduler")
    shown = 0

    for command in pages.commands(PAGE):
        printed = terminal(command.text)
        if command.output:
            shown += 1
            assert printed == command.output.strip(), command

    assert shown == 3
    assert scene.api.items(f"{GROUP}/resourceslices") == []


@pytest.mark.parametrize("page", PIPED, ids=lambda page: page.name)
def test_what_kubectl_lists_is_read_by_plan(scene, terminal, page):
    scene.node()
    found = [each.text for each in pages.commands(page)]
    piped = [command for command in found if "| " in command and "plan -f -" in command]

    assert len(piped) == 1
    (command,) = piped
    available = terminal("kubectl api-resources -o name")
    if "preemptionpolicies" not in available:
        command = command.replace(",preemptionpolicies", "")
    terminal(command)
