"""Evaluates the selectors of classes and requests, once for each kind of device.

A result holds as long as the kind exists, so it is kept with the expression. An error is a result
as well: it must not be raised before the search reaches a device of the kind.

An attempt does only so much of this work; what it has done is done for the next attempt.

Source: dynamic-resource-allocation v0.36.3 structured/internal/incubating.selectorsMatch.
"""

from collections import OrderedDict
from typing import Final
from weakref import WeakKeyDictionary

from scheduler.cel.device import Attribute, Version
from scheduler.cel.device import Device as CelDevice
from scheduler.cel.errors import CompileError, EvaluationError, hint
from scheduler.cel.planning.budget import COST_LIMIT
from scheduler.cel.selector import Selector, compile_selector
from scheduler.model.api.devices import AttributeValue
from scheduler.model.releases import Reference
from scheduler.state.devices.slices import DeviceKind

__all__ = ["EvaluationsExhaustedError", "Expression", "Expressions", "explained"]

#: Bytes of expressions that are kept; each has at most 10 KiB.
_MAX_BYTES: Final = 4 * 1024 * 1024
#: Results that are kept, of all expressions together; each takes about 200 bytes.
_MAX_RESULTS: Final = 1_000_000
#: All first evaluations of an attempt together cost no more, beside the one that exceeds it: as
#: much as a single evaluation may, which takes about a second.
_MAX_COST_OF_ATTEMPT: Final = COST_LIMIT
#: What compiling costs, for each character.
_COMPILE_COST: Final = 20


class EvaluationsExhaustedError(Exception):
    """The attempt has evaluated as much as it may."""


class _Work:
    """What the expressions of a profile have cost in an attempt, and the results that they keep."""

    def __init__(self) -> None:
        self.cost = 0
        self.results = 0

    def check(self) -> None:
        """Make sure that the attempt may go on.

        Raises:
            EvaluationsExhaustedError: It has done too much.
        """
        if self.cost >= _MAX_COST_OF_ATTEMPT:
            raise EvaluationsExhaustedError


class Expression:
    """One selector and its results."""

    __slots__ = ("_compiled", "_devices", "_reference", "_results", "_text", "_work", "refusal")

    def __init__(
        self,
        text: str,
        reference: Reference,
        devices: "WeakKeyDictionary[DeviceKind, CelDevice]",
        work: _Work,
    ) -> None:
        self._text = text
        self._reference = reference
        self._devices = devices
        self._work = work
        self._compiled: Selector | None = None
        self._results: WeakKeyDictionary[DeviceKind, bool | str] = WeakKeyDictionary()
        #: Why it does not compile; empty if it does, and before its first result.
        self.refusal = ""

    @property
    def size(self) -> int:
        """How many results are kept."""
        return len(self._results)

    def forget(self) -> None:
        """Forget all results."""
        self._results.clear()

    def result(self, kind: DeviceKind) -> bool | str:
        """Return whether devices of a kind are selected, or the text of the error.

        Raises:
            EvaluationsExhaustedError: The result is not known, and may not be found out now.
        """
        known = self._results.get(kind)
        if known is None:
            self._work.check()
            known = self._results[kind] = self._evaluated(kind)
            self._work.results += 1
        return known

    def _compile(self) -> Selector | None:
        if self._compiled is None and not self.refusal:
            self._work.cost += _COMPILE_COST * len(self._text)
            try:
                self._compiled = compile_selector(self._text, self._reference)
            except CompileError as error:
                self.refusal = str(error)
        return self._compiled

    def _evaluated(self, kind: DeviceKind) -> bool | str:
        compiled = self._compile()
        if compiled is None:
            return self.refusal
        device = self._devices.get(kind)
        if device is None:
            device = self._devices[kind] = _converted(kind)
        try:
            return compiled.evaluate(device)
        except EvaluationError as error:
            return str(error)
        finally:
            self._work.cost += compiled.cost


class Expressions:
    """The expressions in use, by text."""

    def __init__(self, reference: Reference) -> None:
        self._reference = reference
        self._by_text: OrderedDict[str, Expression] = OrderedDict()
        self._devices: WeakKeyDictionary[DeviceKind, CelDevice] = WeakKeyDictionary()
        self._bytes = 0
        self._work: Final = _Work()

    def begin(self) -> None:
        """Begin an attempt."""
        self._work.cost = 0
        if self._work.results > _MAX_RESULTS:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        # Those of devices that are gone have left by themselves.
        kept = sum(each.size for each in self._by_text.values())
        for expression in self._by_text.values():
            if kept <= _MAX_RESULTS // 2:
                break
            kept -= expression.size
            expression.forget()
        self._work.results = kept

    def get(self, text: str) -> Expression:
        """Return an expression, compiled when it is first needed."""
        known = self._by_text.get(text)
        if known is not None:
            self._by_text.move_to_end(text)
            return known
        compiled = self._by_text[text] = Expression(
            text, self._reference, self._devices, self._work
        )
        self._bytes += len(text)
        while self._bytes > _MAX_BYTES and len(self._by_text) > 1:
            oldest, dropped = self._by_text.popitem(last=False)
            self._bytes -= len(oldest)
            dropped.forget()
        return compiled


def explained(error: str, device: str, *, named: bool) -> tuple[str, str]:
    """Return what stands before and after the error of an evaluation.

    Args:
        error: Its text.
        device: Driver, pool and name of the device, joined by slashes.
        named: Whether the release names the device, and hints at a cure.
    """
    return (f" on device {device}", hint(error)) if named else ("", "")


def _converted(kind: DeviceKind) -> CelDevice:
    device = kind.device
    return CelDevice(
        driver=kind.driver,
        attributes={name: _value(attribute) for name, attribute in device.attributes.items()},
        capacity={name: str(capacity.value) for name, capacity in device.capacity.items()},
        allow_multiple_allocations=bool(device.allow_multiple_allocations),
    )


def _value(attribute: AttributeValue) -> Attribute:
    """Return the value of an attribute; None, which no selector accepts, if it has none."""
    versions = attribute.versions
    if versions is not None:
        return [Version(each) for each in versions]
    if attribute.version is not None:
        return Version(attribute.version)
    others = (
        attribute.ints, attribute.bools, attribute.strings,
        attribute.int_, attribute.bool_, attribute.string,
    )  # fmt: skip
    return next((value for value in others if value is not None), None)
