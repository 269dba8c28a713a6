"""`console`: serve the console on this machine, and open the browser."""

import asyncio
import contextlib
import html
import os
import signal
import sys
import tempfile
import webbrowser
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from scheduler.kube.http.http1 import Incoming, Reply
from scheduler.kubectl import priority_classes
from scheduler.kubectl.errors import CommandError
from scheduler.kubectl.session import Session
from scheduler.model.rest.cluster import ApiIndex
from scheduler.web_console.backend import BackendError
from scheduler.web_console.server import ConsoleServer, page_files
from scheduler.web_console.target import Target

__all__ = ["PluginBackend", "file_with_key", "run", "target"]

#: Sends the key to the server; the file is removed when the command ends.
_FILE: Final = """\
<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><title>preemptive-scheduler</title>
<form method="post" action="{url}session"><input type="hidden" name="key" value="{key}">
<button>Open the console</button></form>
<script>document.forms[0].submit()</script>
"""


class PluginBackend:
    """The client, with errors for the page, and with the PriorityClasses of the cluster for plans.

    Args:
        session: The client, and the kubeconfig of the user.
    """

    def __init__(self, session: Session) -> None:
        self._client = session.client
        self._session = session

    async def send(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None
    ) -> Reply:
        """Send a request and return the answer."""
        try:
            if method != "POST" or body is None:
                return await self._client.send(method, path, headers, body)
            body, problem = await self._with_classes(body)
            return _with_warning(await self._client.send(method, path, headers, body), problem)
        except CommandError as error:
            raise BackendError(_in_one(error)) from error

    async def _with_classes(self, body: bytes) -> tuple[bytes, str]:
        """Return a request for a plan with the PriorityClasses that it needs, or why without.

        A body that is not a request is left as it is: the scheduler says what is wrong with it.
        """
        try:
            request = msgspec.json.decode(body)
        except (msgspec.DecodeError, RecursionError):
            return body, ""
        objects = request.get("objects") if isinstance(request, dict) else None
        if not isinstance(objects, list) or not all(isinstance(each, dict) for each in objects):
            return body, ""
        found, problem = await priority_classes.added(self._session, objects)
        if len(found) == len(objects):
            return body, problem
        return msgspec.json.encode({**request, "objects": found}), problem

    async def open(self, path: str, headers: Mapping[str, str]) -> Incoming:
        """Begin to read an answer."""
        try:
            return await self._client.open(path, headers)
        except CommandError as error:
            raise BackendError(_in_one(error)) from error


def _with_warning(reply: Reply, problem: str) -> Reply:
    """Return an answer with one more warning, if there is a problem."""
    if not problem or reply.status != 200:
        return reply
    answer = msgspec.json.decode(reply.body)
    answer["warnings"] = [problem, *answer.get("warnings", ())]
    return reply._replace(body=msgspec.json.encode(answer))


def _in_one(error: CommandError) -> str:
    return f"{error}\n{error.advice}" if error.advice else str(error)


async def run(session: Session) -> int:
    """Serve until Ctrl-C; return the exit code."""
    files = page_files()
    if "/index.html" not in files:
        raise CommandError(
            "the page of the console is missing in this installation",
            "install the wheel of a release, or from a clone: pipx install .",
        )
    await session.client.get("", ApiIndex)  # so that errors are printed, not shown in the browser
    server = ConsoleServer(PluginBackend(session), files, target=target(session))
    try:
        async with server.serving(session.arguments.port):
            with file_with_key(server) as path:
                _tell(session, server, path)
                await _interrupted()
    except OSError as error:
        port = session.arguments.port
        raise CommandError(f"port {port}: {error.strerror}", "choose another --port") from error
    return 0


def target(session: Session) -> Target:
    """Return which cluster the console shows: the context, or the address of the scheduler."""
    address, colour = session.arguments.server, session.arguments.color
    if address:
        return Target(address, colour=colour)
    chosen = session.selection()
    return Target(chosen.context, chosen.cluster_name, chosen.user_name, colour)


def _tell(session: Session, server: ConsoleServer, path: Path) -> None:
    out = session.out
    out.line(f"Serving the console on {server.url}")
    if not session.arguments.no_browser and _has_desktop() and webbrowser.open(path.as_uri()):
        out.line("If no page opens, open that address and enter this key:")
    else:
        out.line("Open that address and enter this key:")
    out.line(f"  {server.key}")
    out.line("Ctrl-C ends it.")
    out.flush()


def _has_desktop() -> bool:
    """Return whether a browser has a screen; without one, a browser in the terminal would open."""
    named = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    return sys.platform == "darwin" or any(os.environ.get(name) for name in named)


@contextlib.contextmanager
def file_with_key(server: ConsoleServer) -> Iterator[Path]:
    """Give a file that opens the console; only this user can read it."""
    with tempfile.TemporaryDirectory(prefix="preemptive-console-") as folder:  # mode 0700
        path = Path(folder) / "open.html"
        path.write_text(_FILE.format(url=server.url, key=html.escape(server.key)))
        yield path


async def _interrupted() -> None:
    """Wait for Ctrl-C or a request to end."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, ended.set)
    await ended.wait()
