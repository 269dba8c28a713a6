"""`python -m deploy.tools.release.start IMAGE --version 0.1.0`: start an image before it is signed.

For each platform the program prints its version and checks a configuration, without a network and
with a root that it cannot write. With a kubeconfig it then runs until it leads that cluster.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from deploy.tools.release.commands import ReleaseError, ask, tell
from deploy.tools.release.scan import PLATFORMS

__all__ = ["lead", "main", "start"]

#: Nothing of the machine, as under the restricted Pod Security Standard.
CONFINED: Final = (
    "--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--pids-limit=200"
)  # fmt: skip
CONFIG: Final = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
"""
#: The event in the log of a replica that has listed the cluster and got the lease.
LEADS: Final = "became_leader"
PATIENCE_SECONDS: Final = 120.0
PAUSE_SECONDS: Final = 1.0


def start(image: str, version: str, platform: str) -> None:
    """Run the commands that need no cluster.

    Raises:
        ReleaseError: The image does not start, or has another version.
    """
    with _readable(CONFIG) as config:
        run = ["docker", "run", "--rm", f"--platform={platform}", "--network=none", *CONFINED]
        told = tell([*run, image, "version"])
        if f"preemptive-scheduler {version}\n" not in told:
            raise ReleaseError(f"the image for {platform} is not {version}: {told.strip()}")
        tell([*run, f"--volume={config}:/config.yaml:ro", image, "check-config", "/config.yaml"])


def lead(image: str, kubeconfig: Path) -> None:
    """Run the scheduler until it leads a cluster.

    Args:
        image: The image.
        kubeconfig: A file that names an address of this machine.

    Raises:
        ReleaseError: It ended, or did not lead in time; the message has the end of its log.
    """
    with _readable(kubeconfig.read_text()) as credentials:
        run = ["docker", "run", "--detach", "--network=host", *CONFINED]
        command = [*run, f"--volume={credentials}:/kubeconfig:ro", image, "run"]
        arguments = ["--kubeconfig=/kubeconfig", "--bind-address=127.0.0.1"]
        container = tell([*command, *arguments]).strip()
        try:
            _await_leading(container)
        finally:
            ask(["docker", "rm", "--force", container])


def main(argv: list[str] | None = None) -> int:
    """Start an image; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m deploy.tools.release.start", description=__doc__
    )
    parser.add_argument("image", help="as registry.example/name@sha256:...")
    parser.add_argument("--version", required=True, help="the version that it has to have")
    parser.add_argument("--kubeconfig", type=Path, help="of a cluster on this machine")
    options = parser.parse_args(argv)
    try:
        for platform in PLATFORMS:
            start(options.image, options.version, platform)
        if options.kubeconfig is not None:
            lead(options.image, options.kubeconfig)
    except ReleaseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _await_leading(container: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while LEADS not in (log := ask(["docker", "logs", container])).errors + log.output:
        running = tell(["docker", "inspect", "--format={{.State.Running}}", container])
        if running.strip() != "true" or time.monotonic() > deadline:
            raise ReleaseError(f"the image does not lead a cluster:\n{log.errors[-2000:]}")
        time.sleep(PAUSE_SECONDS)


@contextmanager
def _readable(text: str) -> Iterator[Path]:
    """Write a file that the user of the image can read."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        file = Path(folder) / "file"
        file.write_text(text)
        file.chmod(0o644)
        yield file


if __name__ == "__main__":
    sys.exit(main())
