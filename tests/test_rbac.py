"""The shipped rights are those that the code uses: none is missing, none is superfluous.

What the code uses is not listed here. The informers, the comparer, the writer, the reviewer and
the lease run against a transport that notes every request, and each request is read as the API
server's authorizer reads it.
"""

import asyncio
import base64
import contextlib
import itertools
import json
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, get_args
from urllib.parse import parse_qs, urlsplit

import pytest

from deploy.tools.controlplane.cluster import ControlPlane
from deploy.tools.demo import installation
from scheduler.kube.auth.cluster_access import ClusterAccess
from scheduler.kube.auth.credentials import FixedHeaders
from scheduler.kube.client.backoff import Sleeper
from scheduler.kube.client.client import Client
from scheduler.kube.client.transport import HttpTransport, Reply, ReplyStream
from scheduler.kube.client_ca import ClientCaReader
from scheduler.kube.leader_election import LeaderElectionConfig, LeaderElector
from scheduler.kube.policies.policy_informer import PolicyInformer, PolicySettings
from scheduler.kube.release_owner import ReleaseOwner
from scheduler.kube.token_review import Reviewer
from scheduler.kube.watch.cache_comparer import CacheComparer
from scheduler.kube.watch.informer import Informer
from scheduler.kube.watch.resources import RESOURCES
from scheduler.kube.write import history_configmaps
from scheduler.kube.write.ledger_configmap import LedgerStore
from scheduler.kube.write.writer import Writer
from scheduler.model.api.device_claims import Allocation, DeviceRequests
from scheduler.model.effects import (
    Ask,
    Bind,
    BindClaims,
    BindVolumes,
    ClaimRef,
    ClaimWrite,
    ClearNomination,
    DeallocateClaim,
    DeleteClaim,
    Effect,
    Evict,
    Nominate,
    PodRef,
    Question,
    RecordEvent,
    ReleaseClaims,
    ReserveVolume,
    SaveLedger,
    SelectNode,
    SetCondition,
    Verb,
)
from scheduler.model.events import Event
from tests.support.fake_api import FakeApi

NAME = installation.NAME
USER = f"system:serviceaccount:{NAME}:{NAME}"
SECURITY: Final = Path(__file__).parents[1] / "docs" / "security.md"
AUTHENTICATION_READER: Final = "extension-apiserver-authentication-reader"
VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
METHODS: Final = {"list": "GET", "watch": "GET", "patch": "PATCH"}
POD = PodRef("default", "a", "uid-a")
#: An example of each kind.
EFFECTS: Final[tuple[Effect, ...]] = (
    Bind(POD, "n", NAME),
    BindVolumes(
        POD,
        "n",
        (ReserveVolume("v", "1", "default", "c", "uid-c", "1", by_controller=True),),
        (SelectNode("default", "m", "1"),),
    ),
    BindClaims(
        POD,
        "n",
        (
            ClaimWrite(ClaimRef("default", "d", "uid-d", "1"), Allocation()),
            ClaimWrite(ClaimRef("default", "", "uid-e"), Allocation(), DeviceRequests()),
        ),
        awaits_devices=True,
    ),
    ReleaseClaims(POD, (ClaimRef("default", "d", "uid-d", "1"),)),
    DeallocateClaim(POD, ClaimRef("default", "d", "uid-d", "1")),
    DeleteClaim(POD, ClaimRef("default", "made", "uid-made", "1")),
    SetCondition(POD, "Unschedulable", "no room", 1),
    Nominate(POD, "n", "no room", 1),
    ClearNomination(POD),
    Evict(POD, "n", POD, NAME, 1),
    Evict(POD, "n", POD, NAME, 1, strict=True),
    SaveLedger('{"version":1}', 1),
    RecordEvent(POD, "Normal", "Scheduled", "Binding", "done", NAME),
    Ask(POD, 1, "1", (Question(0, Verb.FILTER, ("n",)),)),
)


class Right(NamedTuple):
    """What the API server is asked to allow."""

    verb: str
    group: str
    #: With its subresource, as RBAC names it.
    resource: str
    #: Of the object; empty where the request names none, or any may be meant.
    name: str = ""


class EndlessSilence(ReplyStream):
    """A watch of a cluster in which nothing happens."""

    status = 200
    headers: Mapping[str, str] = {}

    async def read(self) -> bytes:
        await asyncio.Event().wait()
        return b""


@dataclass
class Recorder:
    """A transport that notes every request, and answers from a queue or with an empty object."""

    answers: list[Reply] = field(default_factory=list)
    #: Of the lists; by default that of the objects.
    kind: str = ""
    requests: list[tuple[str, str]] = field(default_factory=list)

    async def send(self, method: str, path: str, body: bytes | None, content_type: str) -> Reply:
        self.requests.append((method, path))
        if self.answers:
            return self.answers.pop(0)
        status = 201 if method == "POST" else 200
        return Reply(status, {}, body or _claim(path) or _empty_list(path, self.kind))

    def dispatch(self, *_: object) -> bool:
        return False

    @contextlib.asynccontextmanager
    async def stream(self, path: str, silence_seconds: float) -> AsyncIterator[ReplyStream]:
        self.requests.append(("GET", path))
        yield EndlessSilence()

    @property
    def rights(self) -> set[Right]:
        return {_right(method, path) for method, path in self.requests}


def _claim(path: str) -> bytes:
    """Return the claim that a request reads; empty for other requests."""
    found = re.search(r"/resourceclaims/([a-z-]+)$", urlsplit(path).path)
    if found is None:
        return b""
    name = found[1]
    protected = ["resource.kubernetes.io/delete-protection"] if name == "made" else []
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    metadata |= {"resourceVersion": "1", "finalizers": protected}
    return json.dumps({"metadata": metadata, "spec": {}}).encode()


def _empty_list(path: str, kind: str) -> bytes:
    name = urlsplit(path).path.rpartition("/")[2]
    kinds = {each.name: f"{each.kind}List" for each in RESOURCES}
    page = {"kind": kind or kinds.get(name, ""), "metadata": {"resourceVersion": "1"}, "items": []}
    return json.dumps(page).encode()


def _right(method: str, path: str) -> Right:
    """Read a request as the API server does.

    Source: apiserver v0.36.3 pkg/endpoints/request, RequestInfoFactory.NewRequestInfo.
    """
    url = urlsplit(path)
    found = re.fullmatch(
        r"/(?:api/v1|apis/(?P<group>[^/]+)/v1(?:alpha1)?)(?:/namespaces/(?P<namespace>[^/]+)(?=/))?"
        r"/(?P<resource>[^/]+)(?:/(?P<name>[^/]+)(?:/(?P<sub>[^/]+))?)?",
        url.path,
    )
    assert found is not None, path
    name, sub = found["name"] or "", found["sub"]
    verb = VERBS.get(method, "get" if name else "list")
    if "watch" in parse_qs(url.query):
        verb = "watch"
    resource = f"{found['resource']}/{sub}" if sub else found["resource"]
    return Right(verb, found["group"] or "", resource, name)


def pauses() -> Sleeper:
    async def at_once(_: float) -> None:
        await asyncio.sleep(0)

    return Sleeper(jitter=lambda: 0.0, sleep=at_once)


async def until(holds: Any) -> None:
    async with asyncio.timeout(5):
        while not holds():
            await asyncio.sleep(0.001)


async def watched() -> set[Right]:
    """Return what the informers need."""
    recorder = Recorder()
    client = Client(recorder)
    informers: list[Informer[Any]] = [
        Informer(resource, client, lambda _: None, pauses()) for resource in RESOURCES
    ]
    tasks = [asyncio.create_task(informer.run()) for informer in informers]
    await until(lambda: len(recorder.requests) >= 2 * len(informers))
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return recorder.rights


async def compared() -> set[Right]:
    """Return what the comparer needs."""
    recorder = Recorder(kind="PartialObjectMetadataList")
    client = Client(recorder)
    comparer = CacheComparer([], client, lambda *_: None, lambda *_: None, pauses())
    for resource in RESOURCES:
        await comparer.compare(Informer(resource, client, lambda _: None, pauses()))
    return recorder.rights


async def policed() -> set[Right]:
    """Return what policies need: the list, the watch of kopf, and the status."""
    api = FakeApi()
    await api.start()
    spec = {"metadata": {"name": "p", "generation": 1}, "spec": {}}
    api.store.put("preemptionpolicies", spec)
    where = ClusterAccess(api.url, FixedHeaders())
    settings = PolicySettings(
        where=where,
        user_agent=NAME,
        may_write=lambda: True,
        figures=dict,
        wall=lambda: 0.0,
    )
    async with HttpTransport(where, NAME) as transport:
        policies = PolicyInformer(Client(transport), lambda _: None, Sleeper(lambda: 0.0), settings)
        running = asyncio.create_task(policies.run())
        async with asyncio.timeout(15):
            while {each.verb for each in api.requests} != {"list", "watch", "patch"}:
                await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    await api.stop()
    rights = {_right(METHODS[each.verb], each.path) for each in api.requests}
    return {right._replace(name="") for right in rights}


async def reviewed() -> set[Right]:
    """Return the rights that the reviewer needs to authorize readers of metrics."""
    token = Reply(201, {}, b'{"status":{"authenticated":true,"user":{"username":"u"}}}')
    access = Reply(201, {}, b'{"status":{"allowed":true}}')
    recorder = Recorder(answers=[token, access])
    reviewer = Reviewer(Client(recorder))
    user = await reviewer.user("token")
    assert user is not None
    assert await reviewer.allows(user, "get", "/metrics")
    recorder.answers.append(access)
    assert await reviewer.may_get_pods(user, "")
    return recorder.rights


async def used() -> set[Right]:
    """Return everything that is needed in the whole cluster."""
    return await watched() | await compared() | await written() | await reviewed() | await policed()


async def written() -> set[Right]:
    """Return what the writer needs: every effect, a repeated Event, and a lost answer."""
    lost = Reply(503, {}, b"{}")
    there = {"metadata": {"uid": POD.uid}, "spec": {"nodeName": "n"}}
    bound = Reply(200, {}, json.dumps(there).encode())
    recorders = [await _twice(effect, []) for effect in EFFECTS]
    recorders.append(await _twice(EFFECTS[0], [lost, bound]))
    rights = set().union(*(recorder.rights for recorder in recorders))
    # A write of an allocation or a reservation needs this right, too, which no request names.
    of_claims = {right for right in rights if right.resource == "resourceclaims/status"}
    rights |= {right._replace(resource="resourceclaims/binding") for right in of_claims}
    return {right._replace(name="") for right in rights}  # they are about any pod


async def _twice(effect: Effect, answers: list[Reply]) -> Recorder:
    """Have an effect executed, and once more."""
    recorder = Recorder(answers)
    outcomes: list[Event] = []
    minutes = itertools.count()
    writer = Writer(
        Client(recorder), outcomes.append, lambda: True, lambda: 60.0 * next(minutes), pauses()
    )
    for count in (1, 2):
        writer.submit(effect)
        await until(lambda count=count: len(outcomes) >= count)
    await writer.drain(1.0)
    return recorder


async def elected() -> set[Right]:
    """Return what the lease needs: making, renewing, and giving it back."""
    missing = Reply(404, {}, b'{"kind":"Status","reason":"NotFound"}')
    recorder = Recorder(answers=[missing])
    settings = LeaderElectionConfig(NAME, NAME, "me", retry_seconds=0.01)
    owner = ReleaseOwner(NAME, NAME, lambda: 0.0)
    lease = LeaderElector(Client(recorder), settings, lambda: 0.0, pauses(), owner=owner)
    await lease.acquire()
    holding = asyncio.create_task(lease.keep_renewing())
    await until(lambda: any(method == "PUT" for method, _ in recorder.requests))
    holding.cancel()
    await asyncio.gather(holding, return_exceptions=True)
    await lease.release()
    assert {f"/namespaces/{NAME}/" in path for _, path in recorder.requests} == {True}
    return recorder.rights


async def remembered() -> set[Right]:
    """Return what ledger and history need: reading them, making them, and writing them again."""
    missing = Reply(404, {}, b'{"kind":"Status","reason":"NotFound"}')
    recorder = Recorder(answers=[missing])
    client = Client(recorder)
    owner = ReleaseOwner(NAME, NAME, lambda: 0.0)
    ledger = LedgerStore(NAME, f"{NAME}-ledger", lambda _: None, owner)
    assert await ledger.load(client) == ""
    await ledger.save(client, "{}")
    found = b'{"kind":"ConfigMap","metadata":{"resourceVersion":"2"}}'
    recorder.answers.append(Reply(200, {}, found))
    await ledger.load(client)
    await ledger.save(client, "{}")
    unowned = ReleaseOwner(NAME, "", lambda: 0.0)
    history = history_configmaps.stored_history(NAME, f"{NAME}-history", unowned)
    for part in (*history.ring, history.attempts):
        for state in (missing, Reply(200, {}, found)):
            recorder.answers += [state, _written(b"content")]
            await part.read(client)
            await part.write(client, b"content")
    assert {f"/namespaces/{NAME}/" in path for _, path in recorder.requests} == {True}
    return recorder.rights


def _written(content: bytes) -> Reply:
    data = {history_configmaps.KEY: base64.b64encode(content).decode()}
    return Reply(201, {}, json.dumps({"binaryData": data}).encode())


async def trusted() -> set[Right]:
    """Return what the client CA needs, which a Role of the API server grants."""
    recorder = Recorder(answers=[Reply(200, {}, b'{"data":{"client-ca-file":"PEM"}}')])
    found: list[str] = []
    await ClientCaReader(Client(recorder), found.append, found.append, pauses()).read()
    assert found == ["PEM"]
    assert {"/namespaces/kube-system/" in path for _, path in recorder.requests} == {True}
    return recorder.rights


def granted(kind: str) -> list[Right]:
    """Return the rights of all shipped roles of a kind; those for any name have none."""
    roles = (each for each in installation.manifests() if each["kind"] == kind)
    return [right for role in roles for rule in role["rules"] for right in _rights(rule)]


def _rights(rule: Mapping[str, list[str]]) -> Iterable[Right]:
    for group in rule["apiGroups"]:
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                for name in rule.get("resourceNames", [""]):
                    yield Right(verb, group, resource, name)


@pytest.mark.parametrize("kind", get_args(Effect))
def test_every_effect_has_an_example_here(kind: type[Effect]):
    assert kind in {type(effect) for effect in EFFECTS}


async def test_the_cluster_role_grants_what_the_scheduler_reads_and_writes():
    assert set(granted("ClusterRole")) == await used()


async def test_the_role_grants_the_lease_the_ledger_and_the_parts_of_the_history():
    assert set(granted("Role")) == await elected() | await remembered()


def explained() -> set[tuple[str, str, str]]:
    """Return verb, resource and name of the rights in the table of the page on security."""
    section = SECURITY.read_text().partition("\n## What it may do\n")[2].partition("\n## ")[0]
    found = set()
    for cell in re.findall(r"^\| (`[a-z]+`.*?) \|", section, re.MULTILINE):
        verbs, resources, name, last, elsewhere = re.fullmatch(
            r"((?:`\w+`,? )+)([\w/, ]+?)(?: named `([\w-]+)`(?: to `(\d)`)?)?"
            r"(?: in (?:its own namespace|(.+)))?",
            cell,
        ).groups()
        if elsewhere is None:  # otherwise a Role of the API server grants it
            found |= {
                (verb, resource, each)
                for verb in re.findall(r"\w+", verbs)
                for resource in resources.split(", ")
                for each in _names(name or "", last)
            }
    return found


def _names(first: str, last: str | None) -> list[str]:
    if last is None:
        return [first]
    return [f"{first[:-1]}{number}" for number in range(int(first[-1]), int(last) + 1)]


def test_the_page_on_security_explains_every_right():
    rights = [*granted("ClusterRole"), *granted("Role")]

    assert explained() == {(right.verb, right.resource, right.name) for right in rights}


def test_nothing_is_granted_twice_or_by_wildcard():
    for kind in ("Role", "ClusterRole"):
        rights = granted(kind)
        assert len(rights) == len(set(rights))
        assert "*" not in {each for right in rights for each in right}


@pytest.mark.parametrize("kind", ["Role", "ClusterRole"])
def test_every_role_is_bound_to_the_service_account_only(kind: str):
    objects = list(installation.manifests())
    roles = [each["metadata"]["name"] for each in objects if each["kind"] == kind]
    bindings = [each for each in objects if each["kind"] == f"{kind}Binding"]

    # The API server makes this one.
    foreign = [AUTHENTICATION_READER] if kind == "Role" else []
    assert [each["roleRef"]["name"] for each in bindings] == roles + foreign
    for binding in bindings:
        assert binding["roleRef"]["kind"] == kind
        assert binding["subjects"] == [
            {"kind": "ServiceAccount", "name": NAME, "namespace": NAME},
        ]


@pytest.mark.cluster
async def test_the_api_server_allows_that_and_no_more(control_plane: ControlPlane):
    control_plane.api.apply(installation.manifests())

    for right in await used():
        assert allowed(control_plane, right), right
    for right in await elected() | await remembered():
        assert allowed(control_plane, right, NAME), right
    for right in await trusted():
        assert allowed(control_plane, right, "kube-system"), right
    for right, namespace in (
        (Right("create", "", "pods"), "default"),
        (Right("update", "", "pods"), "default"),
        (Right("get", "", "secrets"), NAME),
        (Right("get", "", "configmaps", "other"), "kube-system"),
        (Right("delete", "", "nodes"), ""),
        (Right("patch", "", "configmaps", "other"), NAME),
        (Right("patch", "", "configmaps", f"{NAME}-ledger"), "default"),
        (Right("delete", "", "configmaps", f"{NAME}-ledger"), NAME),
        (Right("patch", "", "configmaps", f"{NAME}-history-8"), NAME),
        (Right("update", "coordination.k8s.io", "leases", "kube-scheduler"), "kube-system"),
        (Right("update", "coordination.k8s.io", "leases", "other"), NAME),
        (Right("delete", "coordination.k8s.io", "leases", NAME), NAME),
    ):
        assert not allowed(control_plane, right, namespace), right


def allowed(cluster: ControlPlane, right: Right, namespace: str = "") -> bool:
    """Ask the API server whether the scheduler's ServiceAccount has a right."""
    resource, _, sub = right.resource.partition("/")
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": USER,
            "groups": ["system:serviceaccounts", f"system:serviceaccounts:{NAME}"],
            "resourceAttributes": {
                "verb": right.verb,
                "group": right.group,
                "resource": resource,
                "subresource": sub,
                "name": right.name,
                "namespace": namespace,
            },
        },
    }
    answer = cluster.api.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])
