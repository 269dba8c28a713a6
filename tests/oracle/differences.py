"""The documented differences, each in one place with its reason; docs/differences.md lists them.

Everything that is not excused here must be equal.
"""

import copy
import re
from collections.abc import Iterable, Iterator
from typing import Any

from tests.oracle.verdicts import Attempt

__all__ = [
    "another_error", "chosen_differently", "configured_once", "frees_another", "given_up",
    "incomparable", "is_given_up", "is_late", "is_paused", "rejection", "text", "without_repeats",
]  # fmt: skip

_INSUFFICIENT = "NodeResourcesFit: "
#: What a selector is invalid for, and then why: up to the message of the post filters, if any.
_PARSING = re.compile(r"(parsing pod: \w+: ).*?((?:\. not found)?)$")
_PAUSED = "node(s) where preemption has failed for pods of its owner (until "
#: Upstream's errors over selectors and terms that the API server does not let in, and over claims
#: of other pods.
_INVALID = re.compile(
    r'running PreScore plugin "(NodeAffinity|PodTopologySpread)": '
    r'|running PreFilter plugin "PodTopologySpread": get constraints from pod: '
    r'|running "NodeVolumeLimits" filter plugin: '
)
_PRE_BIND = 'running PreBind plugin "DynamicResources": '
_TIMED_OUT = ": timed out trying to allocate devices"
_OF_DEVICES = 'running "DynamicResources" filter plugin: '
#: Several errors of a dry run; each of them begins with the plugin.
_ERRORS = re.compile(r"(?<=preemption: \[)(running .*)(?=\])")
_NEXT_ERROR = re.compile(r', (?=running ")')


def incomparable(ours: Attempt, theirs: Attempt) -> bool:
    """Tell whether an attempt, and all that follows from it, need not be the same.

    An attempt that meets an invalid preferred node term or spread constraint is an error upstream,
    and is made again and again. Here such a preference is ignored, and such a requirement rejects
    the pod. The same goes for a claim of a running pod that cannot be looked into: here it does not
    count.

    What the API server refuses while a pod is being bound is the end of the attempt upstream. Here
    the attempt has ended by then, and every write succeeds.
    """
    if theirs.decision == "Error" and theirs.message.startswith(_PRE_BIND):
        return ours.decision == "Scheduled" and ours.pod == theirs.pod
    return theirs.decision == "Error" and _INVALID.match(theirs.message) is not None


def is_paused(ours: Attempt, theirs: Attempt) -> bool:
    """Return whether a preemptor waits here or preempts elsewhere, and preempts again upstream.

    A preemption that did not help backs its node off for some seconds; upstream preempts there
    again at once. All that follows from it need not be the same: in these seconds other pods may
    be placed.
    """
    if theirs.pod != ours.pod or theirs.decision != "Preempting":
        return False
    if ours.decision == "Unschedulable":
        return _PAUSED in ours.message
    there = ours.nodes.get(theirs.node or "")
    paused = there is not None and any(_PAUSED in text for text in there.vetoes)
    return paused and ours.decision == "Preempting" and ours.node != theirs.node


def is_given_up(ours: Attempt, theirs: Attempt) -> bool:
    """Return whether one side gives up a search for devices, and the other one may have ended it.

    Here the time limit is a number of steps, upstream it is measured on the clock. Here other nodes
    are tried; where upstream rejects those that are given up here, all else must be the same. All
    that follows need not be.
    """
    if ours.pod != theirs.pod:
        return False
    return (is_late(ours) or is_late(theirs)) or any(
        name in theirs.nodes and theirs.nodes[name].rejection is None for name in given_up(ours)
    )


def is_late(attempt: Attempt) -> bool:
    """Return whether an attempt ends as a search for devices takes too long."""
    return attempt.decision == "Error" and attempt.message.endswith(_TIMED_OUT)


def given_up(ours: Attempt) -> frozenset[str]:
    """Return the nodes where a search for devices was given up here."""
    return frozenset(
        name for name, found in ours.nodes.items() if (found.rejection or "").endswith(_TIMED_OUT)
    )


def frees_another(ours: Attempt, theirs: Attempt) -> bool:
    """Return whether each side deallocates another claim of a pod, and nothing else differs.

    Upstream takes any of those that are in the way, here it is the first one. All that follows from
    it need not be the same.
    """
    if (ours.pod, ours.decision, ours.claims.keys()) != (
        theirs.pod, theirs.decision, theirs.claims.keys(),
    ):  # fmt: skip
        return False
    different = [key for key, claim in ours.claims.items() if claim != theirs.claims[key]]
    freed = {key for key in different if not ours.claims[key]}
    freed_there = {key for key in different if not theirs.claims[key]}
    rejected = ours.decision in ("Unschedulable", "Preempting")
    return rejected and len(freed) == len(freed_there) == 1 and freed | freed_there == {*different}


def configured_once(claim: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return a claim without the configurations that v1.36.3 adds for each request again."""
    if not claim or "config" not in claim.get("allocation", {}).get("devices", {}):
        return claim
    claim = copy.deepcopy(claim)
    devices = claim["allocation"]["devices"]
    devices["config"] = [
        each
        for at, each in enumerate(devices["config"])
        if each["source"] != "FromClaim" or each not in devices["config"][:at]
    ]
    return claim


def rejection(found: str | None) -> str | None:
    """Return a rejection in a form that is the same on both sides.

    The reasons for extended resources come in the order of a map upstream, and in the order of
    their names here. Why a selector is invalid is told in other words.
    """
    if found is None:
        return None
    if not found.startswith(_INSUFFICIENT):
        return _PARSING.sub(r"\1\2", found)
    reasons = found.removeprefix(_INSUFFICIENT).split(", ")
    return _INSUFFICIENT + ", ".join(sorted(reasons))


def text(attempt: Attempt) -> str:
    """Return the message of an attempt in a form that is the same on both sides.

    An error is told in the words of the language that it happened in, and the message of a gated
    pod is the API server's: upstream's scheduler has none. Several errors of a dry run come in the
    order of the nodes upstream, which begins anywhere.
    """
    if attempt.decision in ("Error", "Gated"):
        return ""
    return _ERRORS.sub(_sorted, _PARSING.sub(r"\1\2", attempt.message))


def without_repeats(attempts: Iterable[Attempt]) -> Iterator[Attempt]:
    """Yield upstream's attempts but those that repeat the errors of a dry run in another order.

    An attempt with the same message as before is not reported on either side.
    """
    last: dict[str, Attempt] = {}
    for attempt in attempts:
        before = last.get(attempt.pod)
        last[attempt.pod] = attempt
        repeated = (
            before is not None
            and before.decision == attempt.decision == "Unschedulable"
            and before.message != attempt.message
            and text(before) == text(attempt)
        )
        if not repeated:
            yield attempt


def _sorted(errors: re.Match[str]) -> str:
    return ", ".join(sorted(_NEXT_ERROR.split(errors[0])))


def another_error(ours: Attempt, theirs: Attempt) -> bool:
    """Return whether an attempt ends with an error about devices that upstream does not meet.

    The first node that fails ends the attempt; which one is looked at first is not compared.
    """
    if ours.decision != "Error" or not theirs.message.startswith(_OF_DEVICES):
        return False
    return ours.message not in theirs.errors


def chosen_differently(ours: Attempt, theirs: Attempt) -> str:
    """Return how a choice differs from what may be chosen; empty when it does not.

    Among equally good nodes upstream takes the one on top of its heap, among equally good
    candidates the first of a map; here a hash decides. Any of them is right.
    """
    if ours.decision == "Scheduled" and theirs.best:
        if ours.node not in theirs.best:
            return f"node {ours.node} is not among the best {list(theirs.best)}"
    elif ours.decision == "Preempting":
        if ours.node not in theirs.best_candidates:
            return f"candidate {ours.node} is not among the best {list(theirs.best_candidates)}"
    elif ours.node != theirs.node:
        return f"node {ours.node}, upstream {theirs.node}"
    return ""
