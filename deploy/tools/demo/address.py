"""The address of the demonstration's scheduler, for the plugin.

`kubectl-preemptive` connects to it if there is no kubeconfig, otherwise with `--server`.
"""

import contextlib
import os
import socket
from collections.abc import Iterator

from scheduler.kubectl.connection import demo_file

__all__ = ["announced", "free_port", "url"]


def free_port() -> int:
    """Return a port on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def url(port: int) -> str:
    """Return the address of a scheduler on this machine."""
    return f"https://127.0.0.1:{port}"


@contextlib.contextmanager
def announced(port: int) -> Iterator[None]:
    """Write the address of the scheduler to the file that the plugin reads.

    If the file cannot be written, nothing is done.
    """
    path = demo_file(os.environ)
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{url(port)}\n")
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            if path.read_text().strip() == url(port):  # not that of another demonstration
                path.unlink()
