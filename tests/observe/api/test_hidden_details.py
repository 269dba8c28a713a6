"""Documents stay right while rights are reviewed, and tell nothing of hidden pods."""

from tests.support.api_documents import Documents, Only
from tests.support.builders import node, pod


async def test_the_node_of_an_explanation_is_the_one_that_was_evaluated():
    docs = Documents(node("n1").cpu("4"), pod("low").on("n1").cpu("4").priority(1))
    docs.cluster.add(pod("high").cpu("4").priority(9))

    class Slow:
        """While rights are reviewed, the row of the node gets another node."""

        def __init__(self) -> None:
            self.reviews = 0

        async def visible(self, namespaces):
            self.reviews += 1
            if self.reviews == 2:
                docs.cluster.delete("low")
                docs.cluster.delete_node("n1")
                docs.cluster.add(node("n2").cpu("4"))
            return frozenset(namespaces)

    where = {"namespace": "default", "name_": "high"}
    found = await docs.get("pods/{namespace}/{name}", Slow(), **where)

    assert found["preemption"]["node"] == "n1"


async def test_totals_do_not_tell_what_hidden_pods_request():
    docs = Documents(node("n1").cpu("1"))
    for namespace in ("default", "secret"):
        odd = pod("p").namespace(namespace).requests({"cpu": "9", f"acme.example/{namespace}": "1"})
        docs.cluster.add(odd)

    found = await docs.get("pods", Only("default"))

    assert found["requests"] == {"cpu": 9000, "acme.example/default": 1}


async def test_hidden_pods_of_a_node_tell_their_priority_and_not_what_they_request():
    odd = {"cpu": "1", "acme.example/secret": "1"}
    docs = Documents(
        node("n1").cpu("4"), pod("p").namespace("secret").on("n1").requests(odd).priority(7)
    )

    found = await docs.get("nodes/{name}", Only("default"), name_="n1")

    assert found["pods"] == [{"hidden": True, "priority": 7}]
    assert found["hidden"] == 1
    assert "acme.example" not in str(found)


async def test_a_hidden_victim_of_the_preemption_that_would_follow_is_only_counted():
    docs = Documents(
        node("n1").cpu("4"), pod("low").namespace("secret").on("n1").cpu("4").priority(1)
    )
    docs.cluster.add(pod("high").cpu("4").priority(9))

    where = {"namespace": "default", "name_": "high"}
    found = await docs.get("pods/{namespace}/{name}", Only("default"), **where)

    assert found["preemption"]["hiddenVictims"] == 1
    assert "victims" not in found["preemption"]
    assert found["preemption"]["candidates"][0]["values"]["highestPriority"] == 1
