"""Which plugins run where: the user's plugin sets over the default ones, multiPoint expanded.

Two steps, as upstream takes them. `merge` lays a set of the file over the default set of the same
name; `expand` distributes what `multiPoint` enables over the extension points. A plugin set that
cannot be meant is reported with the entry that is to blame.

Source: kube-scheduler v1.36.3 pkg/scheduler/apis/config/v1/default_plugins.go mergePluginSet;
pkg/scheduler/framework/runtime/framework.go updatePluginList, expandMultiPointPlugins,
getValidScoreWeights.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from scheduler.config.codecs import INT32, STRING, Codec, array, optional
from scheduler.config.field_errors import ErrorReport, suggestion
from scheduler.config.object_codec import Record, wire
from scheduler.config.plugin_catalogue import DEFAULT_PLUGINS, REMOVED, Point
from scheduler.config.settings import Weighted

__all__ = ["DEFAULT", "MULTI_POINT", "SETS", "Entry", "Expansion", "PluginSet", "merge"]

API_VERSION: Final = "kubescheduler.config.k8s.io/v1"

#: Name of the set whose plugins run wherever they can.
MULTI_POINT: Final = "multiPoint"

_ALL: Final = "*"
_MAX_NODE_SCORE: Final = 100
_INT64: Final = 2**63


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A plugin in a set."""

    name: str = wire("name", STRING, "")
    #: Factor of its scores; None and 0 stand for 1.
    weight: int | None = wire("weight", optional(INT32), None)
    #: Where the entry stands in the file; empty for a default one.
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginSet:
    """The plugins of one extension point, or of `multiPoint`, as the file has them."""

    enabled: tuple[Entry, ...] = wire("enabled", array(Record.of(Entry)), ())
    disabled: tuple[Entry, ...] = wire("disabled", array(Record.of(Entry)), ())

    @property
    def disabled_names(self) -> frozenset[str]:
        """The names under `disabled`."""
        return frozenset(each.name for each in self.disabled)

    @property
    def meaning(self) -> object:
        """What of the set counts when two are compared."""
        names = [each.name for each in self.disabled]
        return [(each.name, each.weight or 0) for each in self.enabled], names

    def placed(self, path: str) -> "PluginSet":
        """Return the set with the path of each enabled entry."""
        return PluginSet(
            enabled=tuple(
                Entry(name=each.name, weight=each.weight, path=f"{path}.enabled[{i}]")
                for i, each in enumerate(self.enabled)
            ),
            disabled=self.disabled,
        )


_SET: Final[Codec[PluginSet]] = Record.of(PluginSet)

#: Codec of the object with one set per point.
SETS: Final[Codec[dict[str, PluginSet]]] = Record.table(dict.fromkeys((MULTI_POINT, *Point), _SET))

#: The default of `multiPoint`; the default of every other set is empty.
DEFAULT: Final = PluginSet(
    enabled=tuple(Entry(name=name, weight=weight) for name, weight in DEFAULT_PLUGINS)
)


def merge(default: PluginSet, custom: PluginSet) -> PluginSet:
    """Lay a set of the file over the default one.

    A default entry that the file disables goes; one that the file enables keeps its place and
    takes the weight of the file. All others of the file follow in their order, so disabling and
    enabling a plugin moves it to the end.
    """
    disabled = custom.disabled_names | default.disabled_names
    latest = {each.name: each for each in custom.enabled}
    kept = () if _ALL in disabled else default.enabled
    enabled = [latest.get(each.name, each) for each in kept if each.name not in disabled]
    used = {id(each) for each in enabled}
    enabled += [each for each in custom.enabled if id(each) not in used]
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
            sets: merged, by name; one for each point and `multiPoint`.
            catalog: the points that each existing plugin implements.
            report: takes what cannot be meant.
        """
        self._sets = sets
        self._catalog = catalog
        self._report = report
        self.sound = True
        for name, each in sets.items():
            self._check_names(each.enabled, removed=REMOVED if name in _REMOVED_IN else frozenset())
        self._points = {point: self._expand(point) for point in Point}

    def names(self, point: Point) -> tuple[str, ...]:
        """Return the plugins of a point in the order in which they run."""
        return self._points[point]

    @property
    def mentioned(self) -> tuple[str, ...]:
        """All names under `enabled` in any set, sorted."""
        return tuple(sorted({each.name for set_ in self._sets.values() for each in set_.enabled}))

    def weighted(self, point: Point, path: str) -> tuple[Weighted, ...]:
        """Return the plugins of a scoring point with their weights.

        The entry at the point itself wins over the one in `multiPoint`.
        """
        entries = self._sets[point].enabled + self._sets[MULTI_POINT].enabled
        weights: dict[str, int] = {}
        for each in entries:
            if point in self._catalog.get(each.name, ()):
                weights.setdefault(each.name, each.weight or 1)
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
        for each in self._sets[MULTI_POINT].enabled:
            if point not in self._catalog.get(each.name, ()) or each.name in disabled:
                continue
            if each.name in own:
                overridden.add(each.name)
            elif each.name in shared:
                self._twice(each, point)
            else:
                shared.append(each.name)
        first = [name for name in own if name in overridden]
        last = [name for name in own if name not in overridden]
        return (*first, *shared, *last)

    def _own(self, point: Point) -> tuple[str, ...]:
        """Return what the set of the point itself enables."""
        names: dict[str, None] = {}
        for each in self._sets[point].enabled:
            if each.name not in self._catalog:
                continue
            if point not in self._catalog[each.name]:
                message = f'plugin "{each.name}" does not extend {point.interface} plugin'
                self._blame(each.path, message)
            elif each.name in names:
                self._twice(each, point)
            else:
                names[each.name] = None
        return tuple(names)

    def _check_names(self, entries: Iterable[Entry], removed: frozenset[str]) -> None:
        for each in entries:
            if each.name in removed:
                self._blame(each.path, removed_message(each.name))
            elif each.name not in self._catalog:
                near = suggestion(each.name, self._catalog)
                self._blame(f"{each.path}.name", f'plugin "{each.name}" does not exist{near}')

    def _twice(self, entry: Entry, point: Point) -> None:
        self._blame(entry.path, f'plugin "{entry.name}" already registered as "{point.interface}"')

    def _blame(self, path: str, message: str) -> None:
        self.sound = False
        self._report.say(path, message)


#: Sets in which a removed plugin is refused as such; elsewhere it is merely unknown.
_REMOVED_IN: Final = frozenset(Point) - {Point.PLACEMENT_GENERATE, Point.PLACEMENT_SCORE}


def removed_message(name: str) -> str:
    """Return what to say about a plugin of a former release."""
    return (
        f'Invalid value: "{name}": was invalid in version "{API_VERSION}" '
        f'(KubeSchedulerConfiguration is version "{API_VERSION}")'
    )


def _overflows(weights: Iterable[int]) -> bool:
    """Tell whether the best total score leaves int64.

    Counts with the wrap-around of Go, which refuses a negative weight unless the sum before it
    makes up for it.
    """
    total = 0
    for each in weights:
        room = (_INT64 - 1 - total + _INT64) % (2 * _INT64) - _INT64
        if each * _MAX_NODE_SCORE > room:
            return True
        total += each * _MAX_NODE_SCORE
    return False
