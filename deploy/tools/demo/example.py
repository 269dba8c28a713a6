"""The example of the demonstration: the manifest, split into its steps."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from deploy.tools.controlplane.manifests import documents

__all__ = ["FILE", "Example", "Step", "ending", "pods", "read"]

Json: TypeAlias = dict[str, Any]

FILE: Final = Path(__file__).parents[2] / "manifests" / "examples" / "preemption.yaml"

#: The label with the step in which an object is applied.
STEP: Final = "step"

#: The annotation with the time that simulated kubelets take to terminate a pod.
ENDING: Final = "pod-delete.stage.kwok.x-k8s.io/delay"


@dataclass(frozen=True)
class Step:
    """Objects that are applied together, and the pods that result."""

    documents: tuple[Json, ...]
    #: Pods of its Deployments by PriorityClass: all of them must run before the step is done.
    pods: Mapping[str, int]


@dataclass(frozen=True)
class Example:
    """The steps of an example."""

    steps: tuple[Step, ...]
    #: The values of its PriorityClasses.
    classes: Mapping[str, int]


def read(path: Path, ending_seconds: float) -> Example:
    """Return the example of a file; its pods take `ending_seconds` to terminate."""
    everything = [ending(each, ending_seconds) for each in documents(path)]
    numbers = sorted({_step(each) for each in everything})
    steps = (tuple(each for each in everything if _step(each) == number) for number in numbers)
    classes = {
        each["metadata"]["name"]: each["value"]
        for each in everything
        if each["kind"] == "PriorityClass"
    }
    return Example(tuple(Step(each, pods(each)) for each in steps), classes)


def _step(document: Json) -> int:
    return int(document["metadata"]["labels"][STEP])


def pods(objects: Iterable[Json]) -> Counter[str]:
    """Return the number of pods of Deployments by PriorityClass."""
    found: Counter[str] = Counter()
    for each in objects:
        if each["kind"] == "Deployment":
            spec = each["spec"]
            found[spec["template"]["spec"]["priorityClassName"]] += spec["replicas"]
    return found


def ending(document: Json, seconds: float) -> Json:
    """Return an object; if it is a Deployment, its pods take so long to terminate."""
    if document["kind"] == "Deployment":
        metadata = document["spec"]["template"]["metadata"]
        metadata["annotations"] = {**metadata.get("annotations", {}), ENDING: f"{seconds:g}s"}
    return document
