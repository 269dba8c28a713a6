"""Plugins of other packages, found by their entry points.

    [project.entry-points."preemptive_scheduler.plugins"]
    Headroom = "headroom:Headroom"

When a configuration is read, the plugins of all packages in the environment are imported and
checked, so that errors are reported before anything is scheduled. A class is instantiated only when
a profile enables it.
"""

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from types import MappingProxyType
from typing import Any, Final

from scheduler.config.args import TYPES, ForeignArgs
from scheduler.config.field_errors import ConfigError, Problem
from scheduler.config.plugin_catalogue import IN_TREE, REMOVED, Point
from scheduler.config.settings import ProfileSettings
from scheduler.plugins.external.sandbox import Sandbox, describe

__all__ = ["GROUP", "OutOfTree", "PackageError", "discover", "enabled", "points"]

#: The group of entry points.
GROUP: Final = "preemptive_scheduler.plugins"

#: The methods of a plugin, with their parameters and their extension point.
_METHODS: Final[Mapping[str, tuple[tuple[str, ...], Point]]] = {
    "compile_filter": (("pod", "cluster", "verdicts"), Point.FILTER),
    "filter_node": (("pod", "node", "pods"), Point.FILTER),
    "compile_score": (("pod", "cluster"), Point.SCORE),
    "score_node": (("pod", "node", "pods"), Point.SCORE),
}
_FORMS: Final = (("compile_filter", "filter_node"), ("compile_score", "score_node"))
#: Methods that only the plugins of this project may have.
_CLOSED: Final = ("pre_enqueue", "post_filter", "reserve")


class PackageError(ConfigError):
    """A package announces a plugin that cannot be used."""

    def __init__(self, package: str, plugin: str, problem: str) -> None:
        problems = (Problem("", None, f"plugin {plugin}: {' '.join(problem.split())}"),)
        super().__init__(f"package {package}", problems)


@dataclass(frozen=True, slots=True)
class OutOfTree:
    """A plugin of another package."""

    name: str
    #: Name and version of the package.
    package: str
    kind: type[Any]
    #: The extension points that it implements.
    points: frozenset[str]

    def create(self, settings: ProfileSettings) -> Sandbox:
        """Create the plugin from its settings in a profile.

        Raises:
            PackageError: The settings are not a mapping, the constructor raises, or the weight is
                not positive.
        """
        weight = dict(settings.score).get(self.name, 1)
        if weight < 1:
            raise self._error(settings, f"its weight is {weight}, which is not positive")
        given = settings.args.get(self.name)
        value = given.value if isinstance(given, ForeignArgs) else None
        value = {} if value is None else value
        if not isinstance(value, dict):
            raise self._error(settings, "the args in pluginConfig are not a mapping")
        try:
            return Sandbox(self.name, self.package, self.kind(MappingProxyType(value)))
        except (Exception, SystemExit) as error:
            raise self._error(settings, describe(error)) from error

    def _error(self, settings: ProfileSettings, problem: str) -> PackageError:
        where = f"profile {settings.scheduler_name}"
        return PackageError(self.package, self.name, f"{where}: {problem}")


def discover() -> dict[str, OutOfTree]:
    """Return all plugins that packages of the environment announce, by name.

    Raises:
        PackageError: One of them cannot be used.
    """
    plugins: dict[str, OutOfTree] = {}
    announced = metadata.entry_points(group=GROUP)
    for entry in sorted(announced, key=lambda entry: (entry.name, entry.value)):
        plugin = _load(entry)
        other = plugins.get(plugin.name)
        if other is not None:
            problem = f"package {other.package} has a plugin of this name too"
            raise PackageError(plugin.package, plugin.name, problem)
        plugins[plugin.name] = plugin
    return plugins


def points(plugins: Mapping[str, OutOfTree]) -> dict[str, frozenset[str]]:
    """Return the extension points of plugins by name, for the checks of the configuration."""
    return {name: plugin.points for name, plugin in plugins.items()}


def enabled(settings: ProfileSettings) -> frozenset[str]:
    """Return the names of plugins of other packages that a profile enables."""
    return settings.enabled - IN_TREE.keys()


def _load(entry: metadata.EntryPoint) -> OutOfTree:
    package = "?" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"
    if entry.name in IN_TREE or entry.name in REMOVED or entry.name in TYPES:
        raise PackageError(package, entry.name, "kube-scheduler has a plugin of this name")
    try:
        kind: Any = entry.load()
    except (Exception, SystemExit) as error:
        problem = f"{entry.value} cannot be imported: {describe(error)}"
        raise PackageError(package, entry.name, problem) from error
    for problem in _problems(entry.name, kind):
        raise PackageError(package, entry.name, f"{entry.value} {problem}")
    points_of_class = frozenset(
        str(at) for method, (_, at) in _METHODS.items() if hasattr(kind, method)
    )
    return OutOfTree(entry.name, package, kind, points_of_class)


def _problems(name: str, kind: Any) -> Iterator[str]:
    """Yield the reasons why an object cannot be a plugin of that name."""
    if not isinstance(kind, type):
        yield "is not a class"
        return
    if getattr(kind, "name", None) != name:
        yield f"has the attribute `name` {getattr(kind, 'name', None)!r}, not {name!r}"
    if not _takes(kind, ("args",)):
        yield "cannot be constructed with one argument, the mapping of its settings"
    yield from _wrong_methods(kind)
    yield from _wrong_signatures(kind)
    if hasattr(kind, "filter_node"):
        yield from _wrong_reasons(getattr(kind, "reasons", None))


def _wrong_methods(kind: type[Any]) -> Iterator[str]:
    if not any(hasattr(kind, method) for method in _METHODS):
        yield f"has none of the methods {', '.join(_METHODS)}"
    for one, other in _FORMS:
        if hasattr(kind, one) and hasattr(kind, other):
            yield f"has both {one} and {other}; it can have one of them"
    for method in _CLOSED:
        if hasattr(kind, method):
            yield f"has a method {method}, which is closed to plugins of other packages"


def _wrong_signatures(kind: type[Any]) -> Iterator[str]:
    wanted = {method: names for method, (names, _) in _METHODS.items()} | {"events_to_register": ()}
    for method, names in wanted.items():
        if hasattr(kind, method) and not _takes(getattr(kind, method), ("self", *names)):
            yield f"has a method {method} that cannot be called with ({', '.join(names)})"


def _wrong_reasons(reasons: object) -> Iterator[str]:
    texts = isinstance(reasons, tuple) and all(isinstance(text, str) for text in reasons)
    if not texts or not isinstance(reasons, tuple) or len(reasons) < 2:
        yield "has no `reasons`: a tuple of texts, of which the first stands for a node that fits"
    elif not all(text.strip() and len(text.splitlines()) == 1 for text in reasons[1:]):
        yield "has a reason that is not one line of text"


def _takes(function: Any, names: tuple[str, ...]) -> bool:
    """Return whether something can be called with this number of positional arguments."""
    if not callable(function):
        return False
    try:
        inspect.signature(function).bind(*names)
    except (TypeError, ValueError):
        return False
    return True
