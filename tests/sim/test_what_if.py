"""What would happen if objects were applied: placements, victims and what becomes of them."""

import itertools
from collections import deque
from typing import Any

import pytest

from scheduler.config import load
from scheduler.core.machine import Machine
from scheduler.core.snapshot.copying import MachineCopy, copying
from scheduler.core.snapshot.encoding import encoded
from scheduler.model import times
from scheduler.model.decisions import Placed
from scheduler.model.effects import Ask, Bind, Effect, Evict, Nominate, SaveLedger
from scheduler.model.events import LedgerLoaded
from scheduler.model.policies import Budget
from scheduler.model.rest.preemptions import PolicyVeto
from scheduler.model.rest.what_if import WhatIfAnswer, WhatIfRequest
from scheduler.queue.backoff_duration import PodBackoff
from scheduler.sim.manifests import ManifestError, Manifests
from scheduler.sim.what_if import what_if
from scheduler.sim.what_if_cluster import State, WhatIfCluster, WhatIfOptions
from scheduler.state.preemption.ledger import EvictionEntry, Ledger
from tests.support.builders import EPOCH, OURS, node, pdb, pod
from tests.support.cluster import Cluster, profiles
from tests.support.policies import policy
from tests.support.stories import objects_of

NOW = EPOCH + 1000.0


def state(*objects: Any, ledger: str = "", **fields: Any) -> State:
    """Return the state of a scheduler that knows some objects and has decided nothing.

    A text gives nodes and pods as stories do.
    """
    found = Manifests()
    spelled = ([each] if not isinstance(each, str) else objects_of(each) for each in objects)
    for each in itertools.chain.from_iterable(spelled):
        built = each.build() if hasattr(each, "build") else each
        kinds = {"Pod": found.pods, "Node": found.nodes, "PodDisruptionBudget": found.pdbs}
        kinds.get(type(built).__name__, found.policies).append(built)
    options = WhatIfOptions(now=NOW, adopts=False)
    live = WhatIfCluster(found, profiles(), PodBackoff(), options)
    if ledger:
        live.observe(LedgerLoaded(ledger))
    return of_machine(live.machine, **fields)


def of_machine(machine: Machine, **fields: Any) -> State:
    """Return the state of a machine."""
    copy = MachineCopy()
    deque(copying(machine, copy), maxlen=0)
    return State([*encoded(copy)], load.defaults(), NOW, **fields)


def new(name: str, cpu: str = "1", priority: int = 0, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "c", "resources": {"requests": {"cpu": cpu}}}
    body = {"priority": priority, "schedulerName": OURS, "containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": body}


def new_node(name: str, **allocatable: str) -> dict[str, Any]:
    status = {"allocatable": {"pods": "10", **allocatable}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def asked(around: State, *objects: dict[str, Any], **fields: Any) -> WhatIfAnswer:
    return what_if(around, WhatIfRequest(objects=objects, **fields))


def replica(name: str, on: str):
    return pod(name).on(on).cpu("1").owner("ReplicaSet", "web-1")


#: A replica of a ReplicaSet, up to the end of its name, and what it has.
REPLICA, OWNED = "pod web-1", "cpu=1 owner=ReplicaSet,web-1"


# The pods of the request


def test_a_pod_that_fits_says_where():
    answer = asked(state(node("n1").cpu("2")), new("x"))

    (item,) = answer.items
    assert (item.decision, item.node, item.final_node) == ("Scheduled", "n1", "n1")
    assert (item.pod.namespace, item.pod.name, item.pod.requests) == (
        "default",
        "x",
        {"cpu": 1000},
    )
    assert (answer.evicts, answer.displaced, answer.others, answer.warnings) == (False, (), (), ())
    assert (answer.at, answer.reference) == (times.stamp(NOW), "v1.36")


def test_a_pod_that_fits_nowhere_says_why_on_how_many_nodes():
    answer = asked(state("node n1 cpu=1; node n2 cpu=1; node n3 cordoned"), new("x", "2"))

    (item,) = answer.items
    assert item.decision == "Unschedulable"
    assert [(each.plugin, each.nodes, each.examples) for each in item.verdicts] == [
        ("NodeResourcesFit", 2, ("n1", "n2")),
        ("NodeUnschedulable", 1, ("n3",)),
    ]


@pytest.mark.parametrize(
    ("cluster", "spec", "says"),
    [
        ("node n1 cpu=2; pod a@n1 cpu=1 priority=9; node n2 cpu=1", {"priority": 5},
         ["no: nothing there has a lower priority", "no"]),
        ("node n1 cpu=2; node n2 cpu=2; pod a@n1 cpu=1 priority=1; pod b@n2 cpu=1 priority=9",
         {"priority": 5}, ["yes, on 1 of 2"]),
        ("node n1 cpu=2; pod a@n1 cpu=1 priority=1; pod b@n1 cpu=1 priority=9", {"priority": 5},
         ["no: it would still not fit"]),
        ("node n1 cpu=2; pod a@n1 cpu=1 priority=1; node n2 cordoned",
         {"priority": 5, "preemptionPolicy": "Never"}, ["no: the pod never preempts", "no"]),
    ],
    ids=["nothing lower", "yes", "not enough", "never"],
)  # fmt: skip
def test_each_reason_says_whether_evictions_help(cluster, spec, says):
    (item,) = asked(state(cluster), new("x", "2", **spec)).items

    assert [each.eviction for each in item.verdicts] == says


def test_verdicts_on_a_pod_that_fits_are_given_on_demand():
    around = state(node("n1").cpu("1"), node("n2").cordoned())

    assert asked(around, new("x")).items[0].verdicts == ()
    assert asked(around, new("x"), explain=True).items[0].verdicts[0].examples == ("n2",)


def test_a_gated_pod_is_planned():
    gated = new("gated", schedulingGates=[{"name": "g"}])

    (item,) = asked(state(node("n1").cpu("4")), gated).items

    assert (item.pod.name, item.decision) == ("gated", "Gated")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param(
            {"schedulerName": None},
            'scheduler "default-scheduler"; spec.schedulerName must be preemptive-scheduler',
            id="that names none",
        ),
        pytest.param(
            {"schedulerName": "preemptive-schedular"},
            'scheduler "preemptive-schedular", did you mean "preemptive-scheduler"?',
            id="with a typing error",
        ),
    ],
)
def test_a_pod_of_another_scheduler_is_not_planned_unless_the_request_names_one(spec, message):
    around, other = state("node n1 cpu=1; pod low@n1 cpu=1"), new("x", priority=9, **spec)

    (item,) = (answer := asked(around, other)).items
    (forced,) = asked(around, other, scheduler_name=OURS).items

    assert (item.decision, item.node, item.message) == ("NotPlanned", "", message)
    assert not answer.evicts
    assert forced.decision == "Preempting"


def test_an_unknown_scheduler_name_is_refused():
    with pytest.raises(ManifestError, match=f"known: {OURS}"):
        asked(state(node("n1")), new("x"), scheduler_name="another")


def test_new_pods_wait_behind_pods_of_equal_priority():
    around = state(node("n1").cpu("1"), pod("waits").cpu("1"))

    answer = asked(around, new("x"))

    assert answer.items[0].decision == "Unschedulable"
    assert answer.others == ()


def test_nodes_of_the_request_count_and_keep_the_status_that_they_have():
    labelled = {"apiVersion": "v1", "kind": "Node"}
    labelled["metadata"] = {"name": "n1", "labels": {"disk": "ssd"}}

    answer = asked(
        state("node n1 cpu=2"), labelled, new_node("n2", cpu="8"),
        new("a", "2", nodeSelector={"disk": "ssd"}), new("b", "8"),
    )  # fmt: skip

    assert [each.node for each in answer.items] == ["n1", "n2"]


def test_a_pod_that_runs_is_kept_and_a_pending_one_is_replaced():
    around = state(node("n1").cpu("2"), pod("runs").on("n1").cpu("1"), pod("waits").cpu("9"))

    answer = asked(around, new("runs", "2"), new("waits", "1"))

    assert [(each.pod.name, each.node) for each in answer.items] == [("waits", "n1")]
    assert answer.warnings == (
        "1 of the given pods are on nodes already; they are kept as they are",
    )


# Preemption


def test_a_preemption_has_its_candidates_side_by_side_and_what_decided():
    around = state(
        """node n1 cpu=1; node n2 cpu=1; node n3 cpu=1; node n4 cpu=1
        pod guarded@n1 cpu=1 label=app,web; pod important@n2 cpu=1 priority=5
        pod old@n3 cpu=1 started=0; pod young@n4 cpu=1 started=500""",
        pdb("b").selects(app="web"),
    )

    answer = asked(around, new("x", priority=9))

    (item,) = answer.items
    assert (item.decision, item.node, item.final_node) == ("Preempting", "n4", "n4")
    assert [(each.node, each.lost_by) for each in item.candidates] == [
        ("n4", ""),
        ("n3", "earliestStart"),
        ("n2", "highestPriority"),
        ("n1", "pdbViolations"),
    ]
    assert (item.criterion, item.candidates_total) == ("earliestStart", 4)
    (victim,) = item.victims
    assert (victim.pod.name, victim.ran_seconds, victim.violates_pdb) == ("young", 500.0, False)
    assert answer.evicts


def test_a_node_that_is_chosen_for_freed_resources_says_so():
    around = state("""node n1 cpu=1; node n2 cpu=1; pod leaving@n1 cpu=1 priority=5 preempted
        pod low@n2 cpu=1 priority=1; pod p cpu=1 priority=10 nominated=n1 plan=leaving""")

    answer = asked(around, new_node("n3", cpu="1"), new("x", priority=9), settle=False)

    (item,) = answer.items
    assert [(each.pod.name, each.node) for each in answer.others] == [("p", "n3")]
    assert (item.decision, item.node) == ("Preempting", "n1")
    assert [(each.node, each.lost_by) for each in item.candidates] == [
        ("n1", ""),
        ("n2", "freedResources"),
    ]
    assert (item.criterion, item.candidates_total) == ("freedResources", 2)


def test_victims_that_violate_a_budget_are_marked():
    around = state(
        "node n1 cpu=2; pod guarded@n1 cpu=1 label=app,web; pod free@n1 cpu=1",
        pdb("b").selects(app="web"),
    )

    (item,) = asked(around, new("x", "2", priority=9)).items

    assert {each.pod.name: each.violates_pdb for each in item.victims} == {
        "guarded": True,
        "free": False,
    }
    assert item.pdb_violations == 1


def test_equal_candidates_are_told_apart_by_the_hash():
    around = state(
        *(node(f"n{number}").cpu("1") for number in range(30)),
        *(pod(f"p{number}").on(f"n{number}").cpu("1") for number in range(30)),
    )

    (item,) = asked(around, new("x", priority=9)).items

    assert (item.criterion, item.candidates_total, len(item.candidates)) == ("hash", 30, 20)
    assert item.candidates[0].node == item.node


def test_what_becomes_of_victims_is_said():
    around = state(
        f"node n1 cpu=1; node n2 cpu=1 taint=only; {REPLICA}-a@n1 {OWNED} tolerates=only"
    )

    answer = asked(around, new("x", priority=9))

    (displaced,) = answer.displaced
    assert (displaced.pod.name, displaced.from_node, displaced.recreated) == (
        "web-1-a",
        "n1",
        True,
    )
    assert displaced.replacement.node == "n2"
    assert displaced.replacement.pod.name.startswith("web-1-")
    assert answer.items[0].victims[0].replacement == displaced.replacement


def test_a_victim_that_fits_nowhere_says_why_and_one_without_an_owner_is_lost():
    around = state(f"node n1 cpu=2; {REPLICA}-a@n1 {OWNED}; pod alone@n1 cpu=1")

    answer = asked(around, new("x", "2", priority=9))

    by_name = {each.pod.name: each for each in answer.displaced}
    assert by_name["web-1-a"].replacement.node == ""
    assert "Insufficient cpu" in by_name["web-1-a"].replacement.message
    assert (by_name["alone"].recreated, by_name["alone"].replacement) == (False, None)


def test_without_settling_victims_are_only_named():
    around = state(f"node n1 cpu=1; {REPLICA}-a@n1 {OWNED}")

    answer = asked(around, new("x", priority=9), settle=False)

    (item,), (displaced,) = answer.items, answer.displaced
    assert (item.node, item.final_node) == ("n1", "")
    assert (displaced.recreated, displaced.replacement) == (True, None)


def test_victims_of_preemptions_under_way_are_no_consequence():
    around = state(f"""node n1 cpu=1; {REPLICA}-a@n1 {OWNED} preempted terminating
        pod p cpu=1 priority=9 nominated=n1""")

    answer = asked(around, new("x", priority=1))

    assert (answer.evicts, answer.displaced, answer.others) == (False, (), ())
    assert answer.items[0].decision == "Unschedulable"


# Policies and what preemption remembers


def test_a_policy_that_refuses_is_named_with_its_rule():
    around = state("node n1 cpu=1; node n2 cpu=1; pod a@n1 cpu=1; pod b@n2 cpu=1")
    strict = {
        "apiVersion": "preemptive-scheduler.io/v1alpha1",
        "kind": "PreemptionPolicy",
        "metadata": {"name": "few"},
        "spec": {"budgets": [{"maxVictims": 0, "window": "1h", "scope": "Node"}]},
    }

    (item,) = asked(around, strict, new("x", priority=9)).items

    assert item.decision == "Unschedulable"
    assert [(each.policy, each.rule, each.count) for each in item.policies] == [
        ("few", "budgets", 2)
    ]
    assert [each.eviction for each in item.verdicts] == ['no: policy "few"']


def test_policies_in_force_and_what_they_have_spent_count():
    ledger = Ledger()
    ledger.count_victim(
        EvictionEntry(NOW - 60.0, "v", "default", "Pod/default/v", "n1", frozenset({"few"}))
    )
    objects = "node n1 cpu=1; pod a@n1 cpu=1", policy("few", budgets=(Budget(1, 3600.0),))

    fresh = asked(state(*objects), new("x", priority=9), settle=False)
    spent = asked(state(*objects, ledger=ledger.text(NOW)), new("x", priority=9), settle=False)

    assert fresh.items[0].decision == "Preempting"
    assert spent.items[0].decision == "Unschedulable"
    assert isinstance(spent.items[0].policies[0], PolicyVeto)


# Drained nodes


def test_pods_of_a_drained_node_are_made_again_elsewhere():
    around = state(f"""node n1 cpu=2; node n2 cpu=1; {REPLICA}-a@n1 {OWNED}; {REPLICA}-b@n1 {OWNED}
        pod agent@n1 owner=DaemonSet,agent; pod static@n1 owner=Node,n1""")

    answer = asked(around, drain=("n1",))

    assert answer.evicts
    assert sorted(each.replacement.node for each in answer.displaced) == ["", "n2"]
    assert {each.from_node for each in answer.displaced} == {"n1"}
    assert answer.items == ()


def test_a_pod_of_a_stateful_set_keeps_its_name():
    around = state("node n1; node n2; pod db-0@n1 owner=StatefulSet,db")

    (displaced,) = asked(around, drain=("n1",)).displaced

    assert (displaced.replacement.pod.name, displaced.replacement.node) == ("db-0", "n2")
    assert displaced.replacement.pod.uid != displaced.pod.uid


def test_an_unknown_node_cannot_be_drained():
    with pytest.raises(ManifestError, match="drain: there is no node 'n9'"):
        asked(state(node("n1")), drain=("n9",))


# Other pods


def test_pending_pods_that_change_are_named_and_others_are_not():
    around = state("node n1 cpu=1; pod loses cpu=1 priority=1; pod never cpu=9")

    answer = asked(around, new("x", priority=9))

    assert [(each.pod.name, each.final_node) for each in answer.others] == [("loses", "")]


def test_what_would_happen_anyway_is_no_consequence():
    around = state(f"node n1 cpu=1; node n2 cpu=1; {REPLICA}-a@n1 {OWNED}; pod x cpu=1 priority=9")

    answer = asked(around, new("x", "1", nodeSelector={"absent": "y"}))

    assert (answer.displaced, answer.others, answer.evicts) == ((), (), False)


def test_extenders_are_not_asked():
    answer = asked(state(node("n1").cpu("4"), has_extenders=True), new("x"))

    assert answer.items[0].decision == "Scheduled"
    assert answer.warnings == (
        "extenders are not called; in the cluster they may change the result",
    )


# What the scheduler has not finished


def going_on(machine: Machine) -> WhatIfCluster:
    """Return a cluster in which a copy of a machine goes on."""
    options = WhatIfOptions(now=NOW, adopts=False)
    snapshot = of_machine(machine).snapshot
    return WhatIfCluster(Manifests(), profiles(), PodBackoff(), options, snapshot)


def test_a_pod_whose_binding_has_no_answer_is_on_its_node():
    live = Cluster(node("n1").cpu("2"))
    live.hold(Bind)
    live.add(pod("placed").cpu("2"))
    live.drain()

    copy = going_on(live.machine)

    assert [(each.spec.node_name, each.status.phase) for each in copy.pods.values()] == [
        ("n1", "Running")
    ]
    assert not copy.pending
    assert asked(of_machine(live.machine), new("x")).items[0].decision == "Unschedulable"


@pytest.mark.parametrize("kind", [Nominate, SaveLedger, Evict])
def test_a_preemption_is_carried_out_from_where_it_is(kind: type[Effect]):
    few = policy("few", budgets=(Budget(9, 3600.0),))
    live = Cluster(node("n1").cpu("2"), few, pod("low").on("n1").cpu("2"))
    live.hold(kind)
    live.add(pod("high").cpu("2").priority(9))
    live.drain()
    assert live.held

    copy = going_on(live.machine)

    assert [each.metadata.name for each in copy.pods.values() if each.terminating] == ["low"]
    assert [*copy.attempts()] == []
    assert [each.decision for each in copy.settle()] == [Placed("n1")]
    (item,) = asked(of_machine(live.machine), new("x", "2", priority=1)).items
    assert (item.decision, item.final_node) == ("Unschedulable", "")


def test_a_plan_that_stopped_before_its_nomination_was_answered_goes_on():
    live = Cluster(node("n1").cpu("2"), pod("low").on("n1").cpu("2"))
    live.hold(Nominate)
    live.add(pod("high").cpu("2").priority(9))
    live.drain()
    live.delete_node("n1")
    live.add(node("n2").cpu("2"))

    copy = going_on(live.machine)

    assert [each.decision for each in (*copy.attempts(), *copy.settle())] == [Placed("n2")]


def test_an_attempt_that_waits_for_extenders_begins_again_in_its_turn():
    config = "extenders: [{urlPrefix: http://e, filterVerb: filter}]\n"
    live = Cluster(node("n1").cpu("2"), config=config)
    live.hold(Ask)
    live.add(pod("waits").cpu("2"))
    live.drain()
    live.add(pod("later").cpu("2"))
    assert live.held

    decisions = [(each.pod.name, each.decision) for each in going_on(live.machine).attempts()]

    assert decisions[0] == ("waits", Placed("n1"))
