"""The process of the console in a cluster: `preemptive-scheduler console`."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvloop

from scheduler.kube.http.tls import Tls, client_context, unverified
from scheduler.model.times import Seconds
from scheduler.observe.logs.logs import Format, Logs
from scheduler.observe.server.listen import listening
from scheduler.web_console.public_site import PublicSite
from scheduler.web_console.replicas import Replicas
from scheduler.web_console.server import ConsoleServer, page_files
from scheduler.web_console.target import Target
from scheduler.web_console.token_sign_in import TokenSignIn

__all__ = ["ClusterConsole", "serve"]


@dataclass(frozen=True, slots=True)
class ClusterConsole:
    """What the command line says."""

    #: The address at which browsers reach the page, and the base URLs of the scheduler.
    url: str
    scheduler: tuple[str, ...]
    certificate_authority: str = ""
    tls_server_name: str = ""
    insecure: bool = False
    name: str = ""
    colour: str = ""
    port: int = 8080
    logging_format: str = "json"


def serve(options: ClusterConsole, wall: Callable[[], Seconds]) -> int:
    """Serve until SIGTERM or SIGINT; return the exit code.

    Args:
        options: Of the command line.
        wall: Returns the time of day.
    """
    logs = Logs(sys.stderr.buffer, wall, Format(options.logging_format))
    logs.install()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_serve(options, logs))
    finally:
        logs.close()


async def _serve(options: ClusterConsole, logs: Logs) -> int:
    def report(event: str, **fields: Any) -> None:
        log = logs.logger.warning if "problem" in fields else logs.logger.info
        log(event, **fields)
        logs.flush()

    try:
        tls = _tls(options)
        listener = listening("", options.port)
        listener.setblocking(False)
    except (OSError, ValueError) as error:
        report("cannot_start", problem=str(error))
        return 2
    replicas = Replicas(options.scheduler, tls, options.tls_server_name, report)
    users = TokenSignIn(options.url, replicas.send, report)
    target = Target(options.name, colour=options.colour)
    server = ConsoleServer(replicas, page_files(), users, target)
    serving = asyncio.create_task(PublicSite(server.application(), listener).run())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, serving.cancel)
    report("serving", url=options.url, port=listener.getsockname()[1])
    with contextlib.suppress(asyncio.CancelledError):
        await serving
    await replicas.close()
    listener.close()
    report("stopped")
    return 0


def _tls(options: ClusterConsole) -> Tls:
    """Return how the scheduler is verified.

    Raises:
        OSError, ValueError: The authority cannot be used.
    """
    authority = Path(options.certificate_authority) if options.certificate_authority else None

    def make() -> Any:
        context = client_context(authority)
        return unverified(context) if options.insecure else context

    try:
        return Tls(make, [authority] if authority else ())
    except (OSError, ValueError) as error:
        raise ValueError(f"--certificate-authority {authority}: {error}") from error
