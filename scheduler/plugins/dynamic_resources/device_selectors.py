"""Evaluates the selectors of classes and requests, once for what they read of devices.

Devices that are equal in what an expression reads share its result; `projections` finds them. A
result is kept with the expression. An error is a result as well: it must not be raised before the
search reaches a device of the kind.

An attempt does only so much of this work; what it has done is done for the next attempt.

Source: dynamic-resource-allocation v0.36.3 structured/internal/incubating.selectorsMatch.
"""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final
from weakref import WeakSet

from scheduler.cel.errors import CompileError, EvaluationError, hint
from scheduler.cel.selector import Selector, compile_selector
from scheduler.model.releases import Reference
from scheduler.plugins.dynamic_resources.projections import Projection
from scheduler.state.devices.device_kinds import DeviceKind

__all__ = ["EvaluationsExhaustedError", "Expression", "Expressions", "explained"]

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


class EvaluationsExhaustedError(Exception):
    """The attempt has evaluated as much as it may."""


class _Work:
    """What the expressions of a profile have done in an attempt, and the results that they keep."""

    def __init__(self, *, bounded: bool) -> None:
        self._bounded = bounded
        self.attempt = 0
        self.done = 0
        self.lookups = 0
        #: Bytes of results, about; those of expressions that are gone may be counted.
        self.kept = 0
        #: Bytes of the expressions that are compiled, with the same exception.
        self.compiled = 0

    def begin(self) -> None:
        """Begin an attempt."""
        self.attempt += 1
        self.done = self.lookups = 0

    def check(self) -> None:
        """Make sure that the attempt may go on.

        Raises:
            EvaluationsExhaustedError: It has done too much.
        """
        left = _MOST_OF_ATTEMPT - self.lookups // _LOOKUPS_PER_UNIT
        if self._bounded and self.done >= max(left, _LEAST_OF_ATTEMPT):
            raise EvaluationsExhaustedError


class Expression:
    """One selector and its results."""

    __slots__ = (
        "__weakref__",
        "_compiled",
        "_is_known",
        "_of_kinds",
        "_projection",
        "_reference",
        "_results",
        "_text",
        "_texts",
        "_work",
        "kept",
        "refusal",
        "used",
    )

    def __init__(self, text: str, reference: Reference, work: _Work) -> None:
        self._text = text
        self._reference = reference
        self._work = work
        self._compiled: Selector | None = None
        #: Whether it has been compiled, and is what the projection says.
        self._is_known = False
        self._projection: Projection | None = None
        #: By what is read of a device.
        self._results: dict[Hashable, bool | str] = {}
        #: By serial number of the kind, where anything of a device can be read.
        self._of_kinds: dict[int, bool | str] = {}
        #: The errors among the results, each once.
        self._texts: dict[str, str] = {}
        #: Bytes of the results, about.
        self.kept = 0
        #: The last attempt that has added a result.
        self.used = 0
        #: Why it does not compile; empty if it does, and before its first result.
        self.refusal = ""

    def forget(self) -> None:
        """Forget all results."""
        self._results, self._of_kinds, self._texts, self.kept = {}, {}, {}, 0

    def result(self, kind: DeviceKind) -> bool | str:
        """Return whether devices of a kind are selected, or the text of the error.

        Raises:
            EvaluationsExhaustedError: The result is not known, and may not be found out now.
        """
        self._work.lookups += 1
        if not self._is_known and self._compile() is None:
            return self.refusal
        refused = kind.refusal
        if refused is not None:
            return refused
        projection = self._projection
        key = None if projection is None else projection.key(kind)
        if key is None:
            known = self._of_kinds.get(kind.serial)
            if known is None:
                known = self._of_kinds[kind.serial] = self._evaluated(kind, None)
            return known
        known = self._results.get(key)
        if known is None:
            known = self._results[key] = self._evaluated(kind, projection)
        return known

    @property
    def compiled(self) -> int:
        """Bytes of the expression if it is kept compiled."""
        return 0 if self._compiled is None else len(self._text)

    def drop(self) -> None:
        """Compile the expression again when it is needed; results are kept."""
        self._compiled = None

    def _compile(self) -> Selector | None:
        """Return the expression as it is evaluated; None if it is refused."""
        if self.refusal:
            return None
        self._work.check()
        self._work.done += _COMPILE_WORK * len(self._text)
        try:
            compiled = self._compiled = compile_selector(self._text, self._reference)
        except CompileError as error:
            self.refusal = str(error)
            return None
        self._work.compiled += len(self._text)
        self._is_known = True
        self._projection = None if compiled.reads is None else Projection(compiled.reads)
        return compiled

    def _evaluated(self, kind: DeviceKind, projection: Projection | None) -> bool | str:
        """Return the result for a kind, and count it."""
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


class Expressions:
    """The expressions in use, by text."""

    def __init__(self, reference: Reference, *, bounded: bool = True) -> None:
        """Start without expressions.

        Args:
            reference: The release.
            bounded: Whether the work of an attempt is, so that `EvaluationsExhaustedError` may be
                raised.
        """
        self._reference = reference
        self._by_text: OrderedDict[str, Expression] = OrderedDict()
        self._bytes = 0
        self._work: Final = _Work(bounded=bounded)
        #: Those in use elsewhere are among them even if they are too many to be found by text.
        self._alive: WeakSet[Expression] = WeakSet()

    @property
    def kept(self) -> int:
        """About how many bytes all results take."""
        return sum(each.kept for each in self._alive)

    def begin(self) -> None:
        """Begin an attempt."""
        self._work.begin()
        if self._work.kept > _MAX_RESULT_BYTES:
            self._forget_oldest()
        if self._work.compiled > _MAX_COMPILED:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        compiled = sum(each.compiled for each in self._alive)
        for expression in sorted(self._alive, key=lambda each: each.used):
            if compiled <= _MAX_COMPILED // 2:
                break
            compiled -= expression.compiled
            expression.drop()
        self._work.compiled = compiled

    def _forget_oldest(self) -> None:
        # Those of expressions that are gone have left by themselves.
        kept = self.kept
        for expression in sorted(self._alive, key=lambda each: each.used):
            if kept <= _MAX_RESULT_BYTES * 3 // 4:
                break
            kept -= expression.kept
            expression.forget()
        self._work.kept = kept

    def get(self, text: str) -> Expression:
        """Return an expression, compiled when it is first needed."""
        known = self._by_text.get(text)
        if known is not None:
            self._by_text.move_to_end(text)
            return known
        made = self._by_text[text] = Expression(text, self._reference, self._work)
        self._alive.add(made)
        self._bytes += len(text)
        while self._bytes > _MAX_BYTES and len(self._by_text) > 1:
            oldest, _ = self._by_text.popitem(last=False)
            self._bytes -= len(oldest)
        return made


def explained(error: str, device: str, *, named: bool) -> tuple[str, str]:
    """Return what stands before and after the error of an evaluation.

    Args:
        error: Its text.
        device: Driver, pool and name of the device, joined by slashes.
        named: Whether the release names the device, and hints at a cure.
    """
    return (f" on device {device}", hint(error)) if named else ("", "")
