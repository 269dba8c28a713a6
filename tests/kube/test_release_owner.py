"""Lease and ledger belong to the Deployment where there is one, and are written in any case."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import pytest

from scheduler.kube.client.backoff import Sleeper
from scheduler.kube.client.client import Client
from scheduler.kube.errors import Forbidden
from scheduler.kube.leader_election import LeaderElectionConfig, LeaderElector
from scheduler.kube.release_owner import PAUSE_SECONDS, ReleaseOwner
from scheduler.kube.write.ledger_configmap import LedgerStore
from tests.kube.fixtures import NOW
from tests.support.fake_api import FakeApi, Fault

NAMES: Final = {"leases": "us/ours", "configmaps": "us/ours-ledger"}
LABELS: Final = {"app.kubernetes.io/name": "ours", "app.kubernetes.io/instance": "r"}
OTHER: Final = {"apiVersion": "v1", "kind": "Pod", "name": "ours", "uid": "uid-pod"}


def reference(uid: str) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": "ours",
        "uid": uid,
        "blockOwnerDeletion": False,
    }


def deploy(api: FakeApi, uid: str = "uid-1") -> None:
    """Create the Deployment, or replace it by another one of its name."""
    spec = {"selector": {"matchLabels": LABELS}}
    metadata = {"namespace": "us", "name": "ours", "labels": {"helm.sh/chart": "x-1"}}
    api.store.put("deployments", {"metadata": metadata, "spec": spec}, uid=uid)


def make(api: FakeApi, kind: str, **metadata: Any) -> None:
    """Let an object be there already, a lease as one that was released."""
    namespace, name = NAMES[kind].split("/")
    spec = {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": "x"}
    metadata |= {"namespace": namespace, "name": name}
    api.store.put(kind, {"metadata": metadata, "spec": spec, "data": {}})


class Process:
    """What one process writes."""

    def __init__(self, client: Client) -> None:
        self.now = 0.0
        self.client = client
        self.owner = ReleaseOwner("us", "ours", lambda: self.now)
        self.ledger = LedgerStore("us", "ours-ledger", lambda _: None, self.owner)

    async def write(self, kind: str) -> None:
        if kind == "leases":
            settings = LeaderElectionConfig("us", "ours", "me")
            elector = LeaderElector(
                self.client, settings, lambda: NOW, Sleeper(lambda: 0.0), owner=self.owner
            )
            async with asyncio.timeout(5):
                await elector.acquire()
        else:
            await self.ledger.load(self.client)
            await self.ledger.save(self.client, "{}")


def metadata(api: FakeApi, kind: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = api.store.get(kind, NAMES[kind])["metadata"]
    return found


def owners(api: FakeApi, kind: str) -> Any:
    return metadata(api, kind).get("ownerReferences", [])


@pytest.fixture
def process(client: Client) -> Process:
    return Process(client)


@pytest.mark.parametrize("kind", NAMES)
async def test_what_is_made_belongs_to_the_deployment(api, process, heard, kind):
    deploy(api)

    await process.write(kind)
    await process.write(kind)

    assert owners(api, kind) == [reference("uid-1")]
    assert metadata(api, kind)["labels"] == LABELS
    assert [each.resource for each in api.requests].count("deployments") == 1
    assert heard.unowned_because == []


@pytest.mark.parametrize("kind", NAMES)
async def test_what_is_there_without_it_belongs_to_it_after_the_next_write(api, process, kind):
    deploy(api, "uid-2")
    make(api, kind, labels={"a": "b"}, ownerReferences=[OTHER, reference("uid-1")])

    await process.write(kind)

    assert owners(api, kind) == [OTHER, reference("uid-2")]
    assert metadata(api, kind)["labels"] == {"a": "b", **LABELS}


@pytest.mark.parametrize("kind", NAMES)
async def test_what_is_deleted_with_the_deployment_belongs_to_the_one_that_follows(
    api, process, kind
):
    deploy(api)
    await process.write(kind)
    deploy(api, "uid-2")
    api.store.remove(kind, NAMES[kind])

    await process.write(kind)

    assert owners(api, kind) == [reference("uid-2")]


@pytest.mark.parametrize("kind", NAMES)
async def test_what_is_made_after_the_deployment_was_deleted_is_deleted_with_it(
    api, process, heard, kind
):
    deploy(api)
    await process.write(kind)
    api.store.remove("deployments", "us/ours")
    api.store.remove(kind, NAMES[kind])

    await process.write(kind)

    assert owners(api, kind) == [reference("uid-1")]
    assert heard.unowned_because == []


@pytest.mark.parametrize("kind", NAMES)
async def test_what_was_orphaned_gets_no_owner_that_is_gone(api, process, kind):
    deploy(api)
    await process.write(kind)
    api.store.remove("deployments", "us/ours")
    found = api.store.get(kind, NAMES[kind])
    api.store.put(kind, {**found, "metadata": {**found["metadata"], "ownerReferences": []}})

    await process.write(kind)

    assert owners(api, kind) == []


@pytest.mark.parametrize(
    "refused",
    [
        Fault("GET", "/deployments/", status=403),
        Fault("GET", "/deployments/", status=404),
        Fault("GET", "/deployments/", cut=True, times=2),
        Fault("GET", "/deployments/", status=404, body=b"404 page not found\n"),
    ],
    ids=["no right", "no Deployment", "no answer", "another server"],
)
@pytest.mark.parametrize("kind", NAMES)
async def test_what_cannot_have_an_owner_is_written_and_gets_one_later(
    api, process, heard, kind, refused
):
    deploy(api)
    api.inject(Fault(**vars(refused)))

    await process.write(kind)
    await process.write(kind)

    assert owners(api, kind) == []
    assert len(heard.unowned_because) == 1
    process.now += PAUSE_SECONDS
    await process.write(kind)
    assert owners(api, kind) == [reference("uid-1")]


@pytest.mark.parametrize("status", [403, 422])
@pytest.mark.parametrize(("kind", "method"), [("leases", "PUT"), ("configmaps", "PATCH")])
async def test_where_owners_may_not_be_changed_the_rest_is_written(
    api, process, heard, kind, method, status
):
    deploy(api)
    make(api, kind)
    # OwnerReferencesPermissionEnforcement asks for the right to delete the object.
    api.inject(Fault(method, f"/{kind}/", status=status))

    await process.write(kind)
    await process.write(kind)

    assert owners(api, kind) == []
    assert len(heard.unowned_because) == 1
    sent = [each for each in api.requests if f"/{kind}/" in each.path and each.verb != "get"]
    assert ["ownerReferences" in each.body["metadata"] for each in sent] == [True, False, False]


async def test_a_right_that_is_missing_in_any_case_is_not_blamed_on_the_owner(
    api, process, client, heard
):
    deploy(api)

    async def send(_: dict[str, Any]) -> None:
        raise Forbidden(403, "Forbidden", "no right to leases")

    with pytest.raises(Forbidden):
        await process.owner.write(client, {}, send)
    assert heard.unowned_because == []
