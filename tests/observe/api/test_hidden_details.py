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


async def test_totals_do_not_name_what_hidden_pods_request():
    docs = Documents(node("n1").cpu("1"))
    for namespace in ("default", "secret"):
        odd = pod("p").namespace(namespace).requests({"cpu": "9", f"acme.example/{namespace}": "1"})
        docs.cluster.add(odd)

    found = await docs.get("pods", Only("default"))

    assert found["requests"] == {"cpu": 18000, "acme.example/default": 1}
