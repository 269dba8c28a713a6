"""Evaluates the selectors of classes and requests, once for each kind of device.

A result holds as long as the kind exists, so it is kept with the expression. An error is a result
as well: it must not be raised before the search reaches a device of the kind.

Source: dynamic-resource-allocation v0.36.3 structured/internal/incubating.selectorsMatch.
"""

from collections import OrderedDict
from typing import Final
from weakref import WeakKeyDictionary

from scheduler.cel.device import Attribute, Version
from scheduler.cel.device import Device as CelDevice
from scheduler.cel.errors import CompileError, EvaluationError, hint
from scheduler.cel.selector import Selector, compile_selector
from scheduler.model.api.devices import AttributeValue
from scheduler.model.releases import Reference
from scheduler.state.devices.slices import DeviceKind

__all__ = ["Expression", "Expressions", "explained"]

#: Bytes of expressions that are kept; each has at most 10 KiB.
_MAX_BYTES: Final = 4 * 1024 * 1024


class Expression:
    """One selector and its results."""

    __slots__ = ("_compiled", "_devices", "_results", "refusal")

    def __init__(
        self,
        text: str,
        reference: Reference,
        devices: "WeakKeyDictionary[DeviceKind, CelDevice]",
    ) -> None:
        self._devices = devices
        self._compiled: Selector | None = None
        self._results: WeakKeyDictionary[DeviceKind, bool | str] = WeakKeyDictionary()
        #: Why it does not compile; empty if it does.
        self.refusal = ""
        try:
            self._compiled = compile_selector(text, reference)
        except CompileError as error:
            self.refusal = str(error)

    def result(self, kind: DeviceKind) -> bool | str:
        """Return whether devices of a kind are selected, or the text of the error."""
        known = self._results.get(kind)
        if known is None:
            known = self._results[kind] = self._evaluated(kind)
        return known

    def _evaluated(self, kind: DeviceKind) -> bool | str:
        if self._compiled is None:
            return self.refusal
        device = self._devices.get(kind)
        if device is None:
            device = self._devices[kind] = _converted(kind)
        try:
            return self._compiled.evaluate(device)
        except EvaluationError as error:
            return str(error)


class Expressions:
    """The expressions in use, by text."""

    def __init__(self, reference: Reference) -> None:
        self._reference = reference
        self._by_text: OrderedDict[str, Expression] = OrderedDict()
        self._devices: WeakKeyDictionary[DeviceKind, CelDevice] = WeakKeyDictionary()
        self._bytes = 0

    def get(self, text: str) -> Expression:
        """Return an expression, compiled when it is first needed."""
        known = self._by_text.get(text)
        if known is not None:
            self._by_text.move_to_end(text)
            return known
        compiled = self._by_text[text] = Expression(text, self._reference, self._devices)
        self._bytes += len(text)
        while self._bytes > _MAX_BYTES and len(self._by_text) > 1:
            oldest, _ = self._by_text.popitem(last=False)
            self._bytes -= len(oldest)
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
