"""Logs: one record, one line, as JSON or as text.

The command makes one `Logs`. Whoever logs is handed its `logger`, or asks structlog for one
after `install`; records of libraries that use the standard library's logging come out the same
way then.

How much is told (`-v`):

* 0, the default: what an operator has to know, and every preemption, because it deletes pods.
* 2: also one line per attempt; that is a thirtieth of what a plain pod costs.
* 4: also one line per effect and other details, at level `debug`.
* 6: also what libraries say at level `info`; 8: what they say at level `debug`.

Lines collect in memory and leave in one write: when the loop calls `flush`, when there are many,
or with the first one of level `error`. Nothing that is logged can stop the scheduler: what
cannot be encoded is spelled out, what cannot be written is counted and dropped.
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

#: From which verbosity on plain attempts are logged.
ATTEMPTS: Final = 2
#: From which verbosity on effects and other details are logged.
DETAILS: Final = 4
DEFAULT_VERBOSITY: Final = 0

#: From which verbosity on libraries are heard at which level; they always warn.
_LIBRARIES: Final = ((8, logging.DEBUG), (6, logging.INFO), (0, logging.WARNING))


class Format(StrEnum):
    """What a line looks like (`--logging-format`)."""

    JSON = "json"
    TEXT = "text"


class Logs:
    """The log of one process.

    Args:
        stream: Where lines go, normally `sys.stderr.buffer`.
        wall: Returns the time of day as seconds since the epoch.
        form: What a line looks like.
        verbosity: How much is told; see above.
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
        """Write what has collected; cheap when nothing has."""
        self._sink.flush()

    def close(self) -> None:
        """Write what has collected and undo `install`."""
        self.flush()
        if self._bridge is not None:
            logging.captureWarnings(capture=False)
            logging.getLogger().removeHandler(self._bridge)
            structlog.reset_defaults()
            self._bridge = None


class _Rendered:
    """The last processor: a record becomes a line, stamped with the time of day."""

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
    """Takes records of the standard library's logging into ours."""

    def __init__(self, logger: FilteringBoundLogger) -> None:
        super().__init__()
        self._logger = logger

    def emit(self, record: logging.LogRecord) -> None:
        """Log a record of a library, under the name of its logger."""
        try:
            message = record.getMessage()
        except (TypeError, ValueError):  # arguments that do not suit the format
            message = f"{record.msg} {record.args!r}"
        more = {"exc_info": record.exc_info} if record.exc_info else {}
        level = min(max(record.levelno // 10 * 10, logging.DEBUG), logging.CRITICAL)
        self._logger.log(level, message, logger=record.name, **more)
