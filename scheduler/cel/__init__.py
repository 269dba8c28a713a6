"""Device selectors: the Common Expression Language with the environment of Kubernetes for them."""

from scheduler.cel.device import CelDevice, Version
from scheduler.cel.errors import CompileError, EvaluationError, hint
from scheduler.cel.selector import CompilationResult, compile_selector

__all__ = [
    "CelDevice",
    "CompilationResult",
    "CompileError",
    "EvaluationError",
    "Version",
    "compile_selector",
    "hint",
]
