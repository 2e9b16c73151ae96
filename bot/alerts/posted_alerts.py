"""Alert messages that other bots post in Slack: parse them, and batch them per channel, so that each is stored before it is acknowledged."""

import asyncio
import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from bot.alerts.alert import RawAlert
from kb.needle_search import split_lines

# Parse alert messages that other bots post in Slack; unknown forms yield nothing. Pure, linear time.
#
# Alertmanager's and Grafana's Slack templates share title and list forms: `__subject` and `__text_alert_list` of
# https://github.com/prometheus/alertmanager/blob/main/template/default.tmpl, `default.title` and `default.message` of
# https://github.com/grafana/alerting/blob/main/templates/default_template.go.

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


def build_group_alert(said: PostedAlerts, host: str, host_label: str) -> RawAlert:
    """Return the alert that represents an unlisted group on a host that its text names."""
    labels = {"alertname": said.name, **({host_label: host} if host else {})}
    return RawAlert(_hash_parts(said.group, host), not said.over, labels, {"summary": said.text})


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
        RawAlert(_hash_parts(source, *_format_label_pairs(row.labels)), row.firing, row.labels, row.notes) for row in blocks if row.labels
    ]


def _format_label_pairs(labels: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in sorted(labels.items())]


def _hash_parts(*parts: str) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


# Batch bots' posts per channel, so that in a storm each post is stored before it is acknowledged.
#
# Redis is asked once per cause instead of once per message.

MAX_BATCH_POSTS = 200
# (channel, posts by ts) → incidents with news
BatchHandler = Callable[[str, Sequence[tuple[str, PostedAlerts]]], Awaitable[list[str]]]


@dataclass(frozen=True, slots=True)
class _PendingPost:
    said: PostedAlerts
    told: "asyncio.Future[list[str]]"


@dataclass(slots=True)
class _ChannelQueue:
    # By ts, so that a redelivered message is the same row.
    waiting: dict[str, _PendingPost] = field(default_factory=dict)
    taking: "asyncio.Task[None] | None" = None


@dataclass(slots=True)
class PostedAlertBatcher:
    """Stores batches in the background.

    A listener that times out only stops waiting; the redelivery finds the post stored. A failed batch fails for each of
    its posts, so that Slack delivers each again.
    """

    take_in: BatchHandler
    _channels: dict[str, _ChannelQueue] = field(default_factory=dict)

    async def submit_post(self, channel: str, ts: str, said: PostedAlerts) -> list[str]:
        """Return the incidents with news once the post is stored. Raise OSError if it was not."""
        queue = self._channels.setdefault(channel, _ChannelQueue())
        row = queue.waiting.setdefault(ts, _PendingPost(said, asyncio.get_running_loop().create_future()))
        if queue.taking is None or queue.taking.done():
            queue.taking = asyncio.create_task(self._process_queue(channel, queue))
        return await asyncio.shield(row.told)

    async def _process_queue(self, channel: str, here: _ChannelQueue) -> None:
        while rows := dict(islice(here.waiting.items(), MAX_BATCH_POSTS)):
            failed, handled = None, list[str]()
            try:
                handled = await self.take_in(channel, [(ts, row.said) for ts, row in rows.items()])
            except Exception as error:  # every listener reports the error, and Slack delivers again
                failed = error
            for ts, row in rows.items():
                del here.waiting[ts]
                _resolve_future(row.told, handled, failed)


def _resolve_future(waits: "asyncio.Future[list[str]]", told: list[str], failed: Exception | None) -> None:
    if failed is None:
        waits.set_result(told)
        return
    error = OSError("what came together was not stored")
    error.__cause__ = failed
    waits.set_exception(error)
    waits.exception()  # mark as retrieved: asyncio logs an exception that no waiter read
