"""The documents of `/api/v1` show the state of the scheduler, and change nothing."""

import pytest

from scheduler.core.preemption.evaluate.objective import KUBE_SCHEDULER
from scheduler.model.effects import Bind, Evict
from tests.support.api_documents import Documents, Only
from tests.support.builders import node, pod


def preempted() -> Documents:
    """Return a cluster in which `high` has evicted `low` from `n1`."""
    found = Documents(
        node("n1").cpu("4"),
        node("n2").cpu("4"),
        pod("low").on("n1").cpu("4").priority(1).owner("Job", "batch"),
        pod("middle").on("n2").cpu("4").priority(5),
    )
    found.cluster.schedule(pod("high").cpu("4").priority(9))
    return found


async def test_the_summary_counts_pods_by_phase_and_reason():
    docs = Documents(node("n1").cpu("1"), pod("a").cpu("2"), pod("b").cpu("3"))
    docs.cluster.drain()
    docs.cluster.add(pod("c").gated("wait"))
    docs.cluster.wait(7)

    found = await docs.get("summary")

    assert found["queue"]["backoff"] + found["queue"]["unschedulable"] == 2
    assert found["queue"]["gated"] == 1
    assert found["oldestPendingSeconds"] == 7
    assert found["reasons"] == [
        {"reason": "NodeResourcesFit: Insufficient cpu", "pods": 2},
        {"reason": "SchedulingGates", "pods": 1},
    ]
    assert found["nodes"] == 1
    assert found["attempts"] == {"unschedulable": 2}


async def test_nodes_have_their_use_by_priority():
    docs = Documents(
        node("n1").cpu("8").memory("4Gi").label("zone", "a").label("other", "x"),
        pod("a").on("n1").cpu("1").memory("1Gi").priority(5),
        pod("b").on("n1").cpu("2").priority(5).terminating(),
        pod("c").on("n1").cpu("3").priority(9),
        node("n2").cordoned(),
    )
    docs.cluster.add(pod("d").cpu("1").priority(7).nominated("n1"))

    found = await docs.get("nodes", labels="zone")

    first, second = found["items"]
    assert first["name"] == "n1"
    assert first["labels"] == {"zone": "a"}
    assert first["resources"]["cpu"] == {"allocatable": 8000, "requested": 6000}
    assert first["resources"]["pods"] == {"allocatable": 110, "requested": 3}
    gib = 2**30
    assert first["priorities"] == [
        {"priority": 9, "pods": 1, "cpu": 3000},
        {"priority": 5, "pods": 2, "cpu": 3000, "memory": gib, "terminating": 1},
        {"priority": 7, "pods": 1, "cpu": 1000, "nominated": True},
    ]
    assert second["unschedulable"] is True


async def test_lists_of_nodes_have_pages():
    docs = Documents(*(node(f"n{i}") for i in range(5)))

    first = await docs.get("nodes", limit="2")
    second = await docs.get("nodes", limit="2", continue_=first["continue"])
    third = await docs.get("nodes", limit="2", continue_=second["continue"])

    assert [item["name"] for page in (first, second, third) for item in page["items"]] == [
        "n0", "n1", "n2", "n3", "n4",
    ]  # fmt: skip
    assert (first["remaining"], second["remaining"]) == (3, 1)
    assert "continue" not in third


async def test_a_node_has_its_pods():
    docs = Documents(
        node("n1").cpu("8").taint("k", "v"),
        pod("a").on("n1").cpu("1").priority(1).owner("Job", "batch"),
        pod("b").namespace("other").on("n1").cpu("2").priority(5),
    )

    found = await docs.get("nodes/{name}", Only("default"), name="n1")

    assert found["taints"] == ["k=v:NoSchedule"]
    assert found["hidden"] == 1
    assert found["pods"] == [
        {"hidden": True, "priority": 5},
        {
            "namespace": "default",
            "name": "a",
            "uid": "uid:default/a",
            "owner": {"kind": "Job", "name": "batch"},
            "priority": 1,
            "requests": {"cpu": 1000},
        },
    ]


async def test_label_keys_are_counted():
    docs = Documents(node("n1").label("zone", "a"), node("n2").label("zone", "b").label("x", "y"))

    found = await docs.get("labels")

    assert found["items"] == [
        {"key": "zone", "nodes": 2, "values": 2},
        {"key": "x", "nodes": 1, "values": 1},
    ]


async def test_pending_pods_are_listed_in_order_of_arrival():
    docs = Documents(node("n1").cpu("1"))
    for name in ("a", "b"):
        docs.cluster.schedule(pod(name).cpu("2").owner("Job", name))
    docs.cluster.add(pod("c").namespace("other").cpu("3"))

    found = await docs.get("pods")
    page = await docs.get("pods", limit="1")
    more = await docs.get("pods", limit="5", continue_=page["continue"])

    assert [item["pod"]["name"] for item in found["items"]] == ["a", "b", "c"]
    assert [item["pod"]["name"] for item in more["items"]] == ["b", "c"]
    assert found["requests"] == {"cpu": 7000}
    first = found["items"][0]
    assert first["rejectedBy"] == ["NodeResourcesFit"]
    assert first["message"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert first["attempts"] == 1


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"owner": "Job/a"}, ["a"]),
        ({"owner": "b"}, ["b"]),
        ({"namespace": "other"}, ["c"]),
        ({"phase": "active"}, ["c"]),
        ({"reason": "NodeResourcesFit: Insufficient cpu"}, ["a", "b"]),
        ({"reason": "no such reason"}, []),
    ],
)
async def test_pending_pods_can_be_selected(query, expected):
    docs = Documents(node("n1").cpu("1"))
    for name in ("a", "b"):
        docs.cluster.schedule(pod(name).cpu("2").owner("Job", name))
    docs.cluster.add(pod("c").namespace("other").cpu("3"))

    found = await docs.get("pods", **query)

    assert [item["pod"]["name"] for item in found["items"]] == expected


async def test_pods_of_other_namespaces_are_counted_and_not_named():
    docs = Documents(pod("a"), pod("secret").namespace("other").cpu("3"))

    found = await docs.get("pods", Only("default"))
    probed = await docs.get("pods", Only("default"), namespace="other")

    assert [item["pod"]["name"] for item in found["items"]] == ["a"]
    assert found["hidden"] == 1
    assert probed == {"items": []}


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("nodes", {"limit": "0"}),
        ("nodes", {"limit": "5001"}),
        ("nodes", {"limit": "x"}),
        ("nodes", {"limit": "²"}),
        ("nodes", {"labels": ",".join(map(str, range(17)))}),
        ("pods", {"limit": "-1"}),
        ("pods", {"continue_": "nonsense"}),
        ("pods", {"continue_": "9" * 30}),
        ("pods", {"phase": "nonsense"}),
        ("preemptions", {"state": "nonsense"}),
        ("preemptions", {"continue_": "x"}),
        ("preemptions", {"continue_": "pods.1"}),
        ("pods", {"continue_": "preemptions.1"}),
        ("nodes", {"continue_": "pods.1"}),
        ("nodes", {"continue_": "n1"}),
    ],
)
async def test_malformed_parameters_are_refused(path, query):
    with pytest.raises(ValueError, match=r"."):
        await Documents(node("n1")).get(path, **query)


async def test_a_preemption_says_who_where_and_why_there():
    docs = preempted()
    docs.cluster.wait(5)

    found = await docs.get("preemptions", state="active")

    (only,) = found["items"]
    assert only["preemptor"]["name"] == "high"
    assert (only["node"], only["phase"]) == ("n1", "awaiting")
    assert only["criterion"] == "highestPriority"
    assert [(each["node"], each.get("lostBy")) for each in only["candidates"]] == [
        ("n1", None),
        ("n2", "highestPriority"),
    ]
    assert only["candidatesTotal"] == 2
    assert [each["name"] for each in only["criteria"]] == [
        criterion.label.name for criterion in KUBE_SCHEDULER
    ]
    (victim,) = only["victims"]
    assert victim["pod"]["owner"] == {"kind": "Job", "name": "batch"}
    assert (victim["state"], victim["ranSeconds"]) == ("terminating", 1000)
    assert only["cost"] == {"pods": 1000, "cpu": 4_000_000}
    assert (await docs.get("preemptions", state="past"))["items"] == []


async def test_a_preemption_that_succeeded_is_past():
    docs = preempted()
    before = (await docs.get("preemptions"))["revision"]
    docs.cluster.finish_terminating()
    docs.cluster.wait(2)
    docs.cluster.drain()

    found = await docs.get("preemptions", state="past")

    (only,) = found["items"]
    assert (only["outcome"], only["phase"]) == ("bound", "done")
    assert only["victims"][0]["state"] == "gone"
    assert only["endedAt"]
    assert found["revision"] > before


async def test_a_preemption_whose_preemptor_is_gone_was_in_vain():
    docs = preempted()
    docs.cluster.finish_terminating()
    docs.cluster.delete("high")
    docs.cluster.wait(61)

    (only,) = (await docs.get("preemptions"))["items"]

    assert only["outcome"] == "gone"
    assert only["victims"][0]["wasted"] is True


async def test_the_replacement_of_a_victim_is_shown():
    docs = preempted()
    docs.cluster.add(pod("again").cpu("4").owner("Job", "batch").priority(1))
    docs.cluster.drain()

    (only,) = (await docs.get("preemptions"))["items"]

    replacement = only["victims"][0]["replacement"]
    assert replacement["pod"]["name"] == "again"
    assert "Insufficient cpu" in replacement["message"]
    docs.cluster.add(pod("again").cpu("4").owner("Job", "batch").priority(1).on("n2"))
    (only,) = (await docs.get("preemptions"))["items"]
    assert only["victims"][0]["replacement"]["node"] == "n2"


async def test_a_pod_of_another_namespace_is_no_replacement():
    """Whoever creates a pod may write the uid of a foreign controller into it."""
    docs = preempted()

    forged = pod("foreign").namespace("other").cpu("4").owner("Job", "batch").priority(1)
    docs.cluster.add(forged, pod("again").cpu("4").owner("Job", "batch").priority(1))
    docs.cluster.drain()

    (only,) = (await docs.get("preemptions"))["items"]
    assert only["victims"][0]["replacement"]["pod"]["name"] == "again"


async def test_pages_tell_nothing_about_hidden_preemptions():
    docs = Documents(
        *(node(f"n{i}").cpu("4") for i in range(6)),
        *(pod(f"low{i}").namespace("other").on(f"n{i}").cpu("4").priority(1) for i in range(6)),
    )
    for i, namespace in enumerate(("mine", "other", "other", "mine", "other", "mine")):
        docs.cluster.schedule(pod(f"high{i}").namespace(namespace).cpu("4").priority(9))
        if i == 2:  # the first three succeed
            docs.cluster.finish_terminating()
            docs.cluster.wait(2)
            docs.cluster.drain()
    mine = Only("mine")

    whole = await docs.get("preemptions", mine)
    first = await docs.get("preemptions", mine, limit="2")
    second = await docs.get("preemptions", mine, limit="2", continue_=first["continue"])
    by_state = [await docs.get("preemptions", mine, state=state) for state in ("active", "past")]

    names = [[item["preemptor"]["name"] for item in page["items"]] for page in (first, second)]
    assert names == [["high5", "high3"], ["high0"]]
    assert (first["remaining"], "continue" in second) == (1, False)
    assert {page["hidden"] for page in (whole, first, second, *by_state)} == {3}


@pytest.mark.parametrize("path", ["preemptions", "pods", "nodes"])
async def test_a_continue_says_nothing_and_cannot_be_made_up(path):
    docs = Documents(*(node(f"n{i}").cpu("4") for i in range(3)))
    docs.cluster.add(*(pod(f"low{i}").on(f"n{i}").cpu("4").priority(1) for i in range(3)))
    for i in range(3):
        docs.cluster.schedule(pod(f"high{i}").cpu("4").priority(9))
        docs.cluster.add(pod(f"waits{i}").cpu("40"))

    token = (await docs.get(path, limit="1"))["continue"]

    assert len(token) > 20
    for forged in (token[:-2], token[:-1] + "é", f"{path}.1", token[1:], f"{token}AAAA", "="):
        with pytest.raises(ValueError, match="continue is not a value"):
            await docs.get(path, continue_=forged)


async def test_a_hidden_victim_is_not_named():
    docs = Documents(
        node("n1").cpu("4"), pod("secret").namespace("other").on("n1").cpu("4").priority(1)
    )
    docs.cluster.schedule(pod("high").cpu("4").priority(9))

    found = await docs.get("preemptions", Only("default"))

    (only,) = found["items"]
    assert (only["hiddenVictims"], "victims" in only, "cost" in only) == (1, False, False)
    assert "secret" not in str(found)


async def test_a_pod_is_explained():
    docs = Documents(
        node("full").cpu("4"),
        node("small").cpu("1"),
        node("tainted").cpu("4").taint("gpu", "yes"),
        pod("taken").on("full").cpu("3").priority(9),
    )
    docs.cluster.schedule(pod("p").cpu("2").priority(1))
    docs.cluster.hold(Bind)

    found = await docs.get("pods/{namespace}/{name}", namespace="default", name="p")

    assert found["message"].startswith("0/3 nodes are available: 1 node(s) had untolerated")
    assert found["verdicts"] == [
        {
            "plugin": "NodeResourcesFit", "reason": "Insufficient cpu", "nodes": 2,
            "resolvable": True, "examples": ["full", "small"],
            "eviction": "no: nothing there has a lower priority",
        },
        {
            "plugin": "TaintToleration", "reason": "node(s) had untolerated taint(s)", "nodes": 1,
            "examples": ["tainted"], "eviction": "no",
        },
    ]  # fmt: skip
    assert found["preemptionMessage"].startswith("0/3 nodes are available")
    assert found["verdict"] == (
        "default/p has waited 0s for 2 cpu: 2 nodes lack cpu and 1 node has a taint that it does"
        " not tolerate; no pod of lower priority can be evicted there; a priority above 9 would"
        " preempt."
    )
    assert found["suggestions"] == [
        "3 of 4 cpu of full are held by pods of priority 9 or higher: a priority above 9 would"
        " preempt, and evict default/taken on full.",
        "Node full lacks only 1 cpu.",
        "One more node like full would have room for 2 such pods while it is empty.",
        "Add a toleration for the taint gpu=yes:NoSchedule: it is the only untolerated taint on"
        " 1 node.",
    ]
    assert [(each["decision"], each.get("repeated")) for each in found["history"]] == [
        ("Unschedulable", None)
    ]
    assert "nodes" not in found


async def test_an_explanation_has_nodes_on_request():
    docs = Documents(node("n1").cpu("1"), pod("p").cpu("2"))
    docs.cluster.drain()
    where = {"namespace": "default", "name": "p"}

    found = await docs.get("pods/{namespace}/{name}", **where, nodes="1")

    assert found["nodes"] == [
        {"name": "n1", "rejection": "Insufficient cpu", "plugin": "NodeResourcesFit"}
    ]
    assert found["pending"]["pod"]["name"] == "p"


async def test_the_preemption_that_would_follow_is_compared():
    docs = Documents(
        node("n1").cpu("4"),
        node("n2").cpu("4"),
        pod("a").on("n1").cpu("4").priority(1),
        pod("b").on("n2").cpu("2").priority(1),
        pod("c").namespace("other").on("n2").cpu("2").priority(1),
        pod("high").cpu("4").priority(9),
    )
    where = {"namespace": "default", "name": "high"}

    found = await docs.get("pods/{namespace}/{name}", Only("default"), **where)

    preemption = found["preemption"]
    assert (preemption["node"], preemption["criterion"]) == ("n1", "prioritySum")
    assert [each["node"] for each in preemption["candidates"]] == ["n1", "n2"]
    assert [each["pod"]["name"] for each in preemption["victims"]] == ["a"]
    assert docs.cluster.asked(Evict) == []


async def test_the_index_names_all_paths():
    found = await Documents().get("")

    assert found["leader"] is True
    assert found["instance"] == "it"
    assert found["profiles"] == ["preemptive-scheduler"]
    assert "/api/v1/pods/{namespace}/{name}" in found["paths"]


async def test_an_unknown_node_is_not_found():
    with pytest.raises(LookupError, match='node "n9" is not known'):
        await Documents(node("n1")).get("nodes/{name}", name="n9")


async def test_equal_attempts_are_counted_together():
    docs = Documents(node("n1").cpu("1"))
    docs.cluster.schedule(pod("p").cpu("2"))
    for _ in range(3):
        docs.cluster.wait(400)
        docs.cluster.drain()

    found = await docs.get("pods/{namespace}/{name}", namespace="default", name="p")

    (only,) = found["history"]
    assert only["repeated"] == len(docs.cluster.attempts) - 1 > 0


async def test_a_gated_pod_says_which_gate():
    docs = Documents(pod("p").gated("example.com/wait"))

    found = await docs.get("pods/{namespace}/{name}", namespace="default", name="p")

    assert found["pending"]["phase"] == "gated"
    assert found["suggestions"] == ['Remove the scheduling gate "example.com/wait".']
