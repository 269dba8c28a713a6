"""Profiles: converts profiles of the file to expanded settings.

This is the fourth stage of reading, after `validation`. Profiles are validated as kube-scheduler
does when it builds its frameworks: each must have one queue sort plugin, the same in all profiles,
and a bind plugin.

Source: kube-scheduler v1.36.3 pkg/scheduler/apis/config/v1/defaults.go
setDefaults_KubeSchedulerProfile; pkg/scheduler/apis/config/validation/validation.go
validateKubeSchedulerProfile, validatePluginConfig, validateCommonQueueSort;
pkg/scheduler/framework/runtime/framework.go NewFramework; pkg/scheduler/profile/profile.go
cfgValidator; pkg/scheduler/scheduler.go buildExtenders.
Differs: a single profile without a name is called `preemptive-scheduler`.
"""

# ruff: noqa: RUF009 -- `wire` makes a dataclass field, evaluating it once is the point

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from scheduler.config import args_validation, document, validation
from scheduler.config.args import (
    CODECS,
    TYPES,
    ForeignArgs,
    NodeResourcesFitArgs,
    PluginArgs,
    PreemptiveSchedulerArgs,
)
from scheduler.config.codecs import INT32, STRING, TREE, Codec, array, is_null, optional, wrong
from scheduler.config.document import Json, Scalar, Tree
from scheduler.config.field_errors import ErrorReport
from scheduler.config.object_codec import Fields, wire
from scheduler.config.plugin_catalogue import (
    PREFILTERS_OF_NODES,
    REMOVED,
    Point,
    with_points_of,
)
from scheduler.config.plugin_sets import (
    API_VERSION,
    MULTI_POINT,
    POD_GROUPS,
    SETS,
    SETS_IN_FILE,
    Expansion,
    PluginEntry,
    PluginSet,
    defaults,
    merge,
    removed_message,
)
from scheduler.config.settings import OUR_NAME, ProfileSettings, Weighted
from scheduler.model.releases import REFERENCES, Reference

__all__ = ["PROFILES", "ProfileEntry", "Release", "ResolvedProfiles", "resolve", "write"]

_NULL: Final = Scalar(None, None)
_NO_ARGS: Final = ForeignArgs(None)

#: No plugin has this name. Other names without a plugin are accepted; kube-scheduler rejects this.
_MISSPELT: Final = "NodeResourcesFitArgs"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgsEntry:
    """Settings of one plugin in the file; their type depends on the plugin."""

    name: str = wire("name", STRING, "")
    args: Tree = wire("args", TREE, _NULL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileEntry:
    """A profile in the file."""

    scheduler_name: str | None = wire("schedulerName", optional(STRING), None)
    percentage_of_nodes_to_score: int | None = wire(
        "percentageOfNodesToScore", optional(INT32), None
    )
    plugins: dict[str, PluginSet] | None = wire("plugins", optional(SETS_IN_FILE), None)
    plugin_config: tuple[ArgsEntry, ...] = wire("pluginConfig", array(Fields.of(ArgsEntry)), ())


#: Codec of the list of profiles.
PROFILES: Final[Codec[tuple[ProfileEntry, ...]]] = array(Fields.of(ProfileEntry))


class Release(NamedTuple):
    """The release of kube-scheduler that counts, from outside of the file."""

    #: The setting that counts whatever the file says; None for none.
    forced: str | None
    #: Where the file names none.
    server: Reference


class ResolvedProfiles(NamedTuple):
    """All profiles, and the release of kube-scheduler that they reproduce."""

    profiles: tuple[ProfileSettings, ...]
    reference: Reference
    #: Whether the release is that of the API server, as no profile names one.
    follows_server: bool


def resolve(
    entries: Sequence[ProfileEntry],
    catalog: Mapping[str, frozenset[Point]],
    ignored_resources: tuple[str, ...],
    report: ErrorReport,
    release: Release,
) -> ResolvedProfiles:
    """Return the settings of all profiles.

    Args:
        entries: the profiles of the file; none means one with all defaults.
        catalog: the plugins that exist.
        ignored_resources: the resources that extenders check instead of NodeResourcesFit; if any,
            they replace those that the profiles themselves ignore.
        report: collects the errors.
        release: the release that counts beside the one that profiles name.
    """
    entries = entries or (ProfileEntry(),)
    if len(entries) == 1 and entries[0].scheduler_name is None:
        entries = (dataclasses.replace(entries[0], scheduler_name=OUR_NAME),)
    drafts = [_Draft(entry, f"profiles[{i}]", report) for i, entry in enumerate(entries)]
    named = _named_reference(drafts, report)
    if release.forced is not None:
        named = REFERENCES.get(release.forced)
    reference = named or release.server
    for draft in drafts:
        draft.expand(catalog, reference)
    _check_scheduler_names(drafts, report)
    _check_queue_sort(drafts, report)
    settings = tuple(draft.settings(ignored_resources) for draft in drafts)
    return ResolvedProfiles(settings, reference, named is None)


class _Draft:
    """One profile while it is being built."""

    expansion: Expansion
    _reference: Reference

    def __init__(self, entry: ProfileEntry, path: str, report: ErrorReport) -> None:
        self.path = path
        self.name = entry.scheduler_name or ""
        self.percentage = entry.percentage_of_nodes_to_score
        self._report = report
        self._entry = entry
        validation.check_percentage(f"{path}.percentageOfNodesToScore", self.percentage, report)
        self.args = {
            config.name: self._read(config, f"{path}.pluginConfig[{i}]")
            for i, config in self._distinct(entry.plugin_config)
        }
        self._indices = {config.name: i for i, config in self._distinct(entry.plugin_config)}

    def expand(self, catalog: Mapping[str, frozenset[Point]], reference: Reference) -> None:
        """Expand the plugin sets, as a release does."""
        self._reference = reference
        written, empty = self._entry.plugins or {}, PluginSet()
        sets = {
            name: written.get(name, empty).placed(f"{self.path}.plugins.{name}")
            for name in (MULTI_POINT, *Point)
        }
        self.queue_sort = sets[Point.QUEUE_SORT].meaning
        sets[MULTI_POINT] = merge(defaults(reference), sets[MULTI_POINT])
        self.expansion = Expansion(sets, with_points_of(reference, catalog), self._report)
        path = f"{self.path}.plugins.{POD_GROUPS}"
        for_groups = written.get(POD_GROUPS, empty).placed(path)
        if not reference.has_plugins_for_pod_groups and for_groups != empty:
            self._report.say(path, f'unknown field "{POD_GROUPS}"')
        self.expansion.check_names(for_groups)
        self._check_points()

    def args_path(self, plugin: str) -> str:
        """Return the path of the settings of a plugin."""
        path = f"{self.path}.pluginConfig"
        return f"{path}[{self._indices[plugin]}].args" if plugin in self._indices else path

    def settings(self, ignored_resources: tuple[str, ...]) -> ProfileSettings:
        """Return the finished profile; the settings of its plugins are validated last."""
        args: dict[str, PluginArgs] = dict(self.args)
        for name in self.expansion.mentioned:
            if name in TYPES:
                args.setdefault(name, TYPES[name]())
        fit = args.get(NodeResourcesFitArgs.plugin)
        if ignored_resources:
            if isinstance(fit, NodeResourcesFitArgs):
                fit = dataclasses.replace(fit, ignored_resources=ignored_resources)
                args[NodeResourcesFitArgs.plugin] = fit
            else:
                self._report.say(self.path, "can't find NodeResourcesFitArgs in plugin config")
        self._check_args(args)
        return ProfileSettings(
            scheduler_name=self.name,
            percentage_of_nodes_to_score=self.percentage,
            args=MappingProxyType(args),
            **self._points(),
        )

    def _points(self) -> dict[str, Any]:
        names = {point.attribute: self.expansion.names(point) for point in Point}
        weighted = {
            point.attribute: self.expansion.weighted(point, f"{self.path}.plugins.{point}")
            for point in (Point.SCORE, Point.PLACEMENT_SCORE)
        }
        return names | weighted

    def _distinct(self, entries: Sequence[ArgsEntry]) -> list[tuple[int, ArgsEntry]]:
        first: dict[str, int] = {}
        for i, entry in enumerate(entries):
            path = f"{self.path}.pluginConfig[{i}]"
            if first.setdefault(entry.name, i) != i:
                self._report.duplicate(path, entry.name)
            if entry.name in REMOVED:
                self._report.say(path, removed_message(entry.name))
            if entry.name == _MISSPELT:
                shown = document.plain(entry.args)
                self._report.invalid(f"{path}.args", shown, "has to match plugin args")
        return [(i, entries[i]) for i in first.values()]

    def _read(self, entry: ArgsEntry, path: str) -> PluginArgs:
        if entry.name not in CODECS:
            return ForeignArgs(document.plain(entry.args))
        at = f"{path}.args"
        if isinstance(entry.args, document.Mapping):
            _check_kind(entry.name, entry.args, at, self._report)
            args: PluginArgs = CODECS[entry.name].read(entry.args, at, self._report)
            return args
        if not is_null(entry.args):
            self._report.broken(at, str(wrong("an object", entry.args)))
        return TYPES[entry.name]()

    def _check_args(self, args: Mapping[str, PluginArgs]) -> None:
        mentioned = self.expansion.mentioned
        for name, plugin_args in args.items():
            if name == NodeResourcesFitArgs.plugin and name not in mentioned:
                continue  # upstream the plugin checks them, and it is not enabled here
            args_validation.check(plugin_args, self.args_path(name), self._report, self._reference)

    def _check_points(self) -> None:
        path = f"{self.path}.plugins"
        if not (self.expansion.sound and self._report.is_whole(path)):
            return
        profile = f'profile with scheduler name "{self.name}"'
        sorters = len(self.expansion.names(Point.QUEUE_SORT))
        if sorters != 1:
            message = f"only one queue sort plugin required for {profile}, but got {sorters}"
            self._report.say(f"{path}.{Point.QUEUE_SORT}", message)
        if not self.expansion.names(Point.BIND):
            message = f"at least one bind plugin is needed for {profile}"
            self._report.say(f"{path}.{Point.BIND}", message)
        if len(self.expansion.names(Point.PLACEMENT_GENERATE)) > 1:
            message = f"at most one placement generate plugin is allowed for {profile}"
            self._report.say(f"{path}.{Point.PLACEMENT_GENERATE}", message)


def _check_kind(plugin: str, written: document.Mapping, path: str, report: ErrorReport) -> None:
    for name, want in (("apiVersion", API_VERSION), ("kind", f"{plugin}Args")):
        value = document.plain(written.entries.get(name, _NULL))
        if value not in (None, "", want):
            message = f"args for plugin {plugin} were not of type {want}"
            report.invalid(f"{path}.{name}", value, message)


def _check_scheduler_names(drafts: Sequence[_Draft], report: ErrorReport) -> None:
    first: dict[str, str] = {}
    for draft in drafts:
        path = f"{draft.path}.schedulerName"
        if not draft.name:
            report.required(path)
        elif draft.name in first:
            report.duplicate(path, draft.name, f"first set by {first[draft.name]}")
        else:
            first[draft.name] = path


def _named_reference(drafts: Sequence[_Draft], report: ErrorReport) -> Reference | None:
    """Return the release that profiles name; `None` if all of them follow the API server."""
    name = PreemptiveSchedulerArgs.plugin
    named: dict[str, str] = {}
    for draft in drafts:
        args = draft.args.get(name)
        if isinstance(args, PreemptiveSchedulerArgs) and args.reference in REFERENCES:
            named.setdefault(args.reference, f"{draft.args_path(name)}.reference")
    for release, path in [*named.items()][1:]:
        report.invalid(path, release, "must be the same for all profiles")
    return REFERENCES[next(iter(named))] if named else None


def _check_queue_sort(drafts: Sequence[_Draft], report: ErrorReport) -> None:
    """Check that all profiles sort the shared queue in the same way."""
    first = drafts[0]
    sorters = first.expansion.names(Point.QUEUE_SORT)
    for draft in drafts[1:]:
        path = f"{draft.path}.plugins.{Point.QUEUE_SORT}"
        own = draft.expansion.names(Point.QUEUE_SORT)
        sound = first.expansion.sound and draft.expansion.sound
        if sound and (draft.queue_sort != first.queue_sort or own != sorters):
            report.invalid(path, list(own), "must be the same for all profiles")
        for name in sorters[:1]:
            theirs, ours = first.args.get(name, _NO_ARGS), draft.args.get(name, _NO_ARGS)
            if theirs != ours:
                report.say(draft.args_path(name), "queueSort must be the same for all profiles")


def without_points_of_one_release(profile: ProfileSettings) -> ProfileSettings:
    """Return a profile that decides the same, and that each release accepts."""
    kept = tuple(name for name in profile.pre_filter if name not in PREFILTERS_OF_NODES)
    return dataclasses.replace(profile, pre_filter=kept)


def write(profile: ProfileSettings) -> Json:
    """Return a profile in the form of the file, with the plugins of every extension point."""
    sets = {MULTI_POINT: PluginSet(disabled=(PluginEntry(name="*"),))}
    for point in Point:
        plugins: Sequence[str | Weighted] = getattr(profile, point.attribute)
        enabled = (
            PluginEntry(name=plugin.name, weight=plugin.weight)
            if isinstance(plugin, Weighted)
            else PluginEntry(name=plugin)
            for plugin in plugins
        )
        sets[point] = PluginSet(enabled=tuple(enabled))
    written: dict[str, Json] = {"schedulerName": profile.scheduler_name}
    if profile.percentage_of_nodes_to_score is not None:
        written["percentageOfNodesToScore"] = profile.percentage_of_nodes_to_score
    written["plugins"] = SETS.write(sets)
    written["pluginConfig"] = [_write_args(name, args) for name, args in profile.args.items()]
    return written


def _write_args(name: str, args: PluginArgs) -> Json:
    if isinstance(args, ForeignArgs):
        return {"name": name} if args.value is None else {"name": name, "args": args.value}
    kind: dict[str, Json] = {"apiVersion": API_VERSION, "kind": f"{name}Args"}
    return {"name": name, "args": kind | CODECS[name].write(args)}
