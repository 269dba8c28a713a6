"""What a start imports before the first request: nothing that serves pages."""

import subprocess
import sys

import yaml

#: The first four take longer to import than all the rest of what `run` needs, the last a tenth.
HEAVY = {"aiohttp", "cryptography", "kopf", "kubernetes", "rich"}

#: Runs the command, and ends it with the first request: prints the packages imported by then.
PROGRAM = """
import os, sys
from scheduler.cli import main
from scheduler.kube.client.transport import HttpTransport

async def send(self, method, path, body, content_type):
    print(method, path, *{name.partition(".")[0] for name in sys.modules}, flush=True)
    os._exit(0)

HttpTransport.send = send
sys.exit(main.main(sys.argv[1:]))
"""


def test_the_first_request_does_not_wait_for_heavy_imports(tmp_path):
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        yaml.safe_dump(
            {
                "current-context": "here",
                "contexts": [{"name": "here", "context": {"cluster": "here", "user": "us"}}],
                "clusters": [{"name": "here", "cluster": {"server": "http://127.0.0.1:1"}}],
                "users": [{"name": "us", "user": {"token": "secret"}}],
            }
        )
    )
    arguments = ("run", "--kubeconfig", kubeconfig, "--bind-address=127.0.0.1", "--secure-port=0")

    answer = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip

    assert answer.returncode == 0, answer.stderr
    method, path, *packages = answer.stdout.split()
    assert (method, path.partition("?")[0]) == ("GET", "/version")
    assert "numpy" in packages
    assert HEAVY & set(packages) == set()
