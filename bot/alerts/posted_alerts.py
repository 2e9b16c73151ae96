"""Parse alert messages that other bots post in Slack; unknown forms yield nothing. Linear time.

Alertmanager's and Grafana's Slack templates share title and list forms: `__subject` and `__text_alert_list` of
https://github.com/prometheus/alertmanager/blob/main/template/default.tmpl, `default.title` and `default.message` of
https://github.com/grafana/alerting/blob/main/templates/default_template.go.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bot.alerts.alert import RawAlert
from kb.needle_search import split_lines

# As many characters as a Slack message holds.
MAX_READ_CHARS = 40_000
MAX_LISTED_ALERTS = 1000
MAX_LABELS = 64
MAX_LINE_CHARS = 1000
_TITLE_PATTERN = re.compile(r"\[(?:FIRING:(\d{1,6})(?:, ?RESOLVED:\d{1,6})?|(RESOLVED)(?::\d{1,6})?)\] ?(.*)")
_ROW_PATTERN = re.compile(r"\s{0,8}[-•] (\S{1,100}) ?[=:] (.*)")
FIRING_HEADINGS = frozenset({"firing", "alerts firing", "firing alerts"})
RESOLVED_HEADINGS = frozenset({"resolved", "alerts resolved", "resolved alerts"})


@dataclass(frozen=True, slots=True)
class PostedAlerts:
    """A posted alert group. `listed`: the alerts with labels; without any, only `name`, `text` and `firing` are known."""

    group: str
    name: str
    over: bool
    firing: int
    text: str
    listed: Sequence[RawAlert] = ()

    @property
    def left(self) -> int:
        """Alerts counted but not listed."""
        return max(0, self.firing - sum(row.firing for row in self.listed)) if self.listed else 0


def parse_posted_alerts(text: str, source: str) -> PostedAlerts | None:
    """Parse a message, or return None. `source` identifies the sender: bot, channel and linked Alertmanager."""
    lines = [line[:MAX_LINE_CHARS] for line in split_lines(text[:MAX_READ_CHARS])]
    titles = [(at, match) for at, line in enumerate(lines) if (match := _TITLE_PATTERN.fullmatch(line.strip()))]
    if len(titles) != 1:
        return None
    at, title = titles[0]
    values, common, rest = title[3].partition(" (")
    if " (" in rest or (common and not rest.rstrip().endswith(")")):
        return None  # ambiguous: the end of the group's own values is unknown
    over, words = title[2] is not None, (values.split() or rest.rstrip(") ").split())
    listed = _parse_listed_alerts(lines[at + 1 :], source, over=over)
    name = words[0] if words else "an alert"
    return PostedAlerts(_hash_parts(source, values.strip()), name, over, int(title[1] or 0), "\n".join(lines), listed)


def build_group_alert(posted: PostedAlerts, host: str, host_label: str) -> RawAlert:
    """Return the alert that represents an unlisted group on a host that its text names."""
    labels = {"alertname": posted.name}
    if host:
        labels[host_label] = host
    return RawAlert(_hash_parts(posted.group, host), not posted.over, labels, {"summary": posted.text})


@dataclass(slots=True)
class _AlertBlock:
    firing: bool
    labels: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)


def _parse_listed_alerts(lines: Sequence[str], source: str, *, over: bool) -> list[RawAlert]:
    """Parse `Labels:` blocks of a name and value per line; skip other lines."""
    blocks: list[_AlertBlock] = []
    firing, into = not over, dict[str, str]()
    for line in lines:
        word = line.strip().strip("*_: ").lower()
        if word in FIRING_HEADINGS | RESOLVED_HEADINGS:
            firing, into = not over and word in FIRING_HEADINGS, {}
        elif word == "labels" and len(blocks) < MAX_LISTED_ALERTS:
            blocks.append(_AlertBlock(firing))
            into = blocks[-1].labels
        elif word in ("labels", "annotations"):
            into = blocks[-1].notes if blocks and word == "annotations" else {}
        elif (row := _ROW_PATTERN.fullmatch(line)) and len(into) < MAX_LABELS:
            into.setdefault(row[1], row[2].strip())
    return [
        RawAlert(_hash_parts(source, *_format_label_pairs(block.labels)), block.firing, block.labels, block.notes)
        for block in blocks
        if block.labels
    ]


def _format_label_pairs(labels: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in sorted(labels.items())]


def _hash_parts(*parts: str) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
