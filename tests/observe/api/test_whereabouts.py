"""Every pod that a caller may see has an answer: it waits, runs, was evicted, or is not known."""

import asyncio

import pytest

from scheduler.model.effects import Evict
from scheduler.model.policies import PodSelection
from scheduler.observe.api import explanation, found_pods
from scheduler.observe.api.requests import StatusError
from tests.support.api_documents import Documents, Only
from tests.support.builders import node, pdb, pod
from tests.support.policies import at_most, policy

N1 = node("n1").cpu("4")
LOW = pod("low").on("n1").cpu("4").priority(1).owner("ReplicaSet", "batch-5b8b").label(
    "pod-template-hash", "5b8b"
)  # fmt: skip
HIGH = pod("high").namespace("vip").cpu("4").priority(9)
WHERE = {"namespace": "default", "name": "low"}


async def why(docs, names=None, **where):
    where = {**WHERE, **where}
    return await docs.get("pods/{namespace}/{name}", *([] if names is None else [names]), **where)


def evicted(*more) -> Documents:
    docs = Documents(N1, LOW, *more)
    docs.cluster.schedule(HIGH)
    docs.cluster.finish_terminating()
    docs.cluster.drain()
    return docs


async def test_the_eviction_of_a_pod_is_told_by_its_name():
    docs = evicted(pdb("calm").selects(**{"pod-template-hash": "5b8b"}).allows(0))
    docs.cluster.add(LOW.on("").uid("again").meta(name="low-2"))

    found = await why(docs)

    assert (found["state"], found["impact"]) == ("evicted", "budgets")
    assert found["verdict"] == (
        "default/low was evicted from n1 at 2026-01-01T00:16:40Z for vip/high (priority 9 > 1);"
        " the disruption budget default/calm was violated; low-2 replaces it and waits."
    )
    (eviction,) = found["evictions"]
    assert eviction["victim"]["pod"]["owner"] == {"kind": "Deployment", "name": "batch"}
    assert eviction["preemption"]["preemptor"]["name"] == "high"
    replacement = await why(docs, name="low-2")
    assert "; it replaces low, which was evicted for vip/high" in replacement["verdict"]


@pytest.mark.parametrize("is_past", [False, True], ids=["planned", "past"])
@pytest.mark.parametrize(
    ("names", "told"),
    [
        (
            ("vip", "default", "other"),
            "disruption budgets default/tight and other/strict {} violated",
        ),
        (("vip", "default"), "disruption budget default/tight and others that you may not see {}"),
        (("vip",), "; 3 pods {} evicted against disruption budgets that you may not see"),
    ],
)
async def test_only_violated_budgets_are_named_and_hidden_ones_are_told(names, told, is_past):
    low = LOW.cpu("1").label("a", "b")
    docs = Documents(
        N1, *(low.meta(name=name).uid(name) for name in ("l1", "l2")),
        low.namespace("other"), pod("free").on("n1").cpu("1").priority(1),
        pdb("loose").selects(a="b").allows(2), pdb("tight").selects(a="b").allows(0),
        pdb("strict").namespace("other").selects(a="b").allows(0),
    )  # fmt: skip
    docs.cluster.add(HIGH)
    path, where = "pods/{namespace}/{name}", {"namespace": "vip", "name": "high"}
    if is_past:
        docs.cluster.drain()
        for name in ("loose", "tight"):
            docs.cluster.add(pdb(name).selects(a="b").allows(0))
        docs.cluster.finish_terminating()
        docs.cluster.drain()

    if is_past:
        (found,) = (await docs.get("preemptions", Only(*names)))["items"]
    else:
        found = await docs.get(path, Only(*names), **where)

    assert told.format("were" if is_past else "would be") in found["verdict"]
    assert "loose" not in str(found)
    assert found["impact"] == "budgets"


async def test_who_evicted_a_pod_is_told_as_far_as_the_caller_may_see():
    docs = evicted()

    found = await why(docs, Only("default"))

    assert "for a pod that you may not see (priority 9 > 1)" in found["verdict"]
    assert "vip" not in str(found)
    with pytest.raises(StatusError, match="namespace"):
        await why(docs, Only("vip"))


async def test_a_name_that_was_evicted_twice_has_both_evictions_and_where_its_pod_is_now():
    docs = evicted()
    docs.cluster.delete("vip/high")
    docs.cluster.add(LOW.uid("second"))
    docs.cluster.schedule(HIGH.uid("urgent"))
    docs.cluster.finish_terminating()
    docs.cluster.drain()
    docs.cluster.delete("vip/high")
    docs.cluster.add(LOW.uid("third"))

    found = await why(docs)

    assert found["state"] == "running"
    evictions = [each["victim"]["pod"]["uid"] for each in found["evictions"]]
    assert evictions == ["second", "uid:default/low"]
    earlier = "; an earlier pod of this name was evicted at 2026-01-01T00:16:40Z for vip"
    assert earlier in found["verdict"]
    first = await why(docs, uid="uid:default/low")
    assert (first["state"], first["pending"]["pod"]["uid"]) == ("evicted", "uid:default/low")
    with pytest.raises(LookupError, match="not known"):
        await why(docs, uid="never")


def spared() -> Documents:
    docs = Documents(N1, LOW)
    docs.cluster.hold(Evict)
    docs.cluster.schedule(HIGH)
    docs.cluster.fail()
    docs.cluster.delete("vip/high")
    return docs


async def test_a_pod_that_was_spared_runs_on_and_says_so():
    found = await why(spared())

    assert (found["state"], found.get("impact", "none")) == ("running", "none")
    assert found["verdict"].endswith("it was to be evicted for vip/high, and was spared.")


@pytest.mark.parametrize("is_gone", [False, True], ids=["terminates", "a new one of its name"])
async def test_a_pod_that_was_spared_and_ends_later_was_not_evicted(is_gone):
    docs = spared()
    await why(docs)
    docs.cluster.add(LOW.terminating())
    if is_gone:
        docs.cluster.delete("default/low")
        docs.cluster.add(LOW.uid("second"))

    found = await why(docs)

    assert (found["state"], found["evictions"][0]["victim"]["state"]) == ("running", "spared")
    assert "was evicted" not in found["verdict"]
    (preemption,) = (await docs.get("preemptions"))["items"]
    assert "no pod was evicted for it" in preemption["verdict"]


async def test_a_later_pod_of_the_name_of_an_evicted_one_is_not_said_to_be_evicted():
    low = pod("web-0").on("n1").cpu("4").priority(1).owner("StatefulSet", "web")
    docs = Documents(N1, low)
    docs.cluster.schedule(HIGH)
    docs.cluster.finish_terminating()
    docs.cluster.drain()
    docs.cluster.delete("vip/high")
    docs.cluster.add(low.on("").uid("second"))
    docs.cluster.drain()
    assert (await why(docs, name="web-0"))["state"] == "running"
    docs.cluster.delete("default/web-0")

    found = await why(docs, name="web-0")

    last_known = "The last eviction of a pod of this name that this scheduler knows: "
    told = "default/web-0 was evicted from n1 at 2026-01-01T00:16:40Z"
    assert found["verdict"].startswith(last_known + told)
    assert found["verdict"].endswith("; web-0 has replaced it.")
    assert found["pending"]["pod"]["uid"] == "uid:default/web-0"
    first = await why(docs, name="web-0", uid="uid:default/web-0")
    assert first["verdict"].startswith(told)


MAY = "; pods of a priority above 1 may evict it"
HALT = policy("halt", stop="maintenance")


@pytest.mark.parametrize(
    ("placed", "state", "fate"),
    [
        ((LOW,), "running", MAY),
        ((LOW.scheduler("other"),), "foreign", f"; its scheduler is other{MAY}"),
        ((LOW.terminating(),), "running", ", and is terminating"),
        ((LOW.priority(2_000_001_000),), "running", "; no pod has a higher priority"),
        ((LOW, HALT), "running", '; no pod may evict it while policy "halt" stops preemption'),
    ],
    ids=["running", "foreign", "terminating", "critical", "stopped"],
)
async def test_a_pod_on_a_node_is_found(placed, state, fate):
    docs = Documents(N1, *placed)

    found = await why(docs)

    assert found["state"] == state
    assert found["verdict"] == f"default/low has been on n1 for 16m{fate}."


async def test_a_pod_that_preempted_names_its_last_preemption():
    docs = evicted()
    (preemption,) = (await docs.get("preemptions"))["items"]

    told = await why(docs, namespace="vip", name="high")

    assert (told["state"], told["preempted"]) == ("running", preemption["id"])
    assert "preempted" not in await why(docs)


async def test_an_eviction_without_an_answer_has_no_time_yet():
    docs = Documents(N1, LOW)
    docs.cluster.hold(Evict)
    docs.cluster.schedule(HIGH)

    found = await why(docs)

    told = "default/low is being evicted from n1 for vip/high (priority 9 > 1)"
    assert found["verdict"].startswith(told)


async def test_the_name_of_a_preemptor_stays_as_it_is_where_a_sentence_begins_with_it():
    docs = Documents(N1, LOW)
    docs.cluster.schedule(HIGH)
    docs.cluster.delete("vip/high")

    (preemption,) = (await docs.get("preemptions"))["items"]

    assert preemption["verdict"].startswith("vip/high was deleted before it ran on n1; 1 pod was")


async def test_pods_beyond_those_that_are_looked_at_are_counted(monkeypatch):
    monkeypatch.setattr(found_pods, "_MOST", 3)
    docs = Documents(N1, *(pod(f"r{i}").on("n1").cpu("0").label("a", "b") for i in range(5)))
    docs.cluster.add(*(pod(f"q{i}").cpu("9").label("a", "b") for i in range(5)))

    found = await docs.get("find", labelSelector="a=b")

    assert found["verdict"].startswith("3 pods have waited 0s for 9 cpu each: ")
    assert found["verdict"].endswith("; 3 on nodes, 2 more wait and 2 more on nodes.")
    assert (len(found["items"]), found["remaining"]) == (3, 7)


async def test_an_unknown_pod_is_told_with_the_reasons_and_since_when_evictions_are_known():
    docs = Documents(N1)

    with pytest.raises(LookupError, match=r"does not exist.*another.*history begins, 2026-"):
        await why(docs)


EXHAUSTED = policy("team-a", preemptors=PodSelection(), budgets=at_most(0))


@pytest.mark.parametrize(
    ("wanted", "eviction", "refused"),
    [
        (pod("p").cpu("4").priority(9), 'no: policy "team-a"', True),
        (pod("p").cpu("4"), "no: nothing there has a lower priority", False),
        (pod("p").cpu("4").priority(9).never_preempts(), "no: the pod never preempts", False),
    ],
    ids=["a policy refuses", "no victim, so no policy refuses", "it never preempts"],
)
async def test_evictions_help_or_do_not_for_one_reason(wanted, eviction, refused):
    docs = Documents(N1, LOW)
    docs.cluster.add(EXHAUSTED, wanted)
    attempt = docs.cluster.step()

    found = await why(docs, name="p")

    assert [each["eviction"] for each in found["verdicts"]] == [eviction]
    assert bool(found.get("policies")) is refused
    assert bool(attempt.vetoes) is refused


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({"owner": "deploy/batch"}, ["batch-1", "batch-2", "low"]),
        ({"owner": "rs/batch-5b8b"}, ["batch-1", "batch-2"]),
        ({"labelSelector": "tier in (a, b),!canary"}, ["batch-1", "batch-2"]),
        ({"uid": "uid:default/batch-1"}, ["batch-1"]),
        ({"owner": "pod/low"}, ["low"]),
    ],
)
async def test_pods_are_found_by_owner_labels_and_uid(query, names):
    docs = evicted()
    for name in ("batch-1", "batch-2"):
        docs.cluster.add(LOW.on("").meta(name=name).uid(f"uid:default/{name}").label("tier", "a"))
    docs.cluster.drain()

    found = await docs.get("find", Only("default"), namespace="default", **query)

    assert sorted(each["pod"]["name"] for each in found["items"]) == names
    if len(names) == 3:
        assert found["verdict"].startswith(
            "2 pods of Deployment/batch have waited 0s for 4 cpu each: "
        )
        assert found["verdict"].endswith("; 1 evicted.")
    with pytest.raises(LookupError, match="no pod is known"):
        await docs.get("find", Only("vip"), namespace="default", **query)


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"owner": "web"},
        {"labelSelector": "a in (b"},
        {"labelSelector": "(" * 999},
        {"owner": "/"},
    ],
)
async def test_a_question_that_cannot_be_answered_is_refused(query):
    with pytest.raises(ValueError, match=r"owner|one of|selector"):
        await Documents(N1).get("find", **query)


async def test_a_search_asks_for_the_same_rights_whether_it_finds_a_foreign_pod_or_not():
    docs = Documents(N1, LOW.namespace("secret"))
    asked = []

    class Counted(Only):
        async def visible(self, namespaces):
            asked[-1].append(frozenset(namespaces))
            return await super().visible(namespaces)

    for owner in ("Deployment/batch", "Deployment/other"):
        asked.append([])
        with pytest.raises(LookupError):
            await docs.get("find", Counted("default"), owner=owner)

    assert asked[0] == asked[1]


async def test_what_was_found_is_not_refused_because_others_wait(monkeypatch):
    monkeypatch.setattr(explanation, "_PAUSE_SECONDS", 0.01)
    docs = Documents(N1, LOW.priority(5))
    docs.cluster.add(*(pod(f"p{i}").cpu("4").priority(5) for i in range(3)))

    async def refused(number: int) -> bool:
        try:
            await why(docs, name=f"p{number % 3}")
        except StatusError:
            return True
        return False

    first = [asyncio.create_task(refused(number)) for number in range(16)]
    await asyncio.sleep(0)
    later = [asyncio.create_task(refused(number)) for number in range(4)]

    assert not any(await asyncio.gather(*first))
    assert all(await asyncio.gather(*later))
