"""Plugins of other packages in attempts: results count, exceptions end the attempt."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

from scheduler.framework.cluster_events import Action, ClusterEventWithHint, Resource
from scheduler.framework.plugin import CompiledFilter, CompiledScore, Reads, Rejected
from scheduler.framework.profile import Profile
from scheduler.framework.verdicts import Verdict
from scheduler.model.decisions import Failed, Placed, Preempting, Unschedulable
from scheduler.plugins.external.sandbox import Sandbox
from scheduler.queue.phases import QueuePhase
from tests.support.builders import OURS, node, pod
from tests.support.cluster import Cluster, profiles

MESSAGE = 'running "Mine" {} plugin of acme 1.0: '


class Simple:
    """Rejects nodes with the label `no`, prefers nodes with the label `rate`."""

    name: ClassVar[str] = "Mine"
    reasons: ClassVar[tuple[str, ...]] = ("", "node(s) said no")

    def filter_node(self, pod, node, pods):
        return int("no" in node.metadata.labels)

    def score_node(self, pod, node, pods):
        return int(node.metadata.labels.get("rate", "0"))


class Vector:
    """Rejects nodes with pods, prefers nodes with much memory."""

    def compile_filter(self, pod, cluster, verdicts):
        return HasPods(verdicts.code(Verdict("Mine", ("node(s) had pods",), resolvable=True)))

    def compile_score(self, pod, cluster):
        return Allocatable(cluster.axis.code("memory"))

    def events_to_register(self):
        return (ClusterEventWithHint(Resource.POD, Action.DELETE),)


class HasPods(CompiledFilter):
    reads = Reads.PODS

    def __init__(self, code):
        self.code = code

    def codes(self, nodes):
        assert nodes.columns.exists()[nodes.rows].all()
        return (nodes.pods() > 0) * np.uint16(self.code)


class Allocatable(CompiledScore):
    needs_normalising = True

    def __init__(self, resource):
        self.resource = resource

    def scores(self, nodes):
        assert nodes.columns.exists()[nodes.rows].all()
        return nodes.allocatable(self.resource)

    def normalise(self, raw):
        return raw * 100 // max(raw.max(), 1)


def using(plugin: Any) -> Mapping[str, Profile]:
    """Return the default profile with a plugin of another package."""
    guarded, usual = Sandbox("Mine", "acme 1.0", plugin), profiles()[OURS]
    has_filter = hasattr(plugin, "filter_node") or hasattr(plugin, "compile_filter")
    has_score = hasattr(plugin, "score_node") or hasattr(plugin, "compile_score")
    filters = (*usual.filters, guarded) if has_filter else usual.filters
    scores = (*usual.scores, (guarded, 100)) if has_score else usual.scores
    wakes = (*usual.queueing_hints, *(("Mine", event) for event in guarded.events_to_register()))
    return {OURS: replace(usual, filters=filters, scores=scores, queueing_hints=wakes)}


def test_a_simple_filter_rejects_with_its_reason():
    cluster = Cluster(node("n1").label("no"), using=using(Simple()))

    decision = cluster.schedule(pod("p"))

    assert isinstance(decision, Unschedulable)
    assert decision.message.startswith("0/1 nodes are available: 1 node(s) said no.")


def test_a_simple_score_counts_with_its_weight():
    cluster = Cluster(
        node("n1").label("rate", "1"), node("n2").label("rate", "99"), node("n3").label("no"),
        using=using(Simple()),
    )  # fmt: skip

    assert [cluster.schedule(pod(name)) for name in "ab"] == [Placed("n2"), Placed("n2")]


def test_a_vector_filter_rejects_with_its_reason_and_preemption_resolves_it():
    cluster = Cluster(
        node("n1"), node("gone"), pod("low").on("n1").priority(1), using=using(Vector())
    )
    cluster.delete_node("gone")

    decision = cluster.schedule(pod("high").priority(5))

    assert decision == Preempting(
        "n1", cluster.refs("low"), 0, "0/1 nodes are available: 1 node(s) had pods."
    )


def test_a_vector_score_counts_with_its_weight():
    cluster = Cluster(
        node("n1").memory("1Gi"), node("n2").memory("8Gi"), node("n3"), using=using(Vector())
    )
    cluster.delete_node("n3")

    assert cluster.schedule(pod("p")) == Placed("n2")


def test_the_plugins_own_hints_wake_its_pods():
    cluster = Cluster(node("n1"), pod("a").on("n1"), using=using(Vector()))
    cluster.schedule(pod("p"))

    cluster.add(node("n1").label("new"))
    asleep = cluster.phase("p")
    cluster.delete("a")

    assert asleep is QueuePhase.UNSCHEDULABLE
    assert cluster.phase("p") is not QueuePhase.UNSCHEDULABLE


def test_a_plugin_that_names_no_events_is_woken_by_all():
    cluster = Cluster(node("n1").label("no"), using=using(Simple()))
    cluster.schedule(pod("p"))
    cluster.wait(30)  # its own new condition requeued it once
    cluster.drain()

    assert cluster.woken_by(node("n1").label("other").label("no")) == ["p"]


def test_a_hint_that_fails_means_queue():
    def fails(*_):
        raise ValueError("no idea")

    plugin = Vector()
    plugin.events_to_register = lambda: (
        ClusterEventWithHint(Resource.NODE, Action.UPDATE_NODE_LABEL, fails),
    )
    cluster = Cluster(node("n1"), pod("a").on("n1"), using=using(plugin))
    cluster.schedule(pod("p"))

    assert cluster.woken_by(node("n1").label("new")) == ["p"]


def _says(answer):
    """Return a method that returns, or raises, this."""

    def method(*_):
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return method


def _made(base, methods):
    """Return an instance of a class with some methods that return, or raise, these."""
    return type("Made", base, {name: _says(answer) for name, answer in methods.items()})()


def _answering(**methods):
    return _made((Named,), methods)


def _compiled(**methods):
    return _answering(compile_filter=_made((Fits,), methods))


def _scoring(**methods):
    return _answering(compile_score=_made((Counts,), methods))


class Named:
    name: ClassVar[str] = "Mine"
    reasons: ClassVar[tuple[str, ...]] = ("", "no")


class Fits(CompiledFilter):
    def codes(self, nodes):
        return np.zeros(len(nodes), dtype=np.uint16)


class Counts(CompiledScore):
    needs_normalising = True

    def scores(self, nodes):
        return np.arange(len(nodes))


OF_ANOTHER = Verdict("Other", ("no",), resolvable=True)
WITHOUT_WORDS = Verdict("Mine", (), resolvable=True)
SPELLED = Verdict("Mine", "no", resolvable=True)


@pytest.mark.parametrize(
    ("plugin", "point", "want"),
    [
        (_answering(filter_node=ValueError("a\nb")), "filter", "ValueError: a b (test_sandbox.py:"),
        (_answering(filter_node=SystemExit()), "filter", "SystemExit (test_sandbox.py:"),
        (
            _answering(filter_node=2),
            "filter",
            "filter_node returned 2, which is not an index of `reasons`",
        ),
        (_answering(filter_node=-1), "filter", "filter_node returned -1, which is not an index"),
        (
            _answering(filter_node=True),
            "filter",
            "filter_node returned True, which is not an index",
        ),
        (
            _answering(score_node=101),
            "score",
            "score_node returned 101, which is not an integer from 0 to 100",
        ),
        (_answering(score_node=0.5), "score", "score_node returned 0.5, which is not an integer"),
        (_answering(score_node=RecursionError()), "score", "RecursionError (test_sandbox.py:"),
        (_answering(compile_filter=MemoryError("m")), "filter", "MemoryError: m (test_sandbox.py:"),
        (
            _answering(compile_filter="x"),
            "filter",
            "compile_filter returned str, not a CompiledFilter or None",
        ),
        (
            _answering(compile_score=1),
            "score",
            "compile_score returned int, not a CompiledScore or None",
        ),
        (_compiled(prepare=OSError("x")), "filter", "OSError: x (test_sandbox.py:"),
        (_compiled(prepare=7), "filter", "prepare returned int, not PASS, SKIP or Rejected"),
        (_compiled(prepare=Rejected(OF_ANOTHER)), "filter", "a verdict names the plugin 'Other'"),
        (_compiled(prepare=Rejected(WITHOUT_WORDS)), "filter", "the reasons of a verdict are ()"),
        (_compiled(prepare=Rejected(SPELLED)), "filter", "the reasons of a verdict are 'no', not"),
        (_compiled(codes=KeyError("x")), "filter", "KeyError: 'x' (test_sandbox.py:"),
        (_compiled(codes=[0]), "filter", "codes returned int64 of shape (1,), not integers of"),
        (_compiled(codes=[True, True]), "filter", "codes returned bool of shape (2,)"),
        (_compiled(codes=[0, 60_000]), "filter", "codes returned 60000, which is not a code"),
        (_compiled(codes=[0, -1]), "filter", "codes returned -1, which is not a code"),
        (_scoring(cache_key=ValueError()), "score", "ValueError (test_sandbox.py:"),
        (_scoring(prepare=9), "score", "ValueError: 9 is not a valid PrepareStatus"),
        (_scoring(scores=[0.5, 1.5]), "score", "scores returned float64 of shape (2,)"),
        (_scoring(normalise=[0, 101]), "score", "an invalid score 101, it should be from 0 to"),
        (_scoring(normalise=[-1, 0]), "score", "an invalid score -1, it should be from 0 to 100"),
        (_scoring(normalise=[0]), "score", "normalise returned int64 of shape (1,)"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_mistake_fails_the_attempt_and_nothing_else(plugin: Any, point: str, want: str):
    cluster = Cluster(node("n1"), node("n2"), using=using(plugin) | {"other": profiles()[OURS]})

    decision = cluster.schedule(pod("p"))

    assert isinstance(decision, Failed)
    assert decision.message.startswith(MESSAGE.format(point) + want)
    assert cluster.phase("p") is QueuePhase.BACKOFF
    assert isinstance(cluster.schedule(pod("q").scheduler("other")), Placed)


def test_a_plugin_that_works_again_is_trusted_again():
    plugin = _answering(filter_node=0, score_node=101)
    cluster = Cluster(node("n1"), node("n2"), using=using(plugin))
    failed = cluster.schedule(pod("p"))

    plugin.score_node = lambda *_: 100
    cluster.wait(5)
    cluster.drain()

    assert isinstance(failed, Failed)
    assert cluster.pod("p").spec.node_name


def test_a_plugin_may_have_nothing_to_say_about_a_pod():
    plugin = _answering(compile_filter=None, compile_score=None)
    cluster = Cluster(node("n1"), node("n2"), using=using(plugin))

    assert isinstance(cluster.schedule(pod("p")), Placed)
