"""The guided stories of `make run STORY=…`: what is shown, with commands that users can paste.

A story is a part of the example, then scenes. The demonstration carries out the command of each
scene (see `commands`), and waits until the cluster has settled.
"""

from dataclasses import dataclass
from typing import Final

from deploy.tools.demo import example

__all__ = ["STORIES", "TRY", "Scene", "Story"]

_EXAMPLE: Final = example.FILE.relative_to(example.FILE.parents[3])
#: The PriorityClass of the pods that must run.
_HIGH: Final = "high-example"


@dataclass(frozen=True)
class Scene:
    """One command, and why it is given."""

    says: str
    #: `preemptive` stands for the plugin; {pod} is the most important pod that waits, and {node}
    #: one with a pod of high priority.
    command: str
    #: The PriorityClasses of which all pods must run before the next scene.
    run: tuple[str, ...] = ()


@dataclass(frozen=True)
class Story:
    """A story on the cluster of the demonstration."""

    about: str
    #: How many steps of the example come first.
    steps: int
    scenes: tuple[Scene, ...]
    #: What has been shown.
    shown: str


#: What a user is invited to try.
TRY: Final = (
    Scene("Why does this pod wait, and what would help?", "preemptive why {pod}"),
    Scene(
        "What would one more Deployment of high priority evict?",
        "preemptive plan -f docs/examples/what-if-demo.yaml",
    ),
    Scene("What would a drained node cost?", "preemptive plan --drain {node}"),
)

STORIES: Final = {
    "budget": Story(
        "a disruption budget decides which pods are evicted, and a Strict policy keeps it",
        2,
        (
            Scene(
                "Two `report` pods of high priority need 2 cpu each. There are enough `batch` pods"
                " for the first; for the second a `cache` pod would have to go, which a disruption"
                " budget protects. As in kube-scheduler, it is violated as a last resort.",
                "preemptive plan -f docs/examples/what-if-demo.yaml",
            ),
            Scene(
                "A policy forbids that: no budget in this namespace is ever violated.",
                "kubectl apply -f docs/examples/strict-budgets.yaml",
            ),
            Scene(
                "The same question again: the second pod would wait instead.",
                "preemptive plan -f docs/examples/what-if-demo.yaml",
            ),
            Scene(
                "Now the pods are created.",
                "kubectl apply -f docs/examples/what-if-demo.yaml",
            ),
            Scene("Why does one of them wait?", "preemptive why {pod}"),
        ),
        "The budget of `cache` decided which pods were evicted, and with the Strict policy a pod"
        " waits rather than violate it.",
    ),
    "drain": Story(
        "what a drained node costs, before it is drained and then for real",
        2,
        (
            Scene(
                "{node} needs maintenance. What would become of its pods?",
                "preemptive plan --drain {node}",
            ),
            Scene("No new pods from now on.", "kubectl cordon {node}"),
            Scene(
                "Its pods are evicted. The disruption budget of `cache` allows no eviction, so one"
                " pod stays.",
                "kubectl drain {node} --timeout=3s",
                (_HIGH,),
            ),
            Scene(
                "The owner of `cache` allows that one pod is missing.",
                'kubectl patch pdb cache --type=merge -p \'{{"spec":{{"maxUnavailable":1}}}}\'',
            ),
            Scene("Now the node becomes empty.", "kubectl drain {node} --timeout=30s", (_HIGH,)),
            Scene("Who had to make room elsewhere?", "preemptive preemptions"),
        ),
        "The plan named the pods that a drain moves, and those that were evicted elsewhere for"
        " them. The drain itself stopped at the disruption budget.",
    ),
    "undo": Story(
        "a bad policy blocks a pod; find it and undo it",
        1,
        (
            Scene(
                "Somebody forbids evictions in this namespace.",
                "kubectl apply -f docs/examples/no-evictions.yaml",
            ),
            Scene(
                "Then pods of high priority are created. There is no room for them.",
                f"kubectl apply -f {_EXAMPLE} -l step=2",
            ),
            Scene("They wait. Why?", "preemptive why {pod}"),
            Scene("How often has the policy refused?", "preemptive policies"),
            Scene(
                "It is undone, and the pods run within seconds.",
                "kubectl delete preemptionpolicy no-evictions",
                (_HIGH,),
            ),
            Scene("What did that cost?", "preemptive report"),
        ),
        "`why` named the policy that blocked the pods, and they ran as soon as it was deleted.",
    ),
}
