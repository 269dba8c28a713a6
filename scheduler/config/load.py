"""Reads and writes the whole configuration: the entry point of this package.

`parse` runs all stages (document, codecs, validation, profiles) and either returns complete
settings or raises all errors at once. `read` is the only function of the package that reads a file.

Source: kube-scheduler v1.36.3 cmd/kube-scheduler/app/options LoadConfigFromFile,
ApplyLeaderElectionTo, ApplyDeprecated.
"""

import dataclasses
import json
from collections.abc import Mapping as Lookup
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar

from scheduler.config import document, plugin_catalogue, profiles, validation
from scheduler.config.codecs import BOOLEAN, optional
from scheduler.config.document import Json, Mapping, Scalar, Tree
from scheduler.config.field_errors import ErrorReport
from scheduler.config.object_codec import Fields, wire
from scheduler.config.plugin_sets import API_VERSION
from scheduler.config.profiles import PROFILES, ProfileEntry, ResolvedProfiles
from scheduler.config.settings import ClientConnection, Common, Settings
from scheduler.model.releases import OLDEST, Reference

__all__ = [
    "KIND",
    "DeprecatedFlags",
    "LeaderElectionFlags",
    "defaults",
    "dump",
    "override",
    "parse",
    "read",
    "read_text",
    "render",
]

#: The only kind of document that is accepted.
KIND: Final = "KubeSchedulerConfiguration"

#: Burst of a rate limit if the file does not set it.
_BURST: Final = 100

C = TypeVar("C", bound=Common)

#: The deprecated flags that do not belong to the connection.
_PROFILING: Final = ("enable_profiling", "enable_contention_profiling")

_NO_PLUGINS: Final[Lookup[str, frozenset[str]]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderElectionFlags:
    """Flags for leader election; they take precedence over the file.

    The fields are those of `LeaderElection`; None means that the flag is not set.
    """

    leader_elect: bool | None = None
    lease_duration_seconds: float | None = None
    renew_deadline_seconds: float | None = None
    retry_period_seconds: float | None = None
    resource_lock: str | None = None
    resource_name: str | None = None
    resource_namespace: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeprecatedFlags:
    """Flags that apply only if there is no configuration file; None means not set."""

    kubeconfig: str | None = None
    #: Requests a second; 0 and negative numbers mean no limit.
    qps: float | None = None
    burst: int | None = None
    content_type: str | None = None
    enable_profiling: bool | None = None
    enable_contention_profiling: bool | None = None


_NO_ELECTION: Final = LeaderElectionFlags()
_NO_DEPRECATED: Final = DeprecatedFlags()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Manifest(Common):
    """The decoded document of the file, before defaults that depend on other fields are set."""

    enable_contention_profiling: bool | None = wire(
        "enableContentionProfiling", optional(BOOLEAN), None
    )
    profiles: tuple[ProfileEntry, ...] = wire("profiles", PROFILES, ())


_MANIFEST: Final = Fields.of(_Manifest, ignored=("apiVersion", "kind"))
_SETTINGS: Final = Fields.of(Settings)


def parse(
    text: str,
    *,
    source: str,
    extra_plugins: Lookup[str, frozenset[str]] = _NO_PLUGINS,
    leader_election: LeaderElectionFlags = _NO_ELECTION,
    server: Reference = OLDEST,
    reference: str | None = None,
) -> Settings:
    """Return the settings that a configuration text describes.

    Args:
        text: YAML, or JSON when it begins with `{`.
        source: name of the text in error messages, usually the path of its file.
        extra_plugins: plugins beyond those of kube-scheduler, each with the names of the
            extension points that it implements (as in the file: `preFilter`, ...).
        leader_election: flags that replace values of the file before the rules are applied.
        server: the release of kube-scheduler that counts where the text names none.
        reference: the setting `reference` that counts whatever the text says; None for none.

    Raises:
        UnreadableConfigError: The text is neither YAML nor JSON.
        ConfigError: The text has errors; the exception has all of them.
        ValueError: A name in *extra_plugins* is taken, or one of its points does not exist.
    """
    plugins = plugin_catalogue.merged(extra_plugins)
    report = ErrorReport(source)
    report.locate("", 1)
    tree = document.read(text, report)
    _check_type(tree, report)
    manifest = _with_election(_MANIFEST.read(tree, "", report), leader_election)
    validation.check(manifest, report)
    ignored = tuple(
        resource.name
        for extender in manifest.extenders
        for resource in extender.managed_resources
        if resource.ignored_by_scheduler
    )
    release = profiles.Release(reference, server)
    resolved = profiles.resolve(manifest.profiles, plugins, ignored, report, release)
    report.finish()
    return _complete(manifest, resolved)


def read(
    path: str | Path,
    *,
    extra_plugins: Lookup[str, frozenset[str]] = _NO_PLUGINS,
    leader_election: LeaderElectionFlags = _NO_ELECTION,
) -> Settings:
    """Return the settings in a file; see `parse`.

    Raises:
        OSError: The file cannot be read.
        ConfigError: As for `parse`.
    """
    return parse(
        read_text(path),
        source=str(path),
        extra_plugins=extra_plugins,
        leader_election=leader_election,
    )


def read_text(path: str | Path) -> str:
    """Return the text of a file.

    Raises:
        OSError: The file cannot be read.
        UnreadableConfigError: It is not UTF-8.
    """
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        ErrorReport(str(path)).unreadable(line, f"not UTF-8: {error.reason}")


def defaults(
    *,
    extra_plugins: Lookup[str, frozenset[str]] = _NO_PLUGINS,
    server: Reference = OLDEST,
    reference: str | None = None,
) -> Settings:
    """Return the settings without any configuration."""
    text = json.dumps({"apiVersion": API_VERSION, "kind": KIND})
    return parse(
        text, source="defaults", extra_plugins=extra_plugins, server=server, reference=reference
    )


def override(
    settings: Settings,
    *,
    leader_election: LeaderElectionFlags = _NO_ELECTION,
    deprecated: DeprecatedFlags = _NO_DEPRECATED,
) -> Settings:
    """Return the settings with values of the command line in them.

    Args:
        settings: without a file, the `defaults`. With one, give *leader_election* to `read`
            instead: a flag may repair what is wrong in the file.
        leader_election: flags that always count.
        deprecated: flags that count only without a file.

    Raises:
        ConfigError: A flag breaks a rule.
    """
    given = _given(deprecated)
    profiling = {name: given.pop(name) for name in _PROFILING if name in given}
    client = _limited(dataclasses.replace(settings.client_connection, **given))
    changed = dataclasses.replace(settings, client_connection=client, **profiling)
    changed = _with_election(changed, leader_election)
    report = ErrorReport("command line")
    validation.check(changed, report)
    report.finish()
    return changed


def dump(settings: Settings) -> dict[str, Json]:
    """Return the effective configuration as a document.

    It has the plugins of every extension point and all defaults, so `parse` returns equal settings
    (with the same *extra_plugins*).
    """
    written: dict[str, Json] = {"apiVersion": API_VERSION, "kind": KIND}
    written |= _SETTINGS.write(settings)
    written["profiles"] = [profiles.write(profile) for profile in settings.profiles]
    return written


def render(settings: Settings) -> str:
    """Return the effective configuration as the YAML text of a file; see `dump`.

    A file that follows the release of the API server can be read by each release: it does not name
    the extension points without an effect that only some releases have.
    """
    if settings.follows_server:
        named = tuple(map(profiles.without_points_of_one_release, settings.profiles))
        settings = dataclasses.replace(settings, profiles=named)
    return document.write(dump(settings))


def _check_type(tree: Tree, report: ErrorReport) -> None:
    """Check API version and kind; raise at once if they are wrong, as fields mean nothing then."""
    entries = tree.entries if isinstance(tree, Mapping) else {}
    absent = Scalar(None, None)
    supported = True
    for name, want in (("apiVersion", API_VERSION), ("kind", KIND)):
        tree = entries.get(name, absent)
        report.locate(name, tree.line)
        value = document.plain(tree)
        if value is None:
            report.required(name, f'must be "{want}"')
        elif value != want:
            report.invalid(name, value, f'must be "{want}"')
        supported = supported and value == want
    if not supported:
        report.finish()


def _complete(manifest: _Manifest, resolved: ResolvedProfiles) -> Settings:
    common = {field.name: getattr(manifest, field.name) for field in dataclasses.fields(Common)}
    common["client_connection"] = _limited(manifest.client_connection)
    ignorable_last = sorted(manifest.extenders, key=lambda extender: extender.ignorable)
    common["extenders"] = tuple(ignorable_last)
    contention = manifest.enable_contention_profiling
    return Settings(
        **common,
        enable_contention_profiling=(
            manifest.enable_profiling if contention is None else contention
        ),
        profiles=resolved.profiles,
        reference=resolved.reference,
        follows_server=resolved.follows_server,
    )


def _limited(client: ClientConnection) -> ClientConnection:
    """Return the connection with its effective rate limit."""
    if client.qps is None or client.qps <= 0:
        return dataclasses.replace(client, qps=None)
    return dataclasses.replace(client, burst=client.burst or _BURST)


def _given(flags: LeaderElectionFlags | DeprecatedFlags) -> dict[str, Any]:
    values = {field.name: getattr(flags, field.name) for field in dataclasses.fields(flags)}
    return {name: value for name, value in values.items() if value is not None}


def _with_election(common: C, flags: LeaderElectionFlags) -> C:
    election = dataclasses.replace(common.leader_election, **_given(flags))
    return dataclasses.replace(common, leader_election=election)
