"""Structured logs: one line an event, no secret in any. Set up once, by the command that serves."""

import logging
import sys
from typing import Literal

import structlog

from kb.redact import cleaned_within, redact


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

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter.format`."""
        return redact(super().format(record))


def _without_secrets(_logger: object, _name: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """The last thing before a line is written."""
    clean: structlog.typing.EventDict = cleaned_within(event)
    return clean
