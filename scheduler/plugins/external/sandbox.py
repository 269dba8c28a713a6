"""Plugins of other packages, behind a guard: their mistakes end one attempt and nothing else.

Whatever such a plugin raises becomes a `PluginError` that names it, its package and the line. What
it returns is looked at before it is used, as one wrong array would spoil the verdicts of all.

Axes: n rows of a view.
"""

from collections.abc import Hashable, Sequence
from types import TracebackType
from typing import Any, Final

import numpy as np

from scheduler.framework.cluster_events import Action, ClusterEventWithHint, Hint, Resource
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

__all__ = ["Sandbox", "told"]

#: A plugin that does not say what may lift its rejections is woken by everything.
#: Source: kube-scheduler v1.36.3 scheduler.buildQueueingHintMap, EnqueueExtensions.
_EVERYTHING: Final = (ClusterEventWithHint(Resource.ANY, Action.ALL),)


def told(error: BaseException) -> str:
    """Return an error in one line, with the place in the plugin's own code."""
    text = " ".join(str(error).split())
    if not isinstance(error, PluginError):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    place = _place(error.__traceback__)
    return f"{text} ({place})" if place else text


def _place(trace: TracebackType | None) -> str:
    """Return file and line of the last call that is not our own."""
    found = ""
    while trace is not None:
        module = str(trace.tb_frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] != "scheduler":
            file = trace.tb_frame.f_code.co_filename.replace("\\", "/").rpartition("/")[2]
            found = f"{file}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


class _Blame:
    """Makes whatever a plugin raises an error of the attempt."""

    __slots__ = ("_who",)

    def __init__(self, name: str, package: str, point: str) -> None:
        # Source: kube-scheduler v1.36.3 framework/runtime, as `running "X" filter plugin: ...`.
        self._who = f'running "{name}" {point} plugin of {package}: '

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if isinstance(error, Exception | SystemExit):
            raise PluginError(self._who + told(error)) from error


class Sandbox:
    """A plugin of another package: a filter, a score, or both, in either form."""

    def __init__(self, name: str, package: str, plugin: Any) -> None:
        """Guard a plugin.

        Args:
            name: as in the configuration file.
            package: who to blame, with its version.
            plugin: has `compile_filter` or `filter_node`, `compile_score` or `score_node`, and
                perhaps `events_to_register`.

        Raises:
            TypeError: `events_to_register` does not return what it should.
        """
        self.name: Final = name
        self._plugin = plugin
        self._filter = _Blame(name, package, "filter")
        self._score = _Blame(name, package, "score")
        self._events = _events(plugin)

    def compile_filter(
        self, pod: Pod, cluster: Cluster, verdicts: Verdicts
    ) -> CompiledFilter | None:
        with self._filter:
            if hasattr(self._plugin, "filter_node"):
                return _CheckedFilter(
                    NodeFilterAdapter(self._plugin, pod, cluster, verdicts), self, verdicts
                )
            found = self._plugin.compile_filter(pod, cluster, verdicts)
            if not isinstance(found, CompiledFilter | None):
                raise PluginError(
                    f"compile_filter returned {_kind(found)}, not a CompiledFilter or None"
                )
            return None if found is None else _CheckedFilter(found, self, verdicts)

    def compile_score(self, pod: Pod, cluster: Cluster) -> CompiledScore | None:
        with self._score:
            if hasattr(self._plugin, "score_node"):
                return _CheckedScore(NodeScoreAdapter(self._plugin, pod, cluster), self)
            found = self._plugin.compile_score(pod, cluster)
            if not isinstance(found, CompiledScore | None):
                raise PluginError(
                    f"compile_score returned {_kind(found)}, not a CompiledScore or None"
                )
            return None if found is None else _CheckedScore(found, self)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return self._events

    @property
    def filter_blame(self) -> _Blame:
        """What to run the filter in."""
        return self._filter

    @property
    def score_blame(self) -> _Blame:
        """What to run the score in."""
        return self._score


class _CheckedFilter(CompiledFilter):
    """A filter whose answers are looked at."""

    def __init__(self, inner: CompiledFilter, owner: Sandbox, verdicts: Verdicts) -> None:
        self.reads = Reads(inner.reads)
        self.monotone = bool(inner.monotone)
        self.node_names = None if inner.node_names is None else frozenset(inner.node_names)
        self._inner = inner
        self._owner = owner
        self._verdicts = verdicts
        #: Codes that are known to be its own.
        self._known = {FITS}

    def prepare(self) -> Prepared:
        with self._owner.filter_blame:
            said = self._inner.prepare()
            if isinstance(said, Rejected):
                self._check(said.verdict)
            elif not isinstance(said, PrepareStatus):
                raise PluginError(f"prepare returned {_kind(said)}, not PASS, SKIP or Rejected")
            return said

    def codes(self, nodes: NodeView) -> Codes:
        there = _there(nodes)
        if there is not None:
            codes = np.zeros(len(nodes), dtype=np.uint16)
            codes[there] = self.codes(nodes.take(there))
            return codes
        with self._owner.filter_blame:
            found = _integers(self._inner.codes(nodes), len(nodes), "codes")
            for code in np.unique(found).tolist():
                if code not in self._known:
                    self._check_code(code)
            return found.astype(np.uint16)

    def _check_code(self, code: int) -> None:
        if not 0 <= code < len(self._verdicts):
            raise PluginError(f"codes returned {code}, which `verdicts.code` never gave")
        self._check(self._verdicts[code])
        self._known.add(code)

    def _check(self, verdict: Verdict) -> None:
        """Refuse a verdict that nobody could tell of, or that nothing would ever lift."""
        if verdict.plugin != self._owner.name:
            raise PluginError(f"a verdict names the plugin {verdict.plugin!r}")
        reasons: object = verdict.reasons
        if not (isinstance(reasons, tuple) and reasons and all(map(_is_reason, reasons))):
            raise PluginError(f"the reasons of a verdict are {reasons!r}, not a tuple of texts")


class _CheckedScore(CompiledScore):
    """A score whose answers are looked at."""

    def __init__(self, inner: CompiledScore, owner: Sandbox) -> None:
        self.reads = Reads(inner.reads)
        self.needs_normalising = bool(inner.needs_normalising)
        self._inner = inner
        self._owner = owner

    def prepare(self) -> PrepareStatus:
        with self._owner.score_blame:
            return PrepareStatus(self._inner.prepare())

    def cache_key(self) -> Hashable:
        with self._owner.score_blame:
            return self._inner.cache_key()

    def scores(self, nodes: NodeView) -> Scores:
        there = _there(nodes)
        if there is not None:
            scores = np.zeros(len(nodes), dtype=np.int64)
            scores[there] = self.scores(nodes.take(there))
            return scores
        with self._owner.score_blame:
            found = _integers(self._inner.scores(nodes), len(nodes), "scores")
            return found if self.needs_normalising else _in_range(found)

    def normalise(self, raw: Scores) -> Scores:
        with self._owner.score_blame:
            found = self._inner.normalise(raw.copy())
            return _in_range(_integers(found, raw.shape[0], "normalise"))


def _there(nodes: NodeView) -> Int | None:
    """Return the positions in a view that have a node; `None` when all have one.

    A what-if view never has a row without a node, so that nothing of it is lost by taking some.
    """
    exists = nodes.columns.exists()[nodes.rows]
    return None if exists.all() else np.flatnonzero(exists)


def _integers(found: object, size: int, method: str) -> Int:
    """Return what a method returned as integers, one for each row."""
    array = np.asarray(found)
    if array.shape != (size,) or array.dtype.kind not in "iu":
        raise PluginError(
            f"{method} returned {array.dtype} of shape {array.shape}, not integers of shape "
            f"({size},)"
        )
    return array.astype(np.int64)


def _in_range(scores: Scores) -> Scores:
    """Refuse scores that would outweigh all others.

    Source: kube-scheduler v1.36.3 framework/runtime.RunScorePlugins.
    """
    wrong = scores[(scores < 0) | (scores > MAX_SCORE)]
    if wrong.shape[0]:
        raise PluginError(f"an invalid score {wrong[0]}, it should be from 0 to {MAX_SCORE}")
    return scores


def _events(plugin: Any) -> tuple[ClusterEventWithHint, ...]:
    if not hasattr(plugin, "events_to_register"):
        return _EVERYTHING
    found = tuple(plugin.events_to_register())
    if not all(isinstance(each, ClusterEventWithHint) for each in found):
        raise TypeError("events_to_register did not return instances of ClusterEventWithHint")
    return tuple(
        ClusterEventWithHint(each.resource, each.action, _hopeful(each.hint)) for each in found
    )


def _hopeful(hint: Hint) -> Hint:
    """Return a hint that takes an event for helpful when it fails.

    Source: kube-scheduler v1.36.3 backend/queue.isPodWorthRequeuing.
    """

    def asked(pod: Pod, old: Any, new: Any) -> bool:
        try:
            return bool(hint(pod, old, new))
        except (Exception, SystemExit):  # noqa: BLE001 - the code of others may raise anything
            return True

    return asked


def _is_reason(reason: object) -> bool:
    return isinstance(reason, str) and bool(reason.strip())


def _kind(value: object) -> str:
    return type(value).__name__
