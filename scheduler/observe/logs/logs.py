"""Logs: one line for each record, as JSON or as text.

The command makes one `Logs`. Other modules get its `logger`, or one from structlog after `install`;
from then on, records of libraries that use the standard library's logging are written the same way.

Verbosity (`-v`):

* 0, the default: what an operator has to know, and every preemption, because it deletes pods.
* 2: also one line per attempt; that is a thirtieth of the cost of a plain pod.
* 4: also one line per effect and other details, at level `debug`.
* 6: also records of libraries at level `info`; 8: those at level `debug`.

Lines are buffered and written together: when the loop calls `flush`, when there are many, or with
the first line of level `error`. Logging cannot stop the scheduler: values that cannot be encoded
are escaped, and lines that cannot be written are counted and dropped.
"""

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, WrappedLogger

from scheduler.model.times import Seconds
from scheduler.observe.logs import log_lines
from scheduler.observe.logs.log_lines import LogStream, Render, Sink

__all__ = ["ATTEMPTS", "DEFAULT_VERBOSITY", "DETAILS", "Format", "Logs"]

#: The least verbosity that logs every attempt.
ATTEMPTS: Final = 2
#: The least verbosity that logs effects and other details.
DETAILS: Final = 4
DEFAULT_VERBOSITY: Final = 0

#: The log level of libraries by least verbosity; their warnings are always logged.
_LIBRARIES: Final = ((8, logging.DEBUG), (6, logging.INFO), (0, logging.WARNING))


class Format(StrEnum):
    """The format of a line (`--logging-format`)."""

    JSON = "json"
    TEXT = "text"


class Logs:
    """The log of one process.

    Args:
        stream: The file that lines are written to, normally `sys.stderr.buffer`.
        wall: Returns the time of day as seconds since the epoch.
        form: The format of a line.
        verbosity: How much is logged; see above.
    """

    def __init__(
        self,
        stream: LogStream,
        wall: Callable[[], Seconds],
        form: Format = Format.JSON,
        verbosity: int = DEFAULT_VERBOSITY,
    ) -> None:
        self.verbosity = verbosity
        self._sink = Sink(stream)
        render = log_lines.json_line if form is Format.JSON else log_lines.text_line
        self._settings: dict[str, Any] = {
            "processors": [structlog.processors.format_exc_info, _Rendered(wall, render)],
            "wrapper_class": structlog.make_filtering_bound_logger(
                logging.DEBUG if verbosity >= DETAILS else logging.INFO
            ),
            "cache_logger_on_first_use": True,
        }
        #: Logs with `logger.info("pod_bound", pod=..., node=...)`.
        self.logger: FilteringBoundLogger = structlog.wrap_logger(
            self._sink, **self._settings
        ).bind()
        self._bridge: _Bridge | None = None

    @property
    def lost(self) -> int:
        """How many lines could not be written."""
        return self._sink.lost

    def install(self) -> None:
        """Make this the log of the whole process: of structlog, libraries and warnings."""
        structlog.configure(logger_factory=lambda *_: self._sink, **self._settings)
        self._bridge = _Bridge(self.logger)
        root = logging.getLogger()
        root.addHandler(self._bridge)
        root.setLevel(next(level for least, level in _LIBRARIES if self.verbosity >= least))
        logging.captureWarnings(capture=True)

    def flush(self) -> None:
        """Write the buffered lines; cheap if there are none."""
        self._sink.flush()

    def close(self) -> None:
        """Write the buffered lines and undo `install`."""
        self.flush()
        if self._bridge is not None:
            logging.captureWarnings(capture=False)
            logging.getLogger().removeHandler(self._bridge)
            structlog.reset_defaults()
            self._bridge = None


class _Rendered:
    """The last processor: formats a record as a line with the time of day."""

    def __init__(self, wall: Callable[[], Seconds], render: Render) -> None:
        self._wall = wall
        self._render = render
        self._second = -1
        self._prefix = ""

    def __call__(self, _logger: WrappedLogger, level: str, event: EventDict) -> bytes:
        return self._render(
            {"ts": self._stamp(), "level": level, "event": event.pop("event"), **event}
        )

    def _stamp(self) -> str:
        now = self._wall()
        second = int(now)
        if second != self._second:
            self._second = second
            self._prefix = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        return f"{self._prefix}.{int((now - second) * 1_000_000):06d}Z"


class _Bridge(logging.Handler):
    """Forwards records of the standard library's logging to our log."""

    def __init__(self, logger: FilteringBoundLogger) -> None:
        super().__init__()
        self._logger = logger

    def emit(self, record: logging.LogRecord) -> None:
        """Log a record of a library, under the name of its logger."""
        try:
            message = record.getMessage()
        except (TypeError, ValueError):  # the arguments do not match the format
            message = f"{record.msg} {record.args!r}"
        more = {"exc_info": record.exc_info} if record.exc_info else {}
        level = min(max(record.levelno // 10 * 10, logging.DEBUG), logging.CRITICAL)
        self._logger.log(level, message, logger=record.name, **more)
