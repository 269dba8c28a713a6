"""Events and conditions of a preemptor name no objects of other namespaces."""

import pytest

from scheduler.model.effects import Effect, Evict, Nominate, RecordEvent, SetCondition
from scheduler.model.events import EffectFailed, Failure, FailureKind
from scheduler.model.policies import DisruptionBudgets
from scheduler.state.preemption.preemption_backoff import STOP_AFTER
from tests.support.builders import PodBuilder, pdb, pod
from tests.support.cluster import Cluster
from tests.support.policies import HOUR, app, at_most, nodes, policy, shown, wants

#: What no text for a pod of the namespace `default` may have.
SECRETS = ("theirs", "private")


def victim(name: str = "private", space: str = "theirs") -> PodBuilder:
    low = pod(name).namespace(space).on("n1").cpu("4").priority(0)
    return low.owner("StatefulSet", "private-set").label("app", "web")


def texts(cluster: Cluster) -> list[str]:
    """Return all that is written where users of the namespace `default` may read it."""

    def written(effect: Effect) -> str:
        match effect:
            case RecordEvent(regarding=ref, note=text) if ref.namespace == "default":
                return text
            case SetCondition(message=text):
                return text
            case Nominate(message=text, plan=plan):
                return f"{text} {plan}"
        return ""

    return list(filter(None, map(written, cluster.effects)))


def secretive(cluster: Cluster) -> bool:
    found = texts(cluster)
    assert found
    return not any(secret in text for text in found for secret in SECRETS)


def refuse_eviction(cluster: Cluster) -> None:
    """Let the API server refuse an eviction in its own words, which name the victim."""
    (effect,) = cluster.held
    assert isinstance(effect, Evict)
    cluster.held.clear()
    said = f'pods "{effect.victim.name}" is forbidden in {effect.victim.namespace}'
    cluster.observe(EffectFailed(effect, Failure(FailureKind.FORBIDDEN, said)))


def test_an_eviction_that_is_refused_names_no_victim_of_another_namespace():
    cluster = Cluster(*nodes("n1"), victim())
    cluster.hold(Evict)
    cluster.schedule(wants())

    refuse_eviction(cluster)

    uid = victim().build().uid
    assert texts(cluster)[-1] == (
        f"preemption: evicting a pod of another namespace (uid {uid}): forbidden"
    )


def test_an_eviction_that_is_refused_names_a_victim_of_the_same_namespace():
    cluster = Cluster(*nodes("n1"), victim("low", "default"))
    cluster.hold(Evict)
    cluster.schedule(wants())

    refuse_eviction(cluster)

    assert texts(cluster)[-1] == (
        'preemption: evicting pod default/low: pods "low" is forbidden in default'
    )


def fruitless(cluster: Cluster, owner: str, times: int) -> None:
    """Let preemptions fail again and again."""
    ledger = cluster.machine.ledger
    for _ in range(times):
        ledger.record_failure("Pod/default/high", "n1", [owner], cluster.now, lost=True)


@pytest.mark.parametrize(
    ("times", "said"),
    [
        (2, "PreemptionLoop: node(s) where preempting pods of another namespace failed"),
        (STOP_AFTER, "PreemptionLoop: preempting pods of another namespace failed"),
    ],
    ids=["paused", "stopped"],
)
def test_a_loop_names_no_owner_of_another_namespace(times: int, said: str):
    cluster = Cluster(*nodes("n1"), victim())
    fruitless(cluster, "StatefulSet/theirs/private-set", times)

    cluster.schedule(wants())

    assert said in texts(cluster)[-1]
    assert secretive(cluster)


def test_an_explanation_names_the_owner():
    cluster = Cluster(*nodes("n1"), victim())
    fruitless(cluster, "StatefulSet/theirs/private-set", 2)
    cluster.schedule(wants())

    (why,) = shown(cluster)["n1"]

    assert why.startswith("PreemptionLoop: node(s) where preempting pods of another namespace")
    assert why.endswith(": StatefulSet theirs/private-set")


def test_the_event_about_a_loop_names_no_owner_of_another_namespace():
    cluster = Cluster(*nodes("n1"), victim())
    cluster.schedule(wants())
    for number in range(600):
        for each in cluster.asked(Evict):
            assert isinstance(each, Evict)
            cluster.delete(each.victim.key)
            back = f"private-{number}"
            cluster.add(pod(back).namespace("theirs").on("n1").cpu("4").priority(0)
                        .owner("StatefulSet", "private-set").scheduler("other"))  # fmt: skip
        cluster.effects = [each for each in cluster.effects if not isinstance(each, Evict)]
        cluster.wait(60.0)
        cluster.drain()

    told = [each.note for each in cluster.asked(RecordEvent) if each.reason == "PreemptionLoop"]
    assert told
    assert told[0].startswith(
        "Preempting pods of another namespace failed repeatedly because other pods"
    )
    assert secretive(cluster)


@pytest.mark.parametrize(
    "rules",
    [
        {"victim_min_runtime": HOUR},
        {"max_victims_per_preemption": 0},
        {"budgets": at_most(0)},
        {"disruption_budgets": DisruptionBudgets.STRICT},
        {"victims": app("web"), "budgets": at_most(0)},
    ],
    ids=["runtime", "victims", "budgets", "disruption budgets", "selected"],
)
def test_a_refusal_by_a_policy_names_no_pod_of_another_namespace(rules):
    guard = pdb("private-budget").namespace("theirs").selects(app="web").allows(0)
    cluster = Cluster(policy(**rules), *nodes("n1"), guard, victim())

    cluster.schedule(wants())

    assert "refuses" in texts(cluster)[-1]
    assert secretive(cluster)
