"""`policies`: what preemption policies allow, what is spent, and what they have refused."""

from scheduler.kubectl import text
from scheduler.kubectl.output import Output
from scheduler.kubectl.session import Session
from scheduler.model.rest.preemptions import BoundView, BudgetView, PoliciesDocument, PolicyView

__all__ = ["run"]


async def run(session: Session) -> int:
    """Print the policies; return the exit code."""
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
            out.line(text.clean(f"{named}{why}"), "red")
            out.line()
    if found.items:
        head = ["POLICY", "STATE", "SPENT", "REFUSED", "LAST"]
        out.table(
            [*head, "MOST", "RULES"] if wide else head,
            [row for each in found.items for row in _rows(each, now, wide=wide)],
            wide=wide,
        )
    else:
        out.line("No preemption policies are in force.")
    for each in found.items:
        if each.message:
            out.line()
            out.line(f"Policy {text.clean(each.name)} is not accepted:", "red")
            out.paragraph(each.message, "  ")
            if each.generation_in_force:
                out.line(f"  Generation {each.generation_in_force} stays in force.")
    if found.bounds:
        out.line()
        out.line("Limits on wasted evictions, which no policy can lift:", "bold")
        out.table(["PER", "LIMIT", "SPENT", "STATE"], [_bound(each) for each in found.bounds])


def _rows(policy: PolicyView, now: float, *, wide: bool) -> list[list[str]]:
    refused = str(sum(policy.refusals.values()))
    last = f"{text.since(policy.last_refusal, now)} ago" if policy.last_refusal else "-"
    rows = []
    for number, budget in enumerate(policy.budgets or [None]):
        first = number == 0
        row = [policy.name if first else "", _state(policy) if first else "", _spent(budget)]
        row += [refused, last] if first else ["", ""]
        if wide:
            row += [_most(budget), "; ".join(policy.rules) if first else ""]
        rows.append(row)
    return rows


def _state(policy: PolicyView) -> str:
    if policy.stops:
        return "stops all"
    if policy.accepted:
        return "in force"
    return f"gen {policy.generation_in_force} in force" if policy.generation_in_force else "refused"


def _spent(budget: BudgetView | None) -> str:
    if budget is None:
        return "-"
    period = text.window(budget.window_seconds)
    return f"{budget.spent}/{budget.limit} per {budget.scope} in {period}"


def _most(budget: BudgetView | None) -> str:
    """Return the keys with the most victims."""
    return ", ".join(f"{each.key} {each.spent}" for each in budget.top[:3]) if budget else "-"


def _bound(bound: BoundView) -> list[str]:
    state = f"stopped for {text.count(bound.stopped, bound.scope)}" if bound.stopped else "open"
    limit = f"{bound.limit} in {text.window(bound.window_seconds)}"
    spent = str(bound.spent)
    return [bound.scope, limit, f"{spent} ({bound.top[0].key})" if bound.top else spent, state]
