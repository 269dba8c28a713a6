"""Hides in the answer to a what-if what a caller may not see: details of pods of some namespaces.

Victims among them are only counted. If such a pod is displaced, simulated, or gets a different
result, its priority and its nodes are shown, because documents about nodes show them as well. Its
requests are removed, because resource names may identify tenants. Messages about it are removed,
because they may name claims and pods. Warnings that reveal what exists in those namespaces are
removed, too. Disruption budgets are only counted, and the verdict is made again of what is left.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from msgspec.structs import replace

from scheduler.model.rest.common import PodView
from scheduler.model.rest.preemptions import PolicyVeto, Replacement
from scheduler.model.rest.what_if import DisplacedPod, DrainBlocker, SimulatedPod, WhatIfAnswer
from scheduler.observe.api import views
from scheduler.observe.api.preempted_devices import seen_devices
from scheduler.sim.what_if_verdict import with_verdict

__all__ = ["hide", "namespaces"]

#: Returns whether the caller may see the pods of a namespace.
MaySee: TypeAlias = Callable[[str], bool]
About: TypeAlias = Mapping[str, frozenset[str]]

NOTHING: Final[About] = MappingProxyType({})


def namespaces(answer: WhatIfAnswer, about: About = NOTHING) -> frozenset[str]:
    """Return the namespaces of all pods in an answer, and of what its warnings tell about."""
    pods = frozenset(pod.namespace for pod in _pods(answer))
    planned = (*answer.items, *answer.others)
    held = (each.devices.items for each in planned if each.devices is not None)
    claims = (each.namespace for devices in held for each in devices if each.claim)
    return pods.union((each.namespace for each in answer.budgets), claims, *about.values())


def hide(answer: WhatIfAnswer, may_see: MaySee, about: About = NOTHING) -> WhatIfAnswer:
    """Return an answer without details of pods that the caller may not see.

    Args:
        answer: The answer.
        may_see: Returns whether the caller may see the pods of a namespace.
        about: The namespaces whose existing objects a warning tells about, by its text.
    """
    if all(map(may_see, namespaces(answer, about))):
        return answer
    budgets = tuple(each for each in answer.budgets if may_see(each.namespace))
    hidden = replace(
        answer,
        budgets=budgets,
        hidden_budgets=len(answer.budgets) - len(budgets),
        blockers=tuple(_blocker(each, may_see) for each in answer.blockers),
        items=tuple(_simulated(each, may_see) for each in answer.items),
        displaced=tuple(_displaced(each, may_see) for each in answer.displaced),
        others=tuple(_simulated(each, may_see) for each in answer.others),
        warnings=tuple(text for text in answer.warnings if all(map(may_see, about.get(text, ())))),
    )
    return with_verdict(hidden)


def _pods(answer: WhatIfAnswer) -> Iterator[PodView]:
    for item in (*answer.items, *answer.others):
        yield item.pod
        for victim in item.victims:
            yield victim.pod
            yield from _pod_of(victim.replacement)
    for blocker in answer.blockers:
        yield blocker.pod
    for displaced in answer.displaced:
        yield displaced.pod
        yield from _pod_of(displaced.replacement)


def _pod_of(replacement: Replacement | None) -> Iterator[PodView]:
    if replacement is not None:
        yield replacement.pod


def _simulated(item: SimulatedPod, may_see: MaySee) -> SimulatedPod:
    victims = tuple(each for each in item.victims if may_see(each.pod.namespace))
    item = replace(
        item,
        victims=victims,
        hidden_victims=len(item.victims) - len(victims),
        devices=seen_devices(item.devices, item.pod.namespace, may_see),
    )
    if may_see(item.pod.namespace):
        return item
    return replace(
        item,
        pod=views.hidden(item.pod),
        source="",
        message="",
        verdicts=(),
        policies=_without_messages(item.policies),
        claims={},
    )


def _without_messages(vetoes: Iterable[PolicyVeto]) -> tuple[PolicyVeto, ...]:
    return tuple(replace(veto, message="") for veto in vetoes)


def _blocker(blocker: DrainBlocker, may_see: MaySee) -> DrainBlocker:
    if may_see(blocker.pod.namespace):
        return blocker
    return replace(blocker, pod=views.hidden(blocker.pod), budgets=())


def _displaced(displaced: DisplacedPod, may_see: MaySee) -> DisplacedPod:
    pod = displaced.pod if may_see(displaced.pod.namespace) else views.hidden(displaced.pod)
    return replace(displaced, pod=pod, replacement=_replacement(displaced.replacement, may_see))


def _replacement(replacement: Replacement | None, may_see: MaySee) -> Replacement | None:
    if replacement is None or may_see(replacement.pod.namespace):
        return replacement
    return replace(replacement, pod=views.hidden(replacement.pod), message="")
