"""Runs the programs that a release needs: git, gh, docker, grype."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

__all__ = ["Answer", "ReleaseError", "ask", "tell"]


class ReleaseError(RuntimeError):
    """The release is refused or cannot be made; the message is for the user."""


class Answer(NamedTuple):
    """How a program has ended, and what it has printed."""

    code: int
    output: str
    errors: str

    @property
    def problem(self) -> str:
        """The last line of its errors."""
        return (self.errors.strip().splitlines() or [f"exit code {self.code}"])[-1]


def ask(
    command: Sequence[str | Path], *, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> Answer:
    """Run a program and return its answer, whatever its exit code.

    Raises:
        ReleaseError: There is no such program.
    """
    try:
        ended = subprocess.run(
            command, cwd=cwd, env=env, capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise ReleaseError(str(error)) from error
    return Answer(ended.returncode, ended.stdout, ended.stderr)


def tell(
    command: Sequence[str | Path], *, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> str:
    """Run a program and return what it prints.

    Raises:
        ReleaseError: It failed.
    """
    answer = ask(command, cwd=cwd, env=env)
    if answer.code != 0:
        raise ReleaseError(f"{Path(command[0]).name} failed: {answer.problem}")
    return answer.output
