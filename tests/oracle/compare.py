"""Compares everything that both sides say about a cluster.

Only the first attempt that differs is reported: what follows may differ because of it.
"""

from collections.abc import Iterator
from itertools import zip_longest

from tests.oracle import differences
from tests.oracle.verdicts import Answer, Attempt, Found

__all__ = ["compare", "gives_up"]

_DEVICES = "DynamicResources: "


def compare(ours: Answer, theirs: Answer) -> list[str]:
    """Return how the answers differ, a line each; empty when they agree."""
    if ours.error or theirs.error:
        sides = (("here", ours.error), ("upstream", theirs.error))
        return [f"{side}: {error}" for side, error in sides if error]
    others = differences.without_repeats(theirs.attempts)
    for number, (our, their) in enumerate(zip_longest(ours.attempts, others, fillvalue=None), 1):
        if our is None or their is None:
            return [f"attempt {number}: {_brief(our)}, upstream {_brief(their)}"]
        if (
            differences.incomparable(our, their)
            or differences.is_paused(our, their)
            or differences.is_given_up(our, their)
            or differences.frees_another(our, their)
        ):
            return []
        found = list(_attempt(our, their))
        if found or our.spares:
            # Upstream evicts a pod that was spared here, so all that follows need not be the same.
            return [f"attempt {number}, {our.pod}: {line}" for line in found]
    if ours.final != theirs.final:
        return [f"final places {ours.final}, upstream {theirs.final}"]
    return []


def gives_up(answer: Answer) -> bool:
    """Return whether a search for devices was given up in some attempt of a side."""
    attempts = answer.attempts
    return any(differences.is_late(each) or bool(differences.given_up(each)) for each in attempts)


def _brief(attempt: Attempt | None) -> str:
    return "no attempt" if attempt is None else f"{attempt.pod} {attempt.decision}"


def _attempt(ours: Attempt, theirs: Attempt) -> Iterator[str]:
    if ours.pod != theirs.pod:
        yield f"upstream decides for {theirs.pod}"
        return
    if ours.decision != theirs.decision:
        yield f"{_told(ours)}, upstream {_told(theirs)}"
    else:
        yield from _choice(ours, theirs)
        if differences.text(ours) != differences.text(theirs):
            yield f"message {ours.message!r}, upstream {theirs.message!r}"
        if differences.another_error(ours, theirs):
            yield f"error {ours.message!r}, upstream {list(theirs.errors)}"
        if ours.rejectors != theirs.rejectors:
            yield f"rejected by {list(ours.rejectors)}, upstream {list(theirs.rejectors)}"
    if ours.decision != "Error":
        # Upstream names the nodes that were filtered before the error.
        yield from _nodes(ours, theirs)
    yield from _claims(ours, theirs)


def _claims(ours: Attempt, theirs: Attempt) -> Iterator[str]:
    if theirs.decision == "Gated":
        # No attempt was made.
        return
    for key in sorted(ours.claims.keys() | theirs.claims.keys()):
        our, their = ours.claims.get(key), theirs.claims.get(key)
        if our != differences.configured_once(their):
            yield f"claim {key} {our}, upstream {their}"
    if ours.mappings != theirs.mappings:
        yield f"requests of containers {list(ours.mappings)}, upstream {list(theirs.mappings)}"


def _told(attempt: Attempt) -> str:
    where = f" on {attempt.node}" if attempt.node else ""
    victims = f" for {list(attempt.victims)}" if attempt.victims else ""
    message = f" ({attempt.message})" if attempt.message else ""
    return f"{attempt.decision}{where}{victims}{message}"


def _choice(ours: Attempt, theirs: Attempt) -> Iterator[str]:
    wrong = differences.chosen_differently(ours, theirs)
    if wrong:
        yield wrong
    if ours.decision != "Preempting" or ours.node is None:
        return
    victims, violations = theirs.candidates.get(ours.node, ((), 0))
    if ours.victims != victims:
        yield f"victims on {ours.node} {list(ours.victims)}, upstream {list(victims)}"
    if ours.violations != violations:
        yield f"violations on {ours.node} {ours.violations}, upstream {violations}"


def _nodes(ours: Attempt, theirs: Attempt) -> Iterator[str]:
    given_up = differences.given_up(ours)
    for name in sorted(ours.nodes.keys() | theirs.nodes.keys()):
        our, their = ours.nodes.get(name), theirs.nodes.get(name)
        if their is None and our is not None and our.rejection and theirs.decision == "Scheduled":
            # Upstream records nothing about nodes that a PreFilter has ruled out, unless all fail.
            continue
        if our is None or their is None:
            yield f"node {name}: {_seen(our)}, upstream {_seen(their)}"
            continue
        same = differences.rejection(our.rejection) == differences.rejection(their.rejection)
        if not same and not (name in given_up and (their.rejection or "").startswith(_DEVICES)):
            yield f"node {name}: {_seen(our)}, upstream {_seen(their)}"
        yield from _scores(name, our, their)


def _seen(found: Found | None) -> str:
    if found is None:
        return "not looked at"
    return "fits" if found.rejection is None else f"{found.rejection!r}"


def _scores(name: str, ours: Found, theirs: Found) -> Iterator[str]:
    for plugin in sorted(ours.scores.keys() | theirs.scores.keys()):
        our, their = ours.scores.get(plugin, 0), theirs.scores.get(plugin, 0)
        if our != their:
            yield f"node {name}: {plugin} {our}, upstream {their}"
