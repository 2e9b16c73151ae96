"""Supported tracker products, and the loader of a site's trackers file."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import ValidationError

from bot.refusal import Refusal
from bot.trackers.github import GitHubConfig, open_github
from bot.trackers.jira import JiraConfig, open_jira
from bot.trackers.pagerduty import PagerDutyConfig, open_pagerduty
from bot.trackers.servicenow import ServiceNowConfig, open_servicenow
from bot.trackers.tracker import Tracker
from bot.trackers.tracker_base import TrackerConfig
from bot.trackers.webhook import WebhookConfig, open_webhook
from kb.yaml_files import load_plain
from tools.clock import Clock

MAX_TRACKERS = 5  # per site: each is a choice on a card
_NAME_PATTERN = re.compile(r"[a-z][a-z0-9-]{0,30}")
# fields of earlier versions → what to do
REMOVED_FIELDS: Final[Mapping[str, str]] = {
    "hook": "was removed; delete the key. Comments and state are fetched by polling, every minute unless RACKMEDIC_TRACKER_POLL_SECONDS says otherwise"
}


@dataclass(frozen=True, slots=True)
class TrackerKind:
    product: str
    config: type[TrackerConfig]
    open: Callable[[str, Any, Clock], Tracker]


KINDS: Final[Mapping[str, TrackerKind]] = {
    "jira": TrackerKind("Jira Cloud", JiraConfig, open_jira),
    "servicenow": TrackerKind("ServiceNow", ServiceNowConfig, open_servicenow),
    "pagerduty": TrackerKind("PagerDuty", PagerDutyConfig, open_pagerduty),
    "github": TrackerKind("GitHub issues", GitHubConfig, open_github),
    "webhook": TrackerKind("any other, by a webhook", WebhookConfig, open_webhook),
}


def open_trackers(file: Path, clock: Clock, setting: str = "RACKMEDIC_TRACKERS") -> tuple[Tracker, ...]:
    """Open a file's trackers. Raises Refusal with every problem; secrets are never printed."""
    try:
        rows = load_plain(file.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise Refusal(f"{setting}: {file} cannot be read: {' '.join(str(error).split())[:200]}", 2) from error
    except yaml.YAMLError as error:
        raise Refusal(f"{setting}: {file} is no YAML{_format_place(error)}", 2) from None  # the parser's message may quote a secret
    if not isinstance(rows, dict) or not rows:
        raise Refusal(f"{setting}: {file} must be a mapping of trackers, each with its kind; docs/trackers.md shows one", 2)
    problems: list[str] = [f"more than {MAX_TRACKERS} trackers"] if len(rows) > MAX_TRACKERS else []
    trackers: list[Tracker] = []
    for name, row in rows.items():
        trackers += _open_tracker(str(name), row, clock, problems)
    if problems:
        raise Refusal("\n".join(f"{setting}: {problem} ({file})" for problem in problems), 2)
    return tuple(trackers)


def is_readable_by_others(file: Path) -> bool:
    """Whether other accounts may read its secrets."""
    return bool(file.stat().st_mode & 0o077)


def _open_tracker(name: str, row: Any, clock: Clock, problems: list[str]) -> Sequence[Tracker]:
    kind = KINDS.get(str(row.get("kind"))) if isinstance(row, dict) else None
    if not _NAME_PATTERN.fullmatch(name):
        problems.append(f"{name[:40]!r}: a name is small letters, digits and hyphens, at most 31")
        return ()
    if kind is None:
        problems.append(f"{name}.kind: must be one of {', '.join(KINDS)}")
        return ()
    try:
        return (kind.open(name, kind.config.model_validate(row), clock),)
    except ValidationError as error:
        problems += _format_problems(name, error)
        return ()


def _format_problems(name: str, why: ValidationError) -> Iterator[str]:
    """Yield pydantic's messages, which never contain the value."""
    for error in why.errors(include_url=False, include_input=False, include_context=False):
        location = ".".join(map(str, (name, *error["loc"])))
        unknown = REMOVED_FIELDS.get(str(error["loc"][-1]), "is no field of it; docs/trackers.md lists them") if error["loc"] else ""
        words = {"missing": "is missing", "extra_forbidden": unknown}.get(error["type"])
        yield f"{location}: {words or error['msg'].removeprefix('Value error, ')}"


def _format_place(why: yaml.YAMLError) -> str:
    mark = getattr(why, "problem_mark", None)
    return f" (line {mark.line + 1})" if mark else ""
