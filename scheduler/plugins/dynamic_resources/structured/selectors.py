"""Evaluates the selectors of classes and requests, once for equal values that they read of devices.

Drivers publish a serial number for each device, so no two devices are equal. Selectors read a few
attributes, in which most devices are equal: such devices share the result, which is kept with the
selector. An error is a result as well: it must not be raised before the allocator reaches a device
of the kind.

The work of an attempt is limited; the next attempt continues from its results.

Source: dynamic-resource-allocation v0.36.3 cel.Cache, cel.CompilationResult.DeviceMatches.
"""

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from typing import Final, NamedTuple
from weakref import WeakSet

import msgspec

from scheduler.cel.device import Attribute, CelDevice
from scheduler.cel.errors import CompileError, EvaluationError
from scheduler.cel.planning.reads import DeviceReads
from scheduler.cel.selector import CompilationResult, compile_selector
from scheduler.model.api.devices import AttributeValue
from scheduler.model.releases import Reference
from scheduler.state.devices.device_kinds import DeviceKind, attribute_of

__all__ = ["CelCache", "CompiledSelector", "EvaluationLimitError", "Projection"]

_encode: Final = msgspec.msgpack.Encoder().encode

#: Bytes of expressions that are found by their text; each has at most 10 KiB.
_MAX_BYTES: Final = 4 * 1024 * 1024
#: Bytes of those that are kept compiled, which takes up to 200 times as much.
_MAX_COMPILED: Final = 128 * 1024
#: Bytes of results that are kept, of all expressions together.
_MAX_RESULT_BYTES: Final = 20_000_000
#: What a result takes at least, and for each value that its key has.
_RESULT_BYTES: Final = 80
_VALUE_BYTES: Final = 30

#: The work of the cheapest evaluation, with a device that is made for it, and of each value in it;
#: units are those of `scheduler.cel.planning.work`, of about a microsecond.
_EVALUATION_WORK: Final = 4
_VALUE_WORK: Final = 1
#: Of compiling, for each character.
_COMPILE_WORK: Final = 8
#: An evaluation that takes more ends as if it had reached the cost limit.
_MOST_OF_EVALUATION: Final = 150_000
#: All first evaluations of an attempt together take no more, beside the one that exceeds it.
_MOST_OF_ATTEMPT: Final = 100_000
#: So many results that are looked up take as long as a unit of work.
_LOOKUPS_PER_UNIT: Final = 2
#: What an attempt may do however many results it has looked up, so that attempts get on.
_LEAST_OF_ATTEMPT: Final = 20_000


class _Entry(NamedTuple):
    """An attribute or capacity that is read, and how devices can name it."""

    of_attributes: bool
    #: The name with its domain; "" if no such name has that domain.
    full: str
    domain: str
    #: The name without its domain, which devices of the driver of that name can use.
    own: str


class Projection:
    """The values that a selector reads of devices."""

    __slots__ = ("_driver", "_entries", "_shared", "size")

    def __init__(self, reads: DeviceReads) -> None:
        self._driver: Final = reads.driver
        self._shared: Final = reads.shared
        self._entries: Final = tuple(
            _Entry(
                each.kind == "attributes",
                # A domain ends at the first slash.
                "" if "/" in each.domain else f"{each.domain}/{each.name}",
                each.domain,
                each.name,
            )
            for each in reads.entries
        )
        #: How many values are read.
        self.size: Final = len(self._entries) + reads.driver + reads.shared

    def key(self, kind: DeviceKind) -> Hashable | None:
        """Return a key, equal for devices with equal values; `None` if any value can be read.

        Devices that have a name twice, with and without the domain, are taken as a whole.
        """
        device, driver = kind.device, kind.driver
        parts: list[Hashable] = []
        for of_attributes, full, domain, own in self._entries:
            known: Mapping[str, object] = device.attributes if of_attributes else device.capacity
            value = known.get(full)
            if domain == driver and own in known and "/" not in own:
                if value is not None:
                    return None
                value = known[own]
            if value is None:
                parts.append(None)
            elif of_attributes:
                text = value.string if kind.is_plain else None  # type: ignore[attr-defined]
                # Strings and bytes are never equal, so the types of values do not mix.
                parts.append(_encode(value) if text is None else text)
            else:
                parts.append(str(value.value))  # type: ignore[attr-defined]
        if self._driver:
            parts.append(driver)
        if self._shared:
            parts.append(bool(device.allow_multiple_allocations))
        # The table of a selector has keys of one form: these alone are never tuples.
        return parts[0] if len(parts) == 1 and parts[0] is not None else tuple(parts)

    def device(self, kind: DeviceKind) -> CelDevice:
        """Return a device of a kind, which has no name twice, with the values that are read."""
        attributes: dict[str, Attribute] = {}
        capacity: dict[str, str] = {}
        for of_attributes, full, domain, own in self._entries:
            names = [full, own] if domain == kind.driver and "/" not in own else [full]
            for name in names:
                value: AttributeValue | None = kind.device.attributes.get(name)
                if of_attributes and value is not None:
                    attributes[name] = attribute_of(value)
                elif not of_attributes and name in kind.device.capacity:
                    capacity[name] = str(kind.device.capacity[name].value)
        shared = bool(kind.device.allow_multiple_allocations)
        return CelDevice(kind.driver, attributes, capacity, shared)


class EvaluationLimitError(Exception):
    """The attempt has evaluated as much as it may."""


class _Work:
    """The work of the selectors of a profile in an attempt, and the results that they keep."""

    def __init__(self, *, bounded: bool) -> None:
        self._bounded = bounded
        self.attempt = 0
        self.done = 0
        self.lookups = 0
        #: Bytes of results, about; those of expressions that are gone may be counted.
        self.kept = 0
        #: Bytes of the expressions that are compiled, with the same exception.
        self.compiled = 0

    def begin_attempt(self) -> None:
        """Begin an attempt."""
        self.attempt += 1
        self.done = self.lookups = 0

    def check(self) -> None:
        """Raise if the attempt has done too much work.

        Raises:
            EvaluationLimitError: It has done too much.
        """
        left = _MOST_OF_ATTEMPT - self.lookups // _LOOKUPS_PER_UNIT
        if self._bounded and self.done >= max(left, _LEAST_OF_ATTEMPT):
            raise EvaluationLimitError


class CompiledSelector:
    """One selector and its results."""

    __slots__ = (
        "__weakref__",
        "_compiled",
        "_projection",
        "_reference",
        "_results",
        "_results_by_kind",
        "_text",
        "_texts",
        "_was_compiled",
        "_work",
        "compile_error",
        "kept",
        "used",
    )

    def __init__(self, text: str, reference: Reference, work: _Work) -> None:
        self._text = text
        self._reference = reference
        self._work = work
        self._compiled: CompilationResult | None = None
        #: Whether it has been compiled, so that the projection is known.
        self._was_compiled = False
        self._projection: Projection | None = None
        #: By the values that are read of a device.
        self._results: dict[Hashable, bool | str] = {}
        #: By serial number of the kind, where any value of a device can be read.
        self._results_by_kind: dict[int, bool | str] = {}
        #: The errors among the results, each once.
        self._texts: dict[str, str] = {}
        #: Bytes of the results, about.
        self.kept = 0
        #: The last attempt that has added a result.
        self.used = 0
        #: Why it does not compile; empty if it does, and before its first result.
        self.compile_error = ""

    def forget(self) -> None:
        """Forget all results."""
        self._results, self._results_by_kind, self._texts, self.kept = {}, {}, {}, 0

    def device_matches(self, kind: DeviceKind) -> bool | str:
        """Return whether devices of a kind match, or the text of the error.

        Raises:
            EvaluationLimitError: The result is not known, and the attempt has no work left.
        """
        self._work.lookups += 1
        if not self._was_compiled and self._compile() is None:
            return self.compile_error
        if kind.error is not None:
            return kind.error
        projection = self._projection
        key = None if projection is None else projection.key(kind)
        if key is None:
            result = self._results_by_kind.get(kind.serial)
            if result is None:
                result = self._results_by_kind[kind.serial] = self._evaluate(kind, None)
            return result
        result = self._results.get(key)
        if result is None:
            result = self._results[key] = self._evaluate(kind, projection)
        return result

    @property
    def compiled(self) -> int:
        """Bytes of the text if it is kept compiled."""
        return 0 if self._compiled is None else len(self._text)

    def drop(self) -> None:
        """Forget the compiled form until the next evaluation; results are kept."""
        self._compiled = None

    def _compile(self) -> CompilationResult | None:
        """Return the selector compiled; `None` if it does not compile."""
        if self.compile_error:
            return None
        self._work.check()
        self._work.done += _COMPILE_WORK * len(self._text)
        try:
            compiled = self._compiled = compile_selector(self._text, self._reference)
        except CompileError as error:
            self.compile_error = str(error)
            return None
        self._work.compiled += len(self._text)
        self._was_compiled = True
        self._projection = None if compiled.reads is None else Projection(compiled.reads)
        return compiled

    def _evaluate(self, kind: DeviceKind, projection: Projection | None) -> bool | str:
        """Evaluate the selector for a kind, and count the work."""
        work, compiled = self._work, self._compiled or self._compile()
        work.check()
        assert compiled is not None
        if projection is None:
            device = kind.complete()
            values = len(device.attributes) + len(device.capacity)
        else:
            device, values = projection.device(kind), projection.size
        work.done += _EVALUATION_WORK + values * _VALUE_WORK
        size = _RESULT_BYTES + (0 if projection is None else projection.size * _VALUE_BYTES)
        work.kept += size
        self.kept += size
        self.used = work.attempt
        try:
            return compiled.evaluate(device, _MOST_OF_EVALUATION)
        except EvaluationError as error:
            text = str(error)
            return self._texts.setdefault(text, text)
        finally:
            work.done += compiled.work


class CelCache:
    """The selectors in use, by text."""

    def __init__(self, reference: Reference, *, bounded: bool = True) -> None:
        """Start without selectors.

        Args:
            reference: The release.
            bounded: Whether the work of an attempt is limited, so that `EvaluationLimitError`
                may be raised.
        """
        self._reference = reference
        self._by_text: OrderedDict[str, CompiledSelector] = OrderedDict()
        self._bytes = 0
        self._work: Final = _Work(bounded=bounded)
        #: With those that callers hold, but that are no longer found by their text.
        self._alive: WeakSet[CompiledSelector] = WeakSet()

    @property
    def kept(self) -> int:
        """About how many bytes all results take."""
        return sum(each.kept for each in self._alive)

    def begin_attempt(self) -> None:
        """Begin an attempt."""
        self._work.begin_attempt()
        if self._work.kept > _MAX_RESULT_BYTES:
            self._forget_oldest()
        if self._work.compiled > _MAX_COMPILED:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        compiled = sum(each.compiled for each in self._alive)
        for selector in sorted(self._alive, key=lambda each: each.used):
            if compiled <= _MAX_COMPILED // 2:
                break
            compiled -= selector.compiled
            selector.drop()
        self._work.compiled = compiled

    def _forget_oldest(self) -> None:
        # Those of expressions that are gone have left by themselves.
        kept = self.kept
        for selector in sorted(self._alive, key=lambda each: each.used):
            if kept <= _MAX_RESULT_BYTES * 3 // 4:
                break
            kept -= selector.kept
            selector.forget()
        self._work.kept = kept

    def get(self, text: str) -> CompiledSelector:
        """Return a selector, compiled at its first evaluation."""
        cached = self._by_text.get(text)
        if cached is not None:
            self._by_text.move_to_end(text)
            return cached
        cached = self._by_text[text] = CompiledSelector(text, self._reference, self._work)
        self._alive.add(cached)
        self._bytes += len(text)
        while self._bytes > _MAX_BYTES and len(self._by_text) > 1:
            oldest, _ = self._by_text.popitem(last=False)
            self._bytes -= len(oldest)
        return cached
