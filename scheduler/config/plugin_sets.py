"""Merges plugin sets of the file with the default ones, and expands `multiPoint`.

There are two steps, as upstream. `merge` applies a set of the file to the default set of the same
name; `Expansion` distributes the plugins of `multiPoint` over the extension points. An invalid set
is reported with the entry that causes the error.

Source: kube-scheduler v1.36.3 pkg/scheduler/apis/config/v1/default_plugins.go mergePluginSet;
pkg/scheduler/framework/runtime/framework.go updatePluginList, expandMultiPointPlugins,
getValidScoreWeights.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from scheduler.config.codecs import INT32, STRING, Codec, array, optional
from scheduler.config.field_errors import ErrorReport, suggestion
from scheduler.config.object_codec import Fields, wire
from scheduler.config.plugin_catalogue import REMOVED, Point, default_plugins
from scheduler.config.settings import Weighted
from scheduler.model.releases import Reference

__all__ = [
    "MULTI_POINT",
    "POD_GROUPS",
    "SETS",
    "SETS_IN_FILE",
    "Expansion",
    "PluginEntry",
    "PluginSet",
    "defaults",
    "merge",
]

API_VERSION: Final = "kubescheduler.config.k8s.io/v1"

#: Name of the set whose plugins run at all points that they implement.
MULTI_POINT: Final = "multiPoint"

_ALL: Final = "*"
_MAX_NODE_SCORE: Final = 100
_INT64: Final = 2**63


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginEntry:
    """A plugin in a set."""

    name: str = wire("name", STRING, "")
    #: Factor of its scores; None and 0 mean 1.
    weight: int | None = wire("weight", optional(INT32), None)
    #: The path of the entry in the file; empty for a default one.
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginSet:
    """The plugins of one extension point, or of `multiPoint`, as the file has them."""

    enabled: tuple[PluginEntry, ...] = wire("enabled", array(Fields.of(PluginEntry)), ())
    disabled: tuple[PluginEntry, ...] = wire("disabled", array(Fields.of(PluginEntry)), ())

    @property
    def disabled_names(self) -> frozenset[str]:
        """The names under `disabled`."""
        return frozenset(entry.name for entry in self.disabled)

    @property
    def meaning(self) -> object:
        """The part of the set by which two sets are compared."""
        names = [entry.name for entry in self.disabled]
        return [(entry.name, entry.weight or 0) for entry in self.enabled], names

    def placed(self, path: str) -> "PluginSet":
        """Return the set with the path of each enabled entry."""
        return PluginSet(
            enabled=tuple(
                PluginEntry(name=entry.name, weight=entry.weight, path=f"{path}.enabled[{i}]")
                for i, entry in enumerate(self.enabled)
            ),
            disabled=self.disabled,
        )


_SET: Final[Codec[PluginSet]] = Fields.of(PluginSet)

#: Codec of the object with one set per point.
SETS: Final[Codec[dict[str, PluginSet]]] = Fields.table(dict.fromkeys((MULTI_POINT, *Point), _SET))

#: The set of an extension point for pod groups, which are not scheduled as one: it is checked and
#: has no effect.
POD_GROUPS: Final = "podGroupPostFilter"

#: Codec of that object in the file, where some release has a further set.
SETS_IN_FILE: Final[Codec[dict[str, PluginSet]]] = Fields.table(
    dict.fromkeys((MULTI_POINT, *Point, POD_GROUPS), _SET)
)


def defaults(reference: Reference) -> PluginSet:
    """Return the default of `multiPoint` in a release; that of every other set is empty."""
    entries = (PluginEntry(name=name, weight=weight) for name, weight in default_plugins(reference))
    return PluginSet(enabled=tuple(entries))


def merge(default: PluginSet, custom: PluginSet) -> PluginSet:
    """Apply a set of the file to the default one.

    A default entry that the file disables is removed; one that the file enables keeps its position
    and gets the weight of the file. All other entries of the file follow in their order, so
    disabling and enabling a plugin moves it to the end.
    """
    disabled = custom.disabled_names | default.disabled_names
    latest = {entry.name: entry for entry in custom.enabled}
    kept = () if _ALL in disabled else default.enabled
    enabled = [latest.get(entry.name, entry) for entry in kept if entry.name not in disabled]
    used = {id(entry) for entry in enabled}
    enabled += [entry for entry in custom.enabled if id(entry) not in used]
    return PluginSet(enabled=tuple(enabled), disabled=custom.disabled + default.disabled)


class Expansion:
    """The plugins of one profile at each extension point."""

    def __init__(
        self,
        sets: Mapping[str, PluginSet],
        catalog: Mapping[str, frozenset[Point]],
        report: ErrorReport,
    ) -> None:
        """Expand the merged sets of a profile.

        Args:
            sets: the merged sets by name; one for each point and `multiPoint`.
            catalog: the points that each existing plugin implements.
            report: collects the errors.
        """
        self._sets = sets
        self._catalog = catalog
        self._report = report
        self.sound = True
        for name, plugins in sets.items():
            removed = REMOVED if name in _REMOVED_IN else frozenset()
            self._check_names(plugins.enabled, removed)
        self._points = {point: self._expand(point) for point in Point}

    def check_names(self, plugins: PluginSet) -> None:
        """Report the entries of a further set whose plugins do not exist."""
        self._check_names(plugins.enabled, REMOVED)

    def names(self, point: Point) -> tuple[str, ...]:
        """Return the plugins of a point in the order in which they run."""
        return self._points[point]

    @property
    def mentioned(self) -> tuple[str, ...]:
        """All names under `enabled` in any set, sorted."""
        entries = (entry for plugins in self._sets.values() for entry in plugins.enabled)
        return tuple(sorted({entry.name for entry in entries}))

    def weighted(self, point: Point, path: str) -> tuple[Weighted, ...]:
        """Return the plugins of a scoring point with their weights.

        The entry of the point itself takes precedence over the one in `multiPoint`.
        """
        entries = self._sets[point].enabled + self._sets[MULTI_POINT].enabled
        weights: dict[str, int] = {}
        for entry in entries:
            if point in self._catalog.get(entry.name, ()):
                weights.setdefault(entry.name, entry.weight or 1)
        if _overflows(weights.values()):
            self._blame(path, f"{point} plugins: total score of Score plugins could overflow")
        return tuple(Weighted(name, weights[name]) for name in self._points[point])

    def _expand(self, point: Point) -> tuple[str, ...]:
        own = self._own(point)
        disabled = self._sets[point].disabled_names
        if _ALL in disabled:
            return own
        shared: list[str] = []
        overridden = set()
        for entry in self._sets[MULTI_POINT].enabled:
            if point not in self._catalog.get(entry.name, ()) or entry.name in disabled:
                continue
            if entry.name in own:
                overridden.add(entry.name)
            elif entry.name in shared:
                self._twice(entry, point)
            else:
                shared.append(entry.name)
        first = [name for name in own if name in overridden]
        last = [name for name in own if name not in overridden]
        return (*first, *shared, *last)

    def _own(self, point: Point) -> tuple[str, ...]:
        """Return the plugins that the set of the point itself enables."""
        names: dict[str, None] = {}
        for entry in self._sets[point].enabled:
            if entry.name not in self._catalog:
                continue
            if point not in self._catalog[entry.name]:
                message = f'plugin "{entry.name}" does not extend {point.interface} plugin'
                self._blame(entry.path, message)
            elif entry.name in names:
                self._twice(entry, point)
            else:
                names[entry.name] = None
        return tuple(names)

    def _check_names(self, entries: Iterable[PluginEntry], removed: frozenset[str]) -> None:
        for entry in entries:
            if entry.name in removed:
                self._blame(entry.path, removed_message(entry.name))
            elif entry.name not in self._catalog:
                near = suggestion(entry.name, self._catalog)
                self._blame(f"{entry.path}.name", f'plugin "{entry.name}" does not exist{near}')

    def _twice(self, entry: PluginEntry, point: Point) -> None:
        self._blame(entry.path, f'plugin "{entry.name}" already registered as "{point.interface}"')

    def _blame(self, path: str, message: str) -> None:
        self.sound = False
        self._report.say(path, message)


#: Sets in which a removed plugin is reported as removed; in others it is reported as unknown.
_REMOVED_IN: Final = frozenset(Point) - {Point.PLACEMENT_GENERATE, Point.PLACEMENT_SCORE}


def removed_message(name: str) -> str:
    """Return the error message for a plugin of a former release."""
    return (
        f'Invalid value: "{name}": was invalid in version "{API_VERSION}" '
        f'(KubeSchedulerConfiguration is version "{API_VERSION}")'
    )


def _overflows(weights: Iterable[int]) -> bool:
    """Return whether the maximum total score exceeds int64.

    Calculates with the wrap-around of Go, by which a negative weight is rejected unless the sum
    before it makes up for it.
    """
    total = 0
    for weight in weights:
        rest = (_INT64 - 1 - total + _INT64) % (2 * _INT64) - _INT64
        if weight * _MAX_NODE_SCORE > rest:
            return True
        total += weight * _MAX_NODE_SCORE
    return False
