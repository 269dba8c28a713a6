"""Sentences that answer, as the scheduler adds them to its documents, for the stand-in of the API.

They are added to documents that are encoded already, where the scheduler says nothing yet.
"""

from typing import Any

from tests.support.stand_in_documents import World, at

__all__ = ["evicted_pod", "with_verdict"]


def with_verdict(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document about a pod, a preemption or a plan, or a list of these, with verdicts."""
    if "pending" in document:
        return {**_pod(document), **document}
    if "evicts" in document or "reference" in document:
        # Violated budgets are not in the answers that the stand-in is made of.
        plan = _plan(document)
        return {**document, **plan} if "budgets" in plan else {**plan, **document}
    items = [
        {**_preemption(each), **each} if "decidedAt" in each else each
        for each in document.get("items", ())
    ]
    return {**document, "items": items} if items else document


def _pod(document: dict[str, Any]) -> dict[str, Any]:
    name = _name(document["pending"]["pod"])
    if "preemption" not in document:
        return {"verdict": f"{name} waits: no node has enough cpu.", "impact": "none"}
    possible = document["preemption"]
    victims = _count(len(possible.get("victims", ())), "pod")
    text = f"{name} would run on {possible['node']} if {victims} of lower priority were evicted."
    return {"verdict": text, "impact": _impact(possible)}


def _preemption(document: dict[str, Any]) -> dict[str, Any]:
    victims = _count(len(document.get("victims", ())), "pod")
    verb = "were" if document.get("endedAt") else "are being"
    text = f"{victims} {verb} evicted on {document['node']} for {_name(document['preemptor'])}."
    return {"verdict": text, "impact": _impact(document)}


def _plan(document: dict[str, Any]) -> dict[str, Any]:
    displaced = _count(len(document.get("displaced", ())), "pod")
    broken = [each for each in document.get("items", ()) if each.get("pdbViolations")]
    if not document.get("evicts"):
        return {"verdict": "All pods fit, and nothing is evicted.", "impact": "none"}
    if not broken:
        return {"verdict": f"{displaced} would be evicted.", "impact": "evictions"}
    budget = {"namespace": "batch", "name": "train", "allowed": 0, "victims": len(broken)}
    text = f"{displaced} would be evicted, which violates the budget batch/train."
    return {"verdict": text, "impact": "budgets", "budgets": [budget]}


def evicted_pod(world: World, namespace: str, name: str) -> dict[str, Any] | None:
    """Return the document of a victim of a past preemption; `None` if there is none of the name."""
    for preemption in world.preemptions:
        for victim in preemption.victims:
            if (victim.pod.namespace, victim.pod.name) != (namespace, name):
                continue
            text = (
                f"{namespace}/{name} was evicted from {preemption.node} for"
                f" {preemption.preemptor.namespace}/{preemption.preemptor.name}."
            )
            return {
                "pending": {"pod": victim.pod, "schedulerName": "preemptive-scheduler",
                            "phase": "evicted", "since": at(9_000)},
                "now": at(0),
                "message": "the pod was evicted",
                "state": "evicted",
                "verdict": text,
                "impact": _IMPACTS[victim.violates_pdb],
                "evictions": [{"victim": victim, "preemption": preemption}],
            }  # fmt: skip
    return None


_IMPACTS = ("evictions", "budgets")


def _impact(document: dict[str, Any]) -> str:
    return _IMPACTS[document.get("pdbViolations", 0) > 0]


def _name(pod: dict[str, Any]) -> str:
    return "A pod" if pod.get("hidden") else f"{pod['namespace']}/{pod['name']}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
