"""`policies`: what preemption policies allow, what is spent, and what they have refused."""

from collections.abc import Mapping
from typing import Final

from scheduler.kubectl import text
from scheduler.kubectl.commands.policy_history import history, undo
from scheduler.kubectl.output import Output
from scheduler.kubectl.session import Session
from scheduler.model.policies import PolicyMode
from scheduler.model.rest.preemptions import BoundView, PoliciesDocument, PolicyView

__all__ = ["run"]

_HEAD: Final = ("POLICY", "MODE", "STATE", "REFUSED", "WOULD REFUSE")


async def run(session: Session) -> int:
    """Print the policies, or the generations of one; return the exit code."""
    if session.arguments.action:
        return await (history if session.arguments.action == "history" else undo)(session)
    answer = await session.client.get("/policies", PoliciesDocument)
    if not session.printed(answer):
        show(session.out, answer.document, session.now(), wide=session.wide)
    return 0


def show(out: Output, found: PoliciesDocument, now: float, *, wide: bool) -> None:
    """Print policies, budgets and bounds; a stop comes first."""
    for each in found.items:
        if each.stops:
            why = f": {each.stop_reason}" if each.stop_reason else "."
            named = f"All preemption is stopped by PreemptionPolicy {each.name}"
            out.line(text.clean(f"{named}{why}"), "yellow")
            out.line()
    if not found.items:
        out.line("No preemption policies are in force.")
    else:
        head, *lines = text.table(_HEAD, map(_row, found.items), out.width, "")
        out.line(head, "bold")
        for each, line in zip(found.items, lines, strict=True):
            out.line(line)
            _explain(out, each, now)
            if wide:
                _numbers(out, each)
    for each in found.items:
        _problem(out, each)
    if found.bounds:
        out.line()
        out.line("Limits on wasted evictions, which no policy can lift:", "bold")
        out.table(["PER", "LIMIT", "SPENT", "STATE"], [_bound(each) for each in found.bounds])


def _problem(out: Output, policy: PolicyView) -> None:
    if policy.message:
        out.line()
        out.line(f"Policy {text.clean(policy.name)} is not accepted:", "red")
        out.paragraph(policy.message, "  ")
        if policy.generation_in_force:
            out.line(f"  Generation {policy.generation_in_force} stays in force.")


def _row(policy: PolicyView) -> list[str]:
    audits = policy.mode == PolicyMode.AUDIT
    return [
        policy.name,
        policy.mode,
        _state(policy),
        _number(policy.refusals, is_counted=not audits),
        _number(policy.would_refuse, is_counted=audits),
    ]


def _number(by_rule: Mapping[str, int], *, is_counted: bool) -> str:
    """Return a number of preemptions; `-` for what the mode of the policy does not do."""
    return str(sum(by_rule.values())) if by_rule or is_counted else "-"


def _explain(out: Output, policy: PolicyView, now: float) -> None:
    """Print whom a policy limits, its rules, what is spent of its budgets, and whom it refused."""
    spent = (f"{budget.text} ({budget.spent} spent)" for budget in policy.budgets)
    if lines := (*policy.rules, *spent):
        out.paragraph(" · ".join(lines), "  ")
    if policy.last_refused is not None:
        word = "refused"
        if policy.last_refusal_mode == PolicyMode.AUDIT:
            word = "would have refused"
        when = text.since(policy.last_refusal, now)
        out.paragraph(f"{word} last: {text.pod_name(policy.last_refused)}, {when} ago", "  ")


def _numbers(out: Output, policy: PolicyView) -> None:
    """Print how often each rule refused, and what has spent most."""
    for words, by_rule in (("refused", policy.refusals), ("would refuse", policy.would_refuse)):
        if by_rule:
            each = ", ".join(f"{rule} {number}" for rule, number in by_rule.items())
            out.paragraph(f"{words}: {each}", "  ")
    for budget in policy.budgets:
        if budget.top:
            keys = ", ".join(f"{use.key} {use.spent}" for use in budget.top)
            out.paragraph(f"most spent by {budget.scope}: {keys}", "  ")


def _state(policy: PolicyView) -> str:
    if policy.stops:
        return "stops all"
    if policy.accepted:
        return "in force"
    return f"gen {policy.generation_in_force} in force" if policy.generation_in_force else "refused"


def _bound(bound: BoundView) -> list[str]:
    state = f"stopped for {text.count(bound.stopped, bound.scope)}" if bound.stopped else "open"
    limit = f"{bound.limit} in {text.window(bound.window_seconds)}"
    spent = str(bound.spent)
    return [bound.scope, limit, f"{spent} ({bound.top[0].key})" if bound.top else spent, state]
