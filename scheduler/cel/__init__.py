"""Device selectors: the Common Expression Language with the environment of Kubernetes for them."""

from scheduler.cel.device import Device, Version
from scheduler.cel.errors import CompileError, EvaluationError, hint
from scheduler.cel.selector import Selector, compile_selector

__all__ = [
    "CompileError",
    "Device",
    "EvaluationError",
    "Selector",
    "Version",
    "compile_selector",
    "hint",
]
