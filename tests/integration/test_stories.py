"""The questions that people ask every day, as they type them: each has its number of commands.

Each command is a process of the plugin, which asks a real scheduler and a real API server. What is
compared is what a person reads: the first line has to answer.
"""

import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import pytest
import yaml

from deploy.tools.controlplane.cluster import ControlPlane
from deploy.tools.demo import address, installation
from tests.integration.everyday import STORIES, Story, missing
from tests.integration.objects import Json, budget, condition, is_rejected, is_running, pod
from tests.integration.scene import Scene
from tests.integration.test_history_live import wait_kept
from tests.integration.test_leadership import ELECTION, forget_lease
from tests.integration.test_policies_live import (
    NO_VICTIMS,
    ONE_VICTIM,
    POLICIES,
    Policy,
    contested,
    start,
    undefine,
    wait_held,
)
from tests.integration.test_shadow_live import (  # noqa: F401 - fixtures
    Shadowed,
    config,
    policies,
    reader,
    shadowed,
)
from tests.support.live import COMMAND, Scheduler, Schedulers
from tests.support.recipes import RECIPES

pytestmark = pytest.mark.cluster

#: How a typed line begins.
PLUGIN: Final = "kubectl preemptive "


class Place(NamedTuple):
    """Where a story happens."""

    scene: Scene
    #: Where the scheduler serves that leads.
    port: int
    names: Mapping[str, str] = {}
    #: What happens after a command, by its number.
    after: Mapping[int, Callable[[], object]] = {}


class Terminal:
    """Types lines as a person does, and counts them."""

    def __init__(self, folder: Path, place: Place) -> None:
        self.typed: list[str] = []
        self._place, self._folder = place, folder
        self._environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}

    def type(self, line: str) -> tuple[int, str]:
        """Run a line; return its exit code, and what a person reads."""
        self.typed.append(line)
        first, _, then = line.partition(" | ")
        code, text = 0, ""
        if first.startswith(PLUGIN):
            code, text = self._plugin(first.removeprefix(PLUGIN))
        else:
            then = first
        if then:
            self._kubectl(then, text)
        return code, text

    def _plugin(self, words: str) -> tuple[int, str]:
        place = self._place
        plane, namespace = place.scene.plane, place.scene.namespace
        with address.announced(
            place.port, plane.admin_kubeconfig, namespace, self._environment
        ) as kubeconfig:
            ended = subprocess.run(
                [COMMAND.with_name("kubectl-preemptive"), *shlex.split(words)],
                env={**self._environment, "KUBECONFIG": str(kubeconfig)}, cwd=self._folder,
                capture_output=True, text=True, check=False, timeout=120,
            )  # fmt: skip
        return ended.returncode, ended.stdout + ended.stderr

    def _kubectl(self, line: str, given: str) -> None:
        """Write a policy as kubectl does; there may be none on this machine."""
        api = self._place.scene.api
        _, verb, _, file = shlex.split(line)
        document = yaml.safe_load(given or (self._folder / file).read_text())
        path = f"{POLICIES}/{document['metadata']['name']}"
        if verb == "replace":
            version = api.get(path)["metadata"]["resourceVersion"]
            document["metadata"]["resourceVersion"] = version
            api.put(path, document)
        else:
            api.apply(document)


# Places


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Where the lines are typed, and their files are."""
    made = tmp_path / "home"
    made.mkdir()
    return made


@pytest.fixture
def full_cluster(scene: Scene, scheduler: Scheduler) -> Place:
    """Pods of a Deployment wait, as others of a higher priority hold all nodes."""
    first, _ = scene.nodes(2, cpu="2")
    scene.deploy("batch", 4, pod("batch", "1", "middle", labels={"app": "batch"}))
    scene.wait_bound_count(4)
    scene.deploy("api", 3, pod("api", "1", "low", labels={"app": "api"}))
    scene.wait_pods(lambda found: sum(map(is_rejected(), found)) == 3)
    return Place(scene, scheduler.port, {"nodes": first.rpartition("-")[0]})


@pytest.fixture
def evicted_pod(scene: Scene, scheduler: Scheduler) -> Place:
    """A pod was evicted, and the one that replaces it waits."""
    node, other = scene.nodes(2, cpu="2")
    scene.run(*(pod(f"middle-{i}", "1", "middle", on=other) for i in range(2)))
    scene.deploy("batch", 2, pod("batch", "1", "low", labels={"app": "batch"}))
    scene.wait_bound_count(4)
    scene.create(pod("urgent", "1", "high"))
    assert scene.wait_bound("urgent") == node
    scene.wait_pods(lambda found: any(map(is_rejected(), found)))
    (victim,) = scene.history().evicted()
    return Place(scene, scheduler.port, {"victim": victim, "node": node, "other": other})


@pytest.fixture
def guarded_cluster(scene: Scene, scheduler: Scheduler, home: Path) -> Place:
    """A disruption budget protects all pods of the only node."""
    node = scene.node("2")
    scene.deploy("cache", 2, pod("cache", "1", "low", labels={"app": "cache"}))
    budgets = f"/apis/policy/v1/namespaces/{scene.namespace}/poddisruptionbudgets"
    scene.api.post(budgets, budget("cache", 2, app="cache"))
    scene.api.wait_for(f"{budgets}/cache", is_exhausted)
    wanted = {"apiVersion": "v1", "kind": "Pod", **pod("urgent", "1", "high", by=scheduler.name)}
    (home / "urgent.yaml").write_text(yaml.safe_dump(wanted))
    wanted["spec"]["contaners"] = wanted["spec"].pop("containers")
    (home / "typo.yaml").write_text(yaml.safe_dump(wanted))
    return Place(scene, scheduler.port, {"node": node})


@pytest.fixture
def zone(scene: Scene, scheduler: Scheduler) -> Place:
    """Two nodes of a zone have a pod each, and there is room for one of these elsewhere."""
    scene.nodes(2, cpu="1", labels={"zone": scene.namespace})
    scene.deploy("web", 2, pod("web", "1", "low", labels={"app": "web"}))
    scene.wait_bound_count(2)
    elsewhere = scene.node(cpu="2")
    scene.create(pod("other", "1", "low"))
    scene.wait_running("other")  # so the scheduler knows the node
    return Place(scene, scheduler.port, {"zone": scene.namespace, "elsewhere": elsewhere})


@pytest.fixture
def defined(plane: ControlPlane) -> Iterator[None]:
    """A cluster that knows what policies are, and has none, before and after."""
    undefine(plane)
    plane.api.apply(installation.BASE / "preemption-policies.yaml")
    yield
    undefine(plane)


@pytest.fixture
def two_teams(
    plane: ControlPlane, defined: None, scene: Scene, schedulers: Schedulers, home: Path
) -> Iterator[Place]:
    """Team A has 11 pods that need to evict one each; a pod of team B can evict none."""
    recipe = RECIPES["Team A evicts at most 10 pods an hour"]
    (home / "policy.yaml").write_text(yaml.safe_dump(recipe))
    policy, other = recipe["metadata"]["name"], f"{scene.namespace}-b"
    scene.api.patch(
        f"/api/v1/namespaces/{scene.namespace}", {"metadata": {"labels": {"team": "a"}}}
    )
    plane.create_namespace(other, {"team": "b"})
    node = scene.node(cpu="11")
    scene.run(*(pod(f"low-{i}", "1", "low", on=node) for i in range(11)))
    scheduler = start(schedulers)
    theirs = f"/api/v1/namespaces/{other}/pods"

    def applied() -> None:
        scene.api.wait_for(f"{POLICIES}/{policy}", lambda found: found and "status" in found)
        scene.create(*(pod(f"a-{i}", "1", "high") for i in range(11)))
        scene.api.post(theirs, pod("b", "1", by=scheduler.name))
        scene.wait_pods(lambda found: any(policy in rejection(each) for each in found))
        scene.wait_pods(lambda found: sum(is_running(each) for each in found if is_a(each)) == 10)
        scene.api.wait_for(f"{theirs}/b", is_rejected())

    def looked() -> None:
        # Nobody unrelated is blamed.
        assert policy not in rejection(scene.api.get(f"{theirs}/b"))

    yield Place(scene, scheduler.port, {"policy": policy}, {1: applied, 2: looked})
    scene.api.delete(theirs, gracePeriodSeconds="0")
    scene.api.delete(f"/api/v1/namespaces/{other}")


@pytest.fixture
def bad_policy(defined: None, scene: Scene, schedulers: Schedulers) -> Place:
    """The second generation of a policy keeps a pod from running."""
    scheduler, policy = start(schedulers), Policy(scene)
    policy.create(ONE_VICTIM)
    policy.wait_accepted(1)
    policy.change(NO_VICTIMS)
    policy.wait_accepted(2)
    contested(scene)
    wait_held(scene, policy)
    return Place(
        scene, scheduler.port, {"policy": policy.name}, {2: lambda: scene.wait_running("high")}
    )


@pytest.fixture
def killed_leader(
    plane: ControlPlane, defined: None, scene: Scene, schedulers: Schedulers
) -> Place:
    """Two pods were evicted, a policy has saved another one, and the leader was killed."""
    forget_lease(plane)
    leader = schedulers.start(config=ELECTION)
    leader.wait_log("became_leader")
    standby, policy = schedulers.start(config=ELECTION), Policy(scene)
    policy.create({"maxVictimsPerPreemption": 2})
    policy.wait_accepted(1)
    node = scene.node(cpu="4")
    scene.run(*(pod(f"low-{i}", "1", "low", on=node) for i in range(4)))
    scene.create(pod("greedy", "3", "middle"))
    scene.wait_rejected("greedy", policy.name)
    scene.create(pod("urgent", "2", "high"))
    scene.wait_running("urgent")
    wait_kept(scene, "urgent", outcome="bound")
    leader.kill()
    standby.wait_log("became_leader")
    return Place(scene, standby.port, {"policy": policy.name})


@pytest.fixture
def beside_kube_scheduler(
    shadowed: Shadowed, policies: Callable[[Shadowed, Json], None]  # noqa: F811 - fixtures
) -> Place:  # fmt: skip
    """kube-scheduler has placed four pods, and evicted two; a policy would have forbidden that."""
    scene = shadowed.scene
    node, _ = scene.node(cpu="4"), scene.node(cpu="1")
    scene.run(pod("low-0", "2", "low", on=node), pod("low-1", "2", "low", on=node))
    policies(shadowed, {"maxVictimsPerPreemption": 1})
    scene.create(*(pod(f"p-{i}", "100m") for i in range(4)))
    scene.wait_bound_count(6)
    scene.create(pod("vip", "4", "high"))
    scene.wait_bound("vip")
    shadowed.until(
        lambda found: found.get("placements") == 4 and "preemption_avoided" in found["outcomes"]
    )
    names = {"node": node, "scheduler": scene.scheduler_name}
    return Place(scene, shadowed.shadow.port, names)


def is_exhausted(found: Json | None) -> bool:
    """Return whether a disruption budget has seen two pods, and allows no disruption."""
    status = (found or {}).get("status", {})
    return (status.get("currentHealthy"), status.get("disruptionsAllowed")) == (2, 0)


def is_a(found: Json) -> bool:
    """Return whether a pod is one of team A."""
    return str(found["metadata"]["name"]).startswith("a-")


def rejection(found: Json) -> str:
    """Return why a pod waits."""
    return str(condition(found, "PodScheduled").get("message", ""))


@pytest.mark.parametrize("story", STORIES, ids=[each.question for each in STORIES])
def test_a_question_is_answered_in_as_many_commands(
    story: Story, request: pytest.FixtureRequest, home: Path
) -> None:
    place: Place = request.getfixturevalue(story.place)
    names = {"ns": place.scene.namespace, **place.names}
    user = Terminal(home, place)

    for number, command in enumerate(story.commands, 1):
        code, text = user.type(command.typed.format_map(names))
        sys.stdout.write(f"$ {user.typed[-1]}\n{text}\n")
        lines = missing([line.format_map(names) for line in command.says], text)
        place.after.get(number, lambda: None)()
        assert (code, lines) == (command.code, []), text

    assert len(user.typed) == story.steps
