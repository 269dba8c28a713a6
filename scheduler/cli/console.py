"""`preemptive-scheduler console`: serve the console in a cluster, to users with tokens."""

import argparse
import re
from typing import Final
from urllib.parse import urlsplit

from scheduler.cli import importing
from scheduler.service import signals
from scheduler.web_console.target import COLOURS

__all__ = ["add_parser", "run"]

DESCRIPTION = """\
Serve the console to the users of a cluster, each with the rights of their own token: what they sign
in with, or what a proxy in front sends. It has no rights of its own and reads no kubeconfig.
"""
EXAMPLES = """\
examples:
  preemptive-scheduler console --url https://console.example.com \\
      --scheduler https://preemptive-scheduler-replicas.preemptive-scheduler.svc:10259 \\
      --certificate-authority ca.crt --tls-server-name preemptive-scheduler.preemptive-scheduler.svc

exit codes: 0 stopped by SIGTERM or SIGINT; 2 it cannot start
"""
#: A host name or address with a port, as it is in the header `Host`; no path.
_HOST: Final = re.compile(
    r"([A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?|\[[0-9A-Fa-f:]+\])(:(?P<port>[0-9]{1,5}))?"
)
_DEFAULT_PORTS: Final = {"https": ":443", "http": ":80"}
_OWN: Final = frozenset({"localhost", "127.0.0.1", "::1"})


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "console",
        help="serve the console in a cluster",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument(
        "--url", type=_public, required=True, metavar="URL",
        help="address at which browsers reach the page: https://HOST, without a path",
    )  # fmt: skip
    command.add_argument(
        "--name", default="", help="name of the cluster on the page (default: the host)"
    )
    command.add_argument(
        "--color", default="", choices=COLOURS, help="colour of that name (default: by name)"
    )
    command.add_argument(
        "--logging-format", choices=("json", "text"), default="json", help="default: json"
    )
    scheduler = command.add_argument_group("scheduler")
    scheduler.add_argument(
        "--scheduler", type=_replica, action="append", required=True, metavar="URL",
        help="https://HOST:PORT of the replicas; a name with several addresses, or several flags",
    )  # fmt: skip
    scheduler.add_argument(
        "--certificate-authority", default="", metavar="FILE",
        help="what verifies their certificates (default: the authorities of the image)",
    )  # fmt: skip
    scheduler.add_argument(
        "--tls-server-name", default="", metavar="NAME",
        help="name in their certificates (default: the host in the URL)",
    )  # fmt: skip
    scheduler.add_argument(
        "--insecure-skip-tls-verify", action="store_true",
        help="send tokens of users to whoever answers at these addresses",
    )  # fmt: skip
    serving = command.add_argument_group("serving")
    serving.add_argument(
        "--port", type=int, default=8080, metavar="PORT",
        help="it serves http, behind a proxy that serves https (default: 8080)",
    )  # fmt: skip
    command.set_defaults(func=run)


def _public(text: str) -> str:
    parts = urlsplit(text.removesuffix("/"))
    if parts.path or parts.query or parts.fragment or not _is_host(parts.netloc):
        raise argparse.ArgumentTypeError(f"{text!r} is not https://HOST or https://HOST:PORT")
    if parts.scheme != "https" and (parts.scheme, parts.hostname in _OWN) != ("http", True):
        raise argparse.ArgumentTypeError(
            f"{text!r}: browsers keep the cookie for https only, or for http://localhost:PORT"
        )
    # Browsers leave the default port out of `Host` and `Origin`.
    host = parts.netloc.lower().removesuffix(_DEFAULT_PORTS[parts.scheme])
    return f"{parts.scheme}://{host}"


def _replica(text: str) -> str:
    parts = urlsplit(text.removesuffix("/"))
    if parts.scheme != "https" or parts.path or parts.query or not _is_host(parts.netloc):
        raise argparse.ArgumentTypeError(f"{text!r} is not https://HOST:PORT")
    return f"https://{parts.netloc}"


def _is_host(text: str) -> bool:
    found = _HOST.fullmatch(text)
    return found is not None and 0 < int(found["port"] or 443) < 2**16


def run(arguments: argparse.Namespace) -> int:
    """Serve until stopped; return the exit code."""
    with signals.ending_at_once():
        return _serve(arguments)


def _serve(arguments: argparse.Namespace) -> int:
    with importing.lean():
        from scheduler.service.clock import Clock
        from scheduler.web_console.in_cluster import ClusterConsole, serve
    console = ClusterConsole(
        url=arguments.url,
        scheduler=tuple(arguments.scheduler),
        certificate_authority=arguments.certificate_authority,
        tls_server_name=arguments.tls_server_name,
        insecure=arguments.insecure_skip_tls_verify,
        name=arguments.name or urlsplit(arguments.url).netloc,
        colour=arguments.color,
        port=arguments.port,
        logging_format=arguments.logging_format,
    )
    return serve(console, Clock().wall)
