"""`plan -f FILE`: what would happen if objects were applied now."""

import re
from collections.abc import Sequence
from typing import Final

from scheduler.kubectl import plan_input, priority_classes, server_check, text
from scheduler.kubectl.commands import plan_report
from scheduler.kubectl.errors import CommandError
from scheduler.kubectl.output import complain
from scheduler.kubectl.session import Session
from scheduler.model.rest.what_if import WhatIfAnswer
from scheduler.sim.manifests import ManifestError, flattened

__all__ = ["run"]

#: How errors of the client begin, and how the scheduler names an object of a request.
_POSTED: Final = "cannot post /api/v1/plan: "
_OBJECT: Final = re.compile(r"\bobjects\[(\d{1,7})\]")


async def run(session: Session) -> int:
    """Print a plan; return the exit code."""
    arguments = session.arguments
    try:
        found = [
            each
            for place, document in plan_input.loaded(arguments)
            for each in flattened(document, place)
        ]
    except ManifestError as error:
        raise CommandError(str(error)) from error
    places, given = [place for place, _ in found], [document for _, document in found]
    problems, warnings = await server_check.checked(session, found)
    if problems:
        raise CommandError(problems[0], "\n".join(map(text.clean, problems[1:])))
    objects, unread = await priority_classes.added(session, given)
    if not unread and not arguments.server:
        priority_classes.check(objects)
    request = plan_input.request(arguments, session.namespace(), objects)
    try:
        answer = await session.client.plan(request, WhatIfAnswer)
    except CommandError as error:
        problem = _placed(str(error).removeprefix(_POSTED), places)
        raise CommandError(problem, error.advice, error.status) from error
    is_printed = session.printed(answer)
    warnings += [unread] if unread else []
    for warning in (*warnings, *(() if is_printed else answer.document.warnings)):
        complain(f"warning: {_placed(warning, places)}")
    if not is_printed:
        plan_report.show(
            session.out, answer.document, wide=session.wide, explain=arguments.explain,
            diff=arguments.diff,
        )  # fmt: skip
    return plan_input.exit_code(answer.document, arguments.fail_on)


def _placed(message: str, places: Sequence[str]) -> str:
    """Return a message of the scheduler with the places of objects in files, not in the request."""

    def place(found: re.Match[str]) -> str:
        index = int(found[1])
        return places[index] if index < len(places) else found[0]

    return _OBJECT.sub(place, message)
