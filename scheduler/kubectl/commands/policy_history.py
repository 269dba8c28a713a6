"""`policies history NAME` and `policies undo NAME`: the accepted generations of a policy.

Only the API server is asked, so both work where no scheduler can be reached. Nothing is written:
`undo` prints the policy of the generation before, for `kubectl replace`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from scheduler.config import names, policies
from scheduler.config.policies import PolicyError
from scheduler.kube.errors import ApiError
from scheduler.kube.policies import accepted_generations
from scheduler.kube.policies.accepted_generations import AcceptedGeneration, changes
from scheduler.kube.policies.registry import ACCEPTED, PATH, RESOURCE
from scheduler.kubectl import text
from scheduler.kubectl.commands.stop import api_server, rule
from scheduler.kubectl.errors import CommandError
from scheduler.kubectl.session import Session

__all__ = ["history", "undo"]

#: What `kubectl apply` writes; it is of the newest generation.
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


async def history(session: Session) -> int:
    """Print the generations that were accepted; return the exit code."""
    found = await _policy(session)
    kept = _generations(found)
    form = session.arguments.output
    if form in {"json", "yaml"}:
        items = [{"generation": each.generation, "time": each.time, "spec": each.spec}
                 for each in kept]  # fmt: skip
        session.out.document({"name": session.arguments.name, "items": items}, form)
        return 0
    _show(session, found, kept)
    return 0


async def undo(session: Session) -> int:
    """Print the policy of the generation before; return the exit code."""
    found, out, name = await _policy(session), session.out, session.arguments.name
    metadata, spec = found["metadata"], found.get("spec")
    kept = _generations(found)
    newest = metadata["generation"]
    wanted = accepted_generations.before(kept, newest, spec)
    if wanted is None:
        raise CommandError(
            f'no generation of PreemptionPolicy "{name}" before {newest} is kept',
            "the scheduler keeps the last five that it accepted, in the status of the policy;"
            "\none of more than 32 KiB is not kept, and those of a deleted policy are gone",
        )
    _check(name, wanted)
    document = {
        "apiVersion": policies.API_VERSION,
        "kind": policies.KIND,
        "metadata": _metadata(name, metadata),
        "spec": wanted.spec,
    }
    form = session.arguments.output
    if form not in {"json", "yaml"}:
        out.line(f"# Generation {wanted.generation}, accepted {wanted.time}; now it is {newest}.")
        for change in changes(spec if isinstance(spec, dict) else {}, wanted.spec):
            out.line(f"# {text.clean(change)}")
        again = f"kubectl preemptive policies undo {name} | kubectl replace -f -"
        out.line(f"# Nothing is changed yet. To put it in force: {again}")
    out.document(document, "json" if form == "json" else "yaml")
    return 0


async def _policy(session: Session) -> Any:
    """Return the policy as the API server has it."""
    name = session.arguments.name
    if not name:
        raise CommandError(
            "the name of the policy is missing",
            f"kubectl preemptive policies {session.arguments.action} NAME",
        )
    api = api_server(session)
    try:
        return await api.get(f"{PATH}/{_path(name)}", f'{RESOURCE} "{name}"', rule("get"))
    except ApiError as error:
        raise CommandError(
            f'there is no PreemptionPolicy "{text.clean(name)}"',
            "see which there are: kubectl preemptive policies",
        ) from error
    finally:
        await api.close()


def _path(name: str) -> str:
    """Return a name for a path.

    Raises:
        PluginError: No object can have it.
    """
    if problems := names.subdomain(name):
        raise CommandError(f"{text.clean(name)}: not the name of a policy", "; ".join(problems))
    return name


def _generations(policy: Mapping[str, Any]) -> Sequence[AcceptedGeneration]:
    return accepted_generations.read(policy.get("status") or {})


def _check(name: str, wanted: AcceptedGeneration) -> None:
    """Refuse a generation that the scheduler cannot have accepted."""
    try:
        policies.read({"metadata": {"name": name}, "spec": wanted.spec})
    except PolicyError as error:
        raise CommandError(
            f"generation {wanted.generation} is no valid policy: {text.clean(str(error))}",
            "another client than the scheduler has written the status of the policy",
        ) from error


def _metadata(name: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return name, labels and annotations, which `kubectl replace` would remove otherwise."""
    kept: dict[str, Any] = {"name": name}
    annotations = {
        key: value
        for key, value in (metadata.get("annotations") or {}).items()
        if key != _LAST_APPLIED
    }
    for field, value in (("labels", metadata.get("labels")), ("annotations", annotations)):
        if value:
            kept[field] = value
    return kept


def _show(session: Session, policy: Any, kept: Sequence[AcceptedGeneration]) -> None:
    out, now, name = session.out, session.now(), session.arguments.name
    newest = policy["metadata"]["generation"]
    status = policy.get("status") or {}
    if problem := _refusal(status, newest):
        out.line(f"Generation {newest} of PreemptionPolicy {name} is not accepted:", "red")
        out.paragraph(problem, "  ")
    elif kept:
        since = text.since(kept[0].time, now)
        current = f"Generation {kept[0].generation} of PreemptionPolicy {name}"
        out.line(f"{current} has been in force for {since}.")
    if not kept:
        out.line(f"No accepted generation of PreemptionPolicy {name} is kept.")
        return
    out.line()
    out.table(["GENERATION", "ACCEPTED", "CHANGED"], _rows(kept, now), wide=session.wide)


def _refusal(status: Mapping[str, Any], newest: int) -> str:
    """Return what the scheduler says about the newest generation if it is refused."""
    for said in status.get("conditions") or ():
        if (said.get("type"), said.get("status")) == (ACCEPTED, "False"):
            return str(said.get("message")) if said.get("observedGeneration") == newest else ""
    return ""


def _rows(kept: Sequence[AcceptedGeneration], now: float) -> Iterator[list[str]]:
    for each, before in zip(kept, (*kept[1:], None), strict=True):
        oldest = ["the oldest that is kept"]
        first, *others = oldest if before is None else changes(before.spec, each.spec)
        yield [str(each.generation), f"{text.since(each.time, now)} ago", first]
        yield from (["", "", change] for change in others)
