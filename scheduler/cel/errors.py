"""What goes wrong with an expression: it does not compile, or its evaluation fails."""

from typing import Final

__all__ = [
    "Cancelled",
    "CelFailure",
    "CompileError",
    "Crash",
    "EvaluationError",
    "hint",
    "no_such_overload",
]

_MISSING: Final = "no such key:"
_HINT: Final = (
    ". consider using CEL optional chaining (.? followed by orValue()) "
    "or guarding the check with has() for optional fields"
)


class CompileError(Exception):
    """An expression that the compiler refuses; the text is the one behind `CEL compile error: `."""


class EvaluationError(Exception):
    """An evaluation that failed; the text is the one behind `CEL runtime error: `."""


class CelFailure(EvaluationError):
    """A failure within an expression; `&&`, `||`, `all` and `exists` can absorb it."""


class Cancelled(EvaluationError):
    """The evaluation became too expensive; no operator absorbs that."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


class Crash(EvaluationError):
    """Upstream's evaluation panics, which ends it; no operator absorbs that."""

    def __init__(self, message: str) -> None:
        super().__init__(f"internal error: {message}")


def no_such_overload() -> CelFailure:
    """Return the failure of an operator whose operands have types that it is not defined for."""
    return CelFailure("no such overload")


def hint(text: str) -> str:
    """Return what Kubernetes 1.37 appends to the text of an evaluation error; "" for most.

    Source: dynamic-resource-allocation v0.37.2 cel.EnhanceRuntimeError.
    """
    return _HINT if _MISSING in text else ""
