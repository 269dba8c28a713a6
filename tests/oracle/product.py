"""Our side: the code of `plan --explain`, in this process."""

import json
import traceback
from typing import Final

from scheduler.config import load
from scheduler.config.settings import Settings
from scheduler.model import decisions
from scheduler.model.decisions import Failed, Gated, Placed, Preempting, Unschedulable
from scheduler.model.reference import REFERENCES, Reference
from scheduler.plugins import registry
from scheduler.queue.backoff import PodBackoff
from scheduler.sim.planner import Planner, PlanOptions
from tests.oracle.generate import Cluster
from tests.oracle.generating.dice import Object
from tests.oracle.verdicts import Answer, Attempt, Found
from tests.support.typed import typed

__all__ = ["decide"]

_DEFAULTS: Final = {name: load.defaults(server=reference) for name, reference in REFERENCES.items()}


def decide(cluster: Cluster, reference: str) -> Answer:
    """Decide a cluster as a release does; an exception is an answer, too."""
    try:
        return _decide(cluster, REFERENCES[reference])
    except Exception:  # noqa: BLE001 - whatever goes wrong is what is looked for
        return Answer((), error=traceback.format_exc())


def _decide(cluster: Cluster, reference: Reference) -> Answer:
    settings = _settings(cluster.config, reference)
    backoff = PodBackoff(settings.pod_initial_backoff_seconds, settings.pod_max_backoff_seconds)
    objects = typed(cluster.objects)
    planner = Planner(objects, registry.profiles(settings), backoff, PlanOptions(explain=True))
    attempts = list(planner.attempts())
    if cluster.settle:
        attempts += planner.settle()
    final = planner.final() if cluster.settle else {}
    return Answer(tuple(_attempt(each) for each in attempts), final)


def _settings(config: Object | None, reference: Reference) -> Settings:
    if config is None:
        return _DEFAULTS[reference.name]
    return load.parse(json.dumps(config), source="config", server=reference)


def _attempt(decided: decisions.Attempt) -> Attempt:
    decision, node, message = "", None, ""
    victims: tuple[str, ...] = ()
    violations = 0
    match decided.decision:
        case Placed(chosen):
            decision, node = "Scheduled", chosen
        case Preempting(chosen, leaving, violations, message):
            decision, node = "Preempting", chosen
            victims = tuple(each.key for each in leaving)
        case Unschedulable(message):
            decision = "Unschedulable"
        case Gated(message):
            decision = "Gated"
        case Failed(message):
            decision = "Error"
    nodes = {
        each.name: Found(each.rejection, each.scores, each.objections) for each in decided.trace
    }
    return Attempt(
        pod=decided.pod.key,
        decision=decision,
        node=node,
        victims=victims,
        violations=violations,
        message=message,
        rejectors=decided.plugins,
        nodes=nodes,
    )
