"""How the scheduler is reached: by port-forward to the leader, or at an address.

The serving certificate of the scheduler is self-signed unless the chart uses cert-manager, so it
proves nothing by itself. With a port-forward the trust rests on the tunnel: the API server is
verified with the kubeconfig, and it connects to the kubelet of the pod. `--certificate-authority`
verifies the pod as well.
"""

import argparse
import os
import ssl
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from scheduler import __version__
from scheduler.kube.auth import kubeconfig
from scheduler.kube.auth.credentials import Credentials, FixedHeaders, TokenFile
from scheduler.kube.auth.kubeconfig import Selection
from scheduler.kube.errors import ConnectionSettingsError
from scheduler.kube.http.http1 import Http1
from scheduler.kube.http.tls import Tls, client_context, unverified
from scheduler.kubectl.client import Route
from scheduler.kubectl.errors import LOG_IN, CommandError
from scheduler.service.clock import Clock

__all__ = ["Reach", "demo_files", "kubeconfig_paths", "reach"]

PORT: Final = 10259
_HEADERS: Final = {"Accept": "application/json", "User-Agent": f"kubectl-preemptive/{__version__}"}


@dataclass(frozen=True)
class Reach:
    """What the flags and the environment say about the way to the scheduler."""

    kubeconfigs: tuple[Path, ...]
    wall: Callable[[], float]
    context: str = ""
    #: An address; empty for a port-forward.
    server: str = ""
    token_file: str = ""
    scheduler_namespace: str = ""
    lease: str = ""
    #: Whether a scheduler in shadow mode is asked rather than one that schedules.
    shadow: bool = False
    certificate_authority: str = ""
    tls_server_name: str = ""

    def selection(self) -> Selection:
        """Return what the kubeconfig says.

        Raises:
            PluginError: It cannot be used.
        """
        if not any(path.exists() for path in self.kubeconfigs):
            names = ", ".join(map(str, self.kubeconfigs))
            raise CommandError(
                f"there is no kubeconfig: {names}",
                "name one with --kubeconfig or in the environment variable KUBECONFIG",
            )
        try:
            return kubeconfig.select(self.kubeconfigs, self.context, self.wall)
        except ConnectionSettingsError as error:
            problem = str(error)
            advice = "kubectl config get-contexts shows the contexts"
            raise CommandError(problem, LOG_IN if "exec" in problem else advice) from error

    async def open(self) -> Route:
        """Return a route to the scheduler.

        Raises:
            PluginError: There is none.
            Unreachable: It does not answer.
        """
        if self.server and self.context:
            self.selection()  # a wrong name is an error with an address, too
        try:
            return self._direct() if self.server else await self._forwarded(self.selection())
        except ConnectionSettingsError as error:
            raise CommandError(str(error), "" if self.server else LOG_IN) from error

    def _direct(self) -> Route:
        url = urlsplit(self.server)
        try:
            kubeconfig.check_url(self.server)
        except ValueError as error:
            raise CommandError(f"--server: {error}") from error
        if self.token_file and url.scheme != "https":
            raise CommandError("--token-file: a token is only sent over https")
        local = url.hostname in {"127.0.0.1", "::1", "localhost"}
        if self.token_file and local and not self.certificate_authority:
            # Any user of this machine may listen there once the scheduler does not.
            raise CommandError(
                "--token-file: a token is only sent to a server whose certificate is verified",
                "on this machine, that needs --certificate-authority FILE",
            )
        credentials: Credentials = (
            TokenFile(Path(self.token_file)) if self.token_file else FixedHeaders()
        )
        tls = Tls(lambda: self._context(lambda _: None, verified=not local))
        http = Http1(self.server.rstrip("/"), tls, self.tls_server_name or None, _HEADERS)
        return Route(http, credentials, self.server, _nothing)

    async def _forwarded(self, selection: Selection) -> Route:
        # Only here: their import takes longer than the rest of a command.
        from scheduler.kubectl import leader
        from scheduler.kubectl.api_server import ApiServer
        from scheduler.kubectl.port_forward import PortForward

        login = selection.login
        context = self._context(login.identify, verified=False)
        api = ApiServer(selection)
        try:
            place = leader.Place(self.scheduler_namespace or leader.NAME, self.lease, self.shadow)
            found = await leader.find(api, place)
        except BaseException:
            await api.close()
            raise
        name = self.tls_server_name or f"{found.release}.{found.namespace}.svc"
        forward = PortForward(api, found.namespace, found.pod, PORT, context, name)

        async def close() -> None:
            await forward.close()
            await api.close()

        url = f"https://{name}:{PORT}"
        http = Http1(url, Tls(lambda: context), None, _HEADERS, connect=forward.connect)
        return Route(http, login.credentials, f"{found.namespace}/{found.pod}", close)

    def _context(
        self, identify: Callable[[ssl.SSLContext], None], *, verified: bool
    ) -> ssl.SSLContext:
        """Return how to verify the scheduler, with the client certificate of the user."""
        authority = self.certificate_authority
        try:
            context = client_context(Path(authority) if authority else None)
        except (OSError, ValueError) as error:
            raise CommandError(f"--certificate-authority {authority}: {error}") from error
        if not verified and not authority:
            unverified(context)
        try:
            identify(context)
        except (OSError, ValueError) as error:
            raise CommandError(f"kubeconfig: {error}", LOG_IN) from error
        return context


def kubeconfig_paths(flag: str, environment: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the files to merge, in kubectl's order.

    Source: client-go v0.36.3 tools/clientcmd, NewDefaultClientConfigLoadingRules.
    """
    if flag:
        return (Path(flag),)
    names = [name for name in environment.get("KUBECONFIG", "").split(os.pathsep) if name]
    if names:
        return tuple(dict.fromkeys(map(Path, names)))
    return (Path(environment.get("HOME", "~")).expanduser() / ".kube" / "config",)


def demo_files(environment: Mapping[str, str]) -> tuple[Path, Path]:
    """Return the files in which the demonstration writes its address, and its kubeconfig."""
    cache = environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME", "~")) / ".cache"
    folder = Path(cache).expanduser() / "preemptive-scheduler"
    return folder / "demo-server", folder / "demo.kubeconfig"


async def _nothing(*_: Any) -> None:
    """Do nothing."""


def reach(arguments: argparse.Namespace, environment: Mapping[str, str], clock: Clock) -> Reach:
    """Return the way to the scheduler that flags and environment name.

    If none is named and there is no kubeconfig, the demonstration of this machine is asked if it
    runs. Its scheduler is not a pod, so it has an address beside its kubeconfig.
    """
    paths = kubeconfig_paths(arguments.kubeconfig, environment)
    server = arguments.server or environment.get("PREEMPTIVE_SCHEDULER_SERVER", "")
    arguments.server = server
    if not server:
        paths, server = _demo(paths, arguments, environment)
    return Reach(
        kubeconfigs=paths,
        wall=clock.wall,
        context=arguments.context,
        server=server,
        token_file=arguments.token_file,
        scheduler_namespace=arguments.scheduler_namespace
        or environment.get("PREEMPTIVE_SCHEDULER_NAMESPACE", ""),
        lease=arguments.scheduler_lease,
        shadow=getattr(arguments, "command", "") == "shadow",  # completion has none
        certificate_authority=arguments.certificate_authority,
        tls_server_name=arguments.tls_server_name,
    )


def _demo(
    paths: tuple[Path, ...], arguments: argparse.Namespace, environment: Mapping[str, str]
) -> tuple[tuple[Path, ...], str]:
    """Return the kubeconfigs, and the address of the demonstration if they are its own."""
    address, own = demo_files(environment)
    named = bool(arguments.kubeconfig or environment.get("KUBECONFIG"))
    absent = not named and not any(path.exists() for path in paths)
    if not absent and [path.resolve() for path in paths] != [own.resolve()]:
        return paths, ""
    try:
        server = address.read_text(encoding="utf-8").strip()
    except OSError:
        return paths, ""
    if absent:
        print("note: no kubeconfig; using the demo of `make run`", file=sys.stderr)
    return (own,), server
