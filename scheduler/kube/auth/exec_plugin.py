"""Runs the login command of a kubeconfig's `exec` entry and reads its output.

Source: client-go v0.36.3 plugin/pkg/client/auth/exec, Authenticator.refreshCredsLocked, and
client.authentication.k8s.io/v1 ExecCredential. Differs: a command that is not run at a terminal is
ended after a minute; its standard error is reported only when it fails.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from scheduler.kube.auth.credential_plugins import Issued
from scheduler.kube.errors import ConnectionSettingsError

__all__ = ["ExecCommand"]

COMMAND_SECONDS: Final = 60.0
#: How many characters of a failed command's standard error are reported.
_REPORTED: Final = 300
_VERSIONS: Final = frozenset(
    {"client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"}
)


class _Variable(msgspec.Struct, frozen=True):
    name: str
    value: str


class _Exec(msgspec.Struct, frozen=True, rename="camel"):
    """The `exec` entry."""

    command: str
    api_version: str
    args: list[str] | None = None
    env: list[_Variable] | None = None
    provide_cluster_info: bool = False
    interactive_mode: str = "IfAvailable"
    install_hint: str = ""


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _Credential(msgspec.Struct, frozen=True, rename="camel"):
    """The output of the command."""

    api_version: str
    kind: str
    status: _Status


_CREDENTIAL: Final = msgspec.json.Decoder(_Credential)


@dataclass(frozen=True, slots=True)
class ExecCommand:
    """A command that logs in; call it to run it.

    Args:
        entry: The `exec` entry.
        folder: Of the kubeconfig; a command with a slash in its name is relative to it.
        cluster: Passed to a command with `provideClusterInfo`.
        wall: Seconds since the epoch; compared with the expiry of the credential.
        source: Where the entry is from, for messages.
    """

    entry: dict[str, Any]
    folder: Path
    cluster: dict[str, Any]
    wall: Callable[[], float]
    source: str

    def __call__(self, _refused: bool) -> Issued:
        """Run the command.

        Raises:
            ConnectionSettingsError: It cannot be run, fails, or prints no credential.
        """
        try:
            wanted = msgspec.convert(self.entry, _Exec)
            return self._issued(wanted, _CREDENTIAL.decode(self._run(wanted)))
        except FileNotFoundError as error:
            hint = str(self.entry.get("installHint") or "").strip()
            problem = f"exec: {error.filename}: {error.strerror}{f'; {hint}' if hint else ''}"
            raise ConnectionSettingsError(f"{self.source}: {_line(problem)}") from error
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            raise ConnectionSettingsError(f"{self.source}: {_line(str(error))}") from error

    def _run(self, wanted: _Exec) -> bytes:
        if wanted.api_version not in _VERSIONS:
            raise ValueError(f"exec: apiVersion {wanted.api_version!r} is not supported")
        interactive = _is_interactive(wanted.interactive_mode)
        command = wanted.command
        if "/" in command:
            command = str(self.folder / command)
        spec: dict[str, Any] = {"interactive": interactive}
        if wanted.provide_cluster_info:
            spec["cluster"] = self.cluster
        info = {"apiVersion": wanted.api_version, "kind": "ExecCredential", "spec": spec}
        try:
            ended = subprocess.run(
                [command, *(wanted.args or ())],
                env={
                    **os.environ,
                    **{variable.name: variable.value for variable in wanted.env or ()},
                    "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode(),
                },
                stdin=None if interactive else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=None if interactive else subprocess.PIPE,
                timeout=None if interactive else COMMAND_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise ValueError(
                f"exec: {wanted.command} timed out after {COMMAND_SECONDS:g} s"
            ) from error
        if ended.returncode != 0:
            output = (ended.stderr or b"").decode(errors="replace").strip()[-_REPORTED:]
            raise ValueError(
                f"exec: {wanted.command} failed with exit code {ended.returncode}"
                f"{f': {output}' if output else ''}"
            )
        return ended.stdout

    def _issued(self, wanted: _Exec, given: _Credential) -> Issued:
        if given.kind != "ExecCredential" or given.api_version != wanted.api_version:
            raise ValueError(
                f"exec: expected an ExecCredential of {wanted.api_version},"
                f" not {given.kind} of {given.api_version}"
            )
        status = given.status
        expires = status.expiration_timestamp
        if expires is not None and expires.tzinfo is None:
            raise ValueError("exec: expirationTimestamp has no time zone")
        return Issued(
            token=status.token,
            certificate=status.client_certificate_data.encode() or None,
            key=status.client_key_data.encode() or None,
            seconds=None if expires is None else max(0.0, expires.timestamp() - self.wall()),
        )


def _is_interactive(mode: str) -> bool:
    """Return whether the command may ask the user.

    Raises:
        ValueError: It must ask, and there is no terminal.
    """
    terminal = sys.stdin is not None and sys.stdin.isatty()
    if mode == "Always" and not terminal:
        raise ValueError("exec: interactiveMode is Always, and there is no terminal")
    return terminal and mode != "Never"


def _line(text: str) -> str:
    return " ".join(text.split())
