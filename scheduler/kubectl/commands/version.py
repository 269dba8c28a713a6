"""`version`: of the plugin, and of the scheduler that answers."""

from typing import Any

import msgspec

from scheduler import __version__
from scheduler.kubectl import text
from scheduler.kubectl.session import Session
from scheduler.model.rest.cluster import ApiIndex

__all__ = ["run"]


async def run(session: Session) -> int:
    """Print the versions; return the exit code."""
    content: dict[str, Any] = {"plugin": __version__}
    index = None
    if not session.arguments.client:
        index = (await session.client.get("", ApiIndex)).document
        content["scheduler"] = msgspec.to_builtins(index)
    if session.arguments.output in {"json", "yaml"}:
        session.out.document(content, session.arguments.output)
        return 0
    session.out.line(f"plugin     {__version__}")
    if index is not None:
        role = "leader" if index.leader else "standby"
        session.out.line(f"scheduler  {text.clean(index.version)}")
        session.out.line(f"decides as kube-scheduler {text.clean(index.reference)}")
        session.out.line(f"instance   {text.clean(index.instance)}, {role}")
        session.out.line(f"profiles   {text.clean(', '.join(index.profiles))}")
    return 0
