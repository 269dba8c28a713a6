"""`record`: fetch what the flight recorder has of the last minutes."""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlencode

from scheduler.kube.errors import Unreachable
from scheduler.kubectl import text
from scheduler.kubectl.errors import CommandError
from scheduler.kubectl.session import Session

__all__ = ["run"]


async def run(session: Session) -> int:
    """Write the recording into a file; return the exit code."""
    name = session.arguments.file
    query = urlencode({"last": session.arguments.last})
    incoming = await session.client.stream(f"/api/v1/recording?{query}")
    size = 0
    try:
        with _destination(name) as file:
            while part := await incoming.read():
                file.write(part)
                size += len(part)
    except Unreachable as error:
        raise CommandError(f"the recording ended early: {error}", "try again") from error
    except OSError as error:
        raise CommandError(f"{name}: {error.strerror or error}") from error
    finally:
        incoming.close()
    if name != "-":
        session.out.line(f"{text.clean(name)}: {size} bytes")
        session.out.line(f"To repeat its decisions: kubectl preemptive replay {text.clean(name)}")
    return 0


@contextlib.contextmanager
def _destination(name: str) -> Iterator[BinaryIO]:
    """Give a file that replaces the named one when it is complete; only its owner may read it."""
    if name == "-":
        yield sys.stdout.buffer
        return
    part = Path(f"{name}.part")
    part.unlink(missing_ok=True)
    try:
        number = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(number, "wb") as file:
            yield file
        part.replace(name)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
