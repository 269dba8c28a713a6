"""`why UID` is about the pod with that uid, also where another one has its name now."""

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from scheduler.kubectl.commands import why
from tests.support.api_documents import Documents
from tests.support.builders import node, pod

FIRST = "11111111-2222-3333-4444-555555555555"
SECOND = "99999999-2222-3333-4444-555555555555"
LOW = pod("low").on("n1").cpu("4").priority(1)


@pytest.mark.parametrize("nodes", [False, True], ids=["", "--nodes"])
async def test_a_uid_is_about_its_pod(nodes):
    docs = Documents(node("n1").cpu("4"), LOW.uid(FIRST))
    docs.cluster.schedule(pod("high").cpu("4").priority(9))
    docs.cluster.finish_terminating()
    docs.cluster.drain()
    docs.cluster.delete("default/high")
    docs.cluster.add(LOW.uid(SECOND))
    shown: list[Any] = []

    async def get(path: str, kind: type, **query: Any) -> Any:
        given = {name: str(value) for name, value in query.items() if value is not None}
        if path.startswith("/pods/"):
            given |= dict(zip(("namespace", "name"), path.split("/")[2:], strict=True))
            path = "/pods/{namespace}/{name}"
        return SimpleNamespace(document=msgspec.convert(await docs.get(path[1:], **given), kind))

    def printed(answer: Any) -> bool:
        shown.append(answer.document)
        return True

    session: Any = SimpleNamespace(
        arguments=SimpleNamespace(pod=FIRST, labels=None, nodes=nodes),
        client=SimpleNamespace(get=get),
        namespace=lambda: "default",
        printed=printed,
    )

    assert await why.run(session) == 0

    assert shown[0].verdict.startswith("default/low was evicted from n1 at ")
