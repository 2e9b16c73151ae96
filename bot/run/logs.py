"""Structured logs: one line an event, no secret in any, and nothing that a terminal obeys or does not show. Set up once, by the command that serves.

Strangers choose what stands in some fields (a path, a name, what a library says of their request), so every field is cleaned here, whoever writes it.
"""

import logging
import sys
from collections.abc import Mapping
from typing import Any, Final, Literal

import structlog

from kb.redact import cleaned_within, redact, visible

MAX_FIELD: Final = 2_000  # characters of one field
MAX_TRACEBACK: Final = 20_000
TRACEBACKS: Final = frozenset({"exception", "stack"})  # fields of more lines than one


def set_up_logs(level: Literal["debug", "info", "warning", "error"], shape: Literal["console", "json"]) -> None:
    """Send structlog's and the libraries' lines to stderr in one shape."""
    renderer = (
        structlog.processors.JSONRenderer()
        if shape == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback)
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _without_secrets,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    lines = logging.StreamHandler(sys.stderr)
    lines.setFormatter(CleanLines("%(levelname)s %(name)s %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[lines])


class CleanLines(logging.Formatter):
    """A library's line, its traceback included, without secrets: slack_sdk and asyncio put whole requests into theirs."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  logging's own name
        """See `logging.Formatter.formatMessage`. What is quoted in a message begins no line of its own."""
        return log_field(super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter.format`."""
        return log_field(redact(super().format(record)), MAX_TRACEBACK, lines=True)


def log_field(text: str, most: int = MAX_FIELD, *, lines: bool = False) -> str:
    """Return text as a field of a log: bounded, what is invisible or obeyed by a terminal spelled out, and on one line unless it may have `lines`."""
    cut = f"{text[:most]}… ({len(text) - most:,} more characters)" if len(text) > most else text
    shown = visible(cut)
    return shown if lines else shown.replace("\n", "\\n").replace("\t", "\\t")


def _without_secrets(_logger: object, _name: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """The last thing before a line is written."""
    return {name: _field(value, name) for name, value in cleaned_within(event).items()}


def _field(value: Any, name: str = "") -> Any:
    if isinstance(value, str):
        return log_field(value, MAX_TRACEBACK, lines=True) if name in TRACEBACKS else log_field(value)
    if isinstance(value, Mapping):
        return {str(key): _field(part) for key, part in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_field(part) for part in value]
    return value if value is None or isinstance(value, int | float) else log_field(str(value))
