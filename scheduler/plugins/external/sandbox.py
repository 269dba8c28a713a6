"""A sandbox for plugins of other packages: an error of theirs ends one attempt and nothing else.

An exception of such a plugin becomes a `PluginError` with the plugin, its package and the line. Its
results are checked before use, because one invalid array would corrupt the verdicts of all plugins.

Axes: n rows of a view.
"""

from collections.abc import Hashable, Sequence
from types import TracebackType
from typing import Any, Final

import numpy as np

from scheduler.framework.cluster_events import Action, ClusterEventWithHint, Hint, Resource
from scheduler.framework.cycle_state import AttemptState
from scheduler.framework.node_adapters import NodeFilterAdapter, NodeScoreAdapter
from scheduler.framework.plugin import (
    MAX_SCORE,
    CompiledFilter,
    CompiledScore,
    PluginError,
    Prepared,
    PrepareStatus,
    Reads,
    Rejected,
)
from scheduler.framework.verdicts import FITS, Verdict, Verdicts
from scheduler.model.api.objects import Pod
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Codes, Int, Scores
from scheduler.state.views.node_view import NodeView

__all__ = ["Sandbox", "describe"]

#: A plugin without `events_to_register` has its pods retried on every event.
#: Source: kube-scheduler v1.36.3 scheduler.buildQueueingHintMap, EnqueueExtensions.
_EVERYTHING: Final = (ClusterEventWithHint(Resource.ANY, Action.ALL),)


def describe(error: BaseException) -> str:
    """Describe an error in one line, with the file and line in the plugin's own code."""
    text = " ".join(str(error).split())
    if not isinstance(error, PluginError):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    location = _location(error.__traceback__)
    return f"{text} ({location})" if location else text


def _location(trace: TracebackType | None) -> str:
    """Return file and line of the innermost frame that is not in this project."""
    location = ""
    while trace is not None:
        module = str(trace.tb_frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] != "scheduler":
            file = trace.tb_frame.f_code.co_filename.replace("\\", "/").rpartition("/")[2]
            location = f"{file}:{trace.tb_lineno}"
        trace = trace.tb_next
    return location


class _ErrorContext:
    """Context manager that turns exceptions of a plugin into errors of the attempt."""

    __slots__ = ("_prefix",)

    def __init__(self, name: str, package: str, point: str) -> None:
        # Source: kube-scheduler v1.36.3 framework/runtime, as `running "X" filter plugin: ...`.
        self._prefix = f'running "{name}" {point} plugin of {package}: '

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if isinstance(error, Exception | SystemExit):
            raise PluginError(self._prefix + describe(error)) from error


class Sandbox:
    """Runs a plugin of another package: a filter, a score, or both, in either form."""

    def __init__(self, name: str, package: str, plugin: Any) -> None:
        """Wrap a plugin.

        Args:
            name: As in the configuration file.
            package: Name and version, for error messages.
            plugin: Has `compile_filter` or `filter_node`, `compile_score` or `score_node`, and
                perhaps `events_to_register`.

        Raises:
            TypeError: `events_to_register` does not return `ClusterEventWithHint`s.
        """
        self.name: Final = name
        self._plugin = plugin
        self._filter = _ErrorContext(name, package, "filter")
        self._score = _ErrorContext(name, package, "score")
        self._events = _events(plugin)

    def compile_filter(
        self, pod: Pod, cluster: Cluster, verdicts: Verdicts
    ) -> CompiledFilter | None:
        with self._filter:
            if hasattr(self._plugin, "filter_node"):
                return _CheckedFilter(
                    NodeFilterAdapter(self._plugin, pod, cluster, verdicts), self, verdicts
                )
            compiled = self._plugin.compile_filter(pod, cluster, verdicts)
            if not isinstance(compiled, CompiledFilter | None):
                raise PluginError(
                    f"compile_filter returned {_kind(compiled)}, not a CompiledFilter or None"
                )
            return None if compiled is None else _CheckedFilter(compiled, self, verdicts)

    def compile_score(self, pod: Pod, cluster: Cluster) -> CompiledScore | None:
        with self._score:
            if hasattr(self._plugin, "score_node"):
                return _CheckedScore(NodeScoreAdapter(self._plugin, pod, cluster), self)
            compiled = self._plugin.compile_score(pod, cluster)
            if not isinstance(compiled, CompiledScore | None):
                raise PluginError(
                    f"compile_score returned {_kind(compiled)}, not a CompiledScore or None"
                )
            return None if compiled is None else _CheckedScore(compiled, self)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return self._events

    @property
    def filter_context(self) -> _ErrorContext:
        """The context for calls of the filter."""
        return self._filter

    @property
    def score_context(self) -> _ErrorContext:
        """The context for calls of the score."""
        return self._score


class _CheckedFilter(CompiledFilter):
    """A compiled filter whose results are checked."""

    def __init__(self, inner: CompiledFilter, owner: Sandbox, verdicts: Verdicts) -> None:
        self.reads = Reads(inner.reads)
        self.monotone = bool(inner.monotone)
        self.node_names = None if inner.node_names is None else frozenset(inner.node_names)
        self._inner = inner
        self._owner = owner
        self._verdicts = verdicts
        #: Codes that were checked before.
        self._checked_codes = {FITS}

    def prepare(self, state: AttemptState, /) -> Prepared:
        with self._owner.filter_context:
            result = self._inner.prepare(state)
            if isinstance(result, Rejected):
                self._check(result.verdict)
            elif not isinstance(result, PrepareStatus):
                raise PluginError(f"prepare returned {_kind(result)}, not PASS, SKIP or Rejected")
            return result

    def codes(self, nodes: NodeView) -> Codes:
        existing = _existing(nodes)
        if existing is not None:
            codes = np.zeros(len(nodes), dtype=np.uint16)
            codes[existing] = self.codes(nodes.take(existing))
            return codes
        with self._owner.filter_context:
            checked = _integers(self._inner.codes(nodes), len(nodes), "codes")
            for code in np.unique(checked).tolist():
                if code not in self._checked_codes:
                    self._check_code(code)
            return checked.astype(np.uint16)

    def _check_code(self, code: int) -> None:
        if not 0 <= code < len(self._verdicts):
            raise PluginError(
                f"codes returned {code}, which is not a code that `verdicts.code` returned"
            )
        self._check(self._verdicts[code])
        self._checked_codes.add(code)

    def _check(self, verdict: Verdict) -> None:
        """Raise if a verdict has an empty reason, or names another plugin."""
        if verdict.plugin != self._owner.name:
            raise PluginError(f"a verdict names the plugin {verdict.plugin!r}")
        reasons: object = verdict.reasons
        if not (isinstance(reasons, tuple) and reasons and all(map(_is_reason, reasons))):
            raise PluginError(f"the reasons of a verdict are {reasons!r}, not a tuple of texts")


class _CheckedScore(CompiledScore):
    """A compiled score whose results are checked."""

    def __init__(self, inner: CompiledScore, owner: Sandbox) -> None:
        self.reads = Reads(inner.reads)
        self.needs_normalising = bool(inner.needs_normalising)
        self._inner = inner
        self._owner = owner

    def prepare(self, state: AttemptState, /) -> PrepareStatus:
        with self._owner.score_context:
            status: Any = self._inner.prepare(state)
            return PrepareStatus(status)

    def cache_key(self) -> Hashable:
        with self._owner.score_context:
            return self._inner.cache_key()

    def scores(self, nodes: NodeView) -> Scores:
        existing = _existing(nodes)
        if existing is not None:
            scores = np.zeros(len(nodes), dtype=np.int64)
            scores[existing] = self.scores(nodes.take(existing))
            return scores
        with self._owner.score_context:
            raw = _integers(self._inner.scores(nodes), len(nodes), "scores")
            return raw if self.needs_normalising else _in_range(raw)

    def normalise(self, raw: Scores) -> Scores:
        with self._owner.score_context:
            scores = self._inner.normalise(raw.copy())
            return _in_range(_integers(scores, raw.shape[0], "normalise"))


def _existing(nodes: NodeView) -> Int | None:
    """Return the positions in a view that have a node; `None` when all have one.

    A hypothetical view never has a row without a node, so `take` never drops its changes.
    """
    exists = nodes.columns.exists()[nodes.rows]
    return None if exists.all() else np.flatnonzero(exists)


def _integers(result: object, size: int, method: str) -> Int:
    """Return the result of a method as integers, one for each row."""
    array = np.asarray(result)
    if array.shape != (size,) or array.dtype.kind not in "iu":
        raise PluginError(
            f"{method} returned {array.dtype} of shape {array.shape}, not integers of shape "
            f"({size},)"
        )
    return array.astype(np.int64)


def _in_range(scores: Scores) -> Scores:
    """Raise if a score is out of range.

    Source: kube-scheduler v1.36.3 framework/runtime.RunScorePlugins.
    """
    invalid = scores[(scores < 0) | (scores > MAX_SCORE)]
    if invalid.shape[0]:
        raise PluginError(f"an invalid score {invalid[0]}, it should be from 0 to {MAX_SCORE}")
    return scores


def _events(plugin: Any) -> tuple[ClusterEventWithHint, ...]:
    if not hasattr(plugin, "events_to_register"):
        return _EVERYTHING
    events = tuple(plugin.events_to_register())
    if not all(isinstance(event, ClusterEventWithHint) for event in events):
        raise TypeError("events_to_register did not return instances of ClusterEventWithHint")
    return tuple(
        ClusterEventWithHint(event.resource, event.action, _safe_hint(event.hint))
        for event in events
    )


def _safe_hint(hint: Hint) -> Hint:
    """Return a hint that answers True when the given hint raises.

    Source: kube-scheduler v1.36.3 backend/queue.isPodWorthRequeuing.
    """

    def safe_hint(pod: Pod, old: Any, new: Any) -> bool:
        try:
            return bool(hint(pod, old, new))
        except (Exception, SystemExit):  # noqa: BLE001 - foreign code may raise anything
            return True

    return safe_hint


def _is_reason(reason: object) -> bool:
    return isinstance(reason, str) and bool(reason.strip())


def _kind(value: object) -> str:
    return type(value).__name__
