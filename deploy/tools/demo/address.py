"""Where the demonstration is: files for the plugin and for kubectl, while it runs.

`kubectl-preemptive` uses them by itself if there is no other kubeconfig.
"""

import contextlib
import os
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

from scheduler.kubectl.connection import demo_files

__all__ = ["announced", "free_port", "url"]


def free_port() -> int:
    """Return a port on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def url(port: int) -> str:
    """Return the address of a scheduler on this machine."""
    return f"https://127.0.0.1:{port}"


@contextlib.contextmanager
def announced(
    port: int, kubeconfig: Path, namespace: str, environment: Mapping[str, str]
) -> Iterator[Path]:
    """Write the address of the scheduler, and a kubeconfig, to files of the cache folder.

    Yields the kubeconfig to use: if the cache folder cannot be written, the given one.

    Args:
        port: Where the scheduler serves.
        kubeconfig: That of the administrator.
        namespace: The namespace of its context.
        environment: Says where the cache folder is.
    """
    config = yaml.safe_load(kubeconfig.read_text())
    for each in config["contexts"]:
        each["context"]["namespace"] = namespace
    paths = demo_files(environment)
    contents = (f"{url(port)}\n", yaml.safe_dump(config, sort_keys=False))
    try:
        yield paths[1] if all(map(_written, paths, contents)) else kubeconfig
    finally:
        for path, content in zip(paths, contents, strict=True):
            with contextlib.suppress(OSError):
                if path.read_text() == content:  # not that of another demonstration
                    path.unlink()


def _written(path: Path, content: str) -> bool:
    """Write a file for this user only; return whether that was possible."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        with open(path, "x", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(content)
    except OSError:
        return False
    return True
