"""Structured logs: one line per event, without secrets or characters that a terminal interprets or hides.

Fields may hold untrusted text, so all are cleaned.
"""

import logging
import sys
from collections.abc import Mapping
from itertools import islice
from typing import Any, Literal

import structlog

from kb.numbers import is_storable
from kb.redact import redact_data, redact_start, show_invisible

MAX_FIELD_CHARS, MAX_TRACE_CHARS = 2000, 20_000  # limits of one field, and of a traceback
MAX_PARTS, MAX_DEPTH = 50, 4  # elements of a logged list or mapping, and nesting levels
MULTILINE_FIELDS = frozenset({"exception", "stack"})


def set_up_logs(level: Literal["debug", "info", "warning", "error"], shape: Literal["console", "json"]) -> None:
    """Send all logs to stderr in one format."""
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
            _clean_event,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    lines = logging.StreamHandler(sys.stderr)
    lines.setFormatter(RedactingFormatter("%(levelname)s %(name)s %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[lines])


class RedactingFormatter(logging.Formatter):
    """Formats library lines without secrets: slack_sdk and asyncio log whole requests."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  logging's own name
        """Keep one line, so that quoted text cannot forge a log line."""
        return _format_one_line(super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        return clean_lines(redact_start(super().format(record), 2 * MAX_TRACE_CHARS))


def clean_field(value: Any, depth: int = 0) -> Any:
    """Return a field bounded, on one line, with hidden characters as codes."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return value if is_storable(value) else "(no number)"
    if isinstance(value, str):
        return _format_one_line(value)
    if depth < MAX_DEPTH and isinstance(value, Mapping):
        return {_format_one_line(str(name)): clean_field(part, depth + 1) for name, part in islice(value.items(), MAX_PARTS)}
    if depth < MAX_DEPTH and isinstance(value, list | tuple | set | frozenset):
        return [clean_field(part, depth + 1) for part in islice(value, MAX_PARTS)]
    return _format_one_line(redact_start(repr(value), 2 * MAX_FIELD_CHARS))


def clean_lines(text: str) -> str:
    """Return bounded lines, indented after the first, so that none poses as a log line."""
    shown = show_invisible(text[:MAX_TRACE_CHARS])
    return shown.replace("\n", "\n    ") + (" …" if len(text) > MAX_TRACE_CHARS else "")


def _format_one_line(text: str) -> str:
    shown = show_invisible(text[:MAX_FIELD_CHARS]).replace("\n", "\\n").replace("\t", " ")
    return shown + (" …" if len(text) > MAX_FIELD_CHARS else "")


def _clean_event(_logger: object, _name: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    short = {name: redact_start(part, 2 * MAX_TRACE_CHARS) if isinstance(part, str) else part for name, part in event.items()}
    clean: structlog.typing.EventDict = redact_data(short)
    return {
        _format_one_line(str(name)): clean_lines(part) if name in MULTILINE_FIELDS and isinstance(part, str) else clean_field(part)
        for name, part in clean.items()
    }
