"""Says the answer to a what-if in one sentence. It names only what the answer names."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from scheduler.model.messages import count
from scheduler.model.rest.what_if import WhatIfAnswer

__all__ = ["NOT_PLANNED", "is_pending", "with_verdict"]

#: The decision on a pod of another scheduler.
NOT_PLANNED: Final = "NotPlanned"
#: How many names a sentence has.
_NAMED: Final = 3


def with_verdict(answer: WhatIfAnswer) -> WhatIfAnswer:
    """Return an answer with what it says in one sentence, and what would be lost."""
    violated = bool(answer.budgets or answer.hidden_budgets)
    harm = "evictions" if answer.evicts else "none"
    return replace(
        answer,
        verdict=f"{_subject(answer)} would {'; '.join(_clauses(answer))}.",
        impact="budgets" if violated else harm,
    )


def _subject(answer: WhatIfAnswer) -> str:
    drained = f"raining {_named('node', answer.drain)}"
    if not answer.drain:
        return "Applying this"
    return f"D{drained}" if not answer.items else f"Applying this and d{drained}"


def _clauses(answer: WhatIfAnswer) -> Iterable[str]:
    """Yield the parts of the sentence, the worst first."""
    yield _evictions(answer)
    if answer.blockers:
        first = answer.blockers[0]
        if first.pod.hidden:
            yield f"the drain of {first.node} stops at a pod that you may not see"
        else:
            yield (
                f"the drain of {first.node} stops at {first.pod.namespace}/{first.pod.name}:"
                f" {_refusal(first.budgets)}"
            )
    homeless = sum(
        1 for each in answer.displaced if each.replacement is not None and not each.replacement.node
    )
    if homeless:
        yield f"{count(homeless, 'evicted pod')} would find no other node"
    pods = [each for each in answer.items if each.decision != NOT_PLANNED]
    pending = [each for each in pods if is_pending(each.decision, each.final_node)]
    if pending:
        yield f"{len(pending)} of {count(len(pods), 'pod')} would stay pending"
    others = len(answer.items) - len(pods)
    if others:
        yield f"{count(others, 'pod')} {'is' if others == 1 else 'are'} of another scheduler"


def is_pending(decision: str, final_node: str) -> bool:
    """Return whether a planned pod would stay pending."""
    return not final_node and decision not in {"Scheduled", "Preempting"}


def _evictions(answer: WhatIfAnswer) -> str:
    if not answer.evicts:
        return "evict no pod"
    drained = sum(each.cause == "drain" for each in answer.displaced)
    for_others = answer.evictions - drained
    owners = _owners(answer)
    parts = []
    if drained:
        parts.append(f"evict {count(drained, 'pod')}{'' if for_others else owners}")
    if for_others:
        more = f"{for_others} more for them" if drained else count(for_others, "pod")
        parts.append(f"{'' if drained else 'evict '}{more}{owners}")
    text = ", and ".join(parts)
    broken = _broken(answer)
    return f"{text}{',' if broken and len(parts) > 1 else ''}{broken}"


def _broken(answer: WhatIfAnswer) -> str:
    """Return which disruption budgets would be violated."""
    number = len(answer.budgets) + answer.hidden_budgets
    if not number:
        return ""
    names = _names([f"{each.namespace}/{each.name}" for each in answer.budgets])
    if answer.hidden_budgets:
        hidden = f"{answer.hidden_budgets} that you may not see"
        names = f"{names}, and {hidden}" if names else hidden
    return f" and violate {count(number, 'disruption budget')}: {names}"


def _owners(answer: WhatIfAnswer) -> str:
    """Return how many owners the evicted pods have; nothing if some are not known."""
    pods = [each.pod for each in answer.displaced]
    if not pods or len(pods) < answer.evictions or any(pod.hidden for pod in pods):
        return ""
    owned = Counter(
        (pod.namespace, pod.owner.kind, pod.owner.name) for pod in pods if pod.owner is not None
    )
    alone = sum(pod.owner is None for pod in pods)
    return f" ({count(len(owned) + alone, 'owner')})" if owned else ""


def _refusal(budgets: Sequence[str]) -> str:
    if len(budgets) > 1:
        return f"several budgets protect it ({_names(budgets)}), so it is never evicted"
    return f"budget {_names(budgets)} allows 0"


def _named(word: str, names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{len(names)} {word}s"


def _names(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    shown = ", ".join(names[:_NAMED])
    return f"{shown} and {more} more" if more > 0 else shown
