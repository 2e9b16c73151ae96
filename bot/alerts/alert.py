"""One alert as we keep it, what makes several of them one cause, and the words in which an incident is told of them. Pure."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from pydantic import TypeAdapter, ValidationError

from bot.alerts.labels import AlertLabels
from kb.redact import redact_to_line, show_invisible
from tools.inventory.host_ranges import fold_host_names

MAX_NAME_CHARS, MAX_SUMMARY_CHARS, MAX_PARSED_CHARS, MAX_SHOWN_ALERTS = 80, 300, 1000, 6
MAX_ADDRESS_CHARS = 500
ADDRESS_PATTERN = re.compile(r"https?://[A-Za-z0-9.\[\]-]{1,253}(?::[0-9]{1,5})?/[A-Za-z0-9._~:/?#!$'()*+,;=%&-]*")
"""Without user names and passwords, blanks, and signs that could end a link."""
MANY_CAUSES = "many causes at once"
_FILLER_WORDS_PATTERN = r"(?:[\s:=#\"'(\[-]{0,4}(?i:_?errors?|codes?|events?|numbers?|values?|is|was|has)\b){0,3}"
_PLACE_PATTERN = r"(?:[\s:]{1,3}(?:on|of|for|at|in) [^:=\n]{1,60}(?:[:=]|\bis)\s{1,3})?"
_NUMBER_PATTERN = r"[\s:=#\"')\],>_-]{0,4}%s(?:\.0{1,6})?(?![\w]|\.\d)"
_XID_PATTERN = re.compile(
    r"(?:(?<![A-Za-z0-9])[Xx][Ii][Dd]|(?<=[a-rt-z0-9])X(?:id|ID)|(?<=[A-RT-Z])Xid)s?"
    + _FILLER_WORDS_PATTERN
    + _PLACE_PATTERN
    + _NUMBER_PATTERN % r"(\d{1,4})",
    re.ASCII,
)
_SXID_PATTERN = re.compile(r"S[Xx](?:id|ID)s?" + _FILLER_WORDS_PATTERN + _PLACE_PATTERN + _NUMBER_PATTERN % r"(\d{5})", re.ASCII)
"""The word, what may stand between, and the number: of an error, never of a GPU, a host or a count of minutes."""
_PCI_ADDRESS_PATTERN = re.compile(
    r"\((?:PCI:)?[0-9a-f]{4,8}:[^)\n]{1,80}\)|\b(?:PCI:)?[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?\b", re.IGNORECASE
)
"""A PCI address stands between the word and its number in the kernel's own line."""
_PORT_PATTERN = re.compile(r":\d{1,5}$")


@dataclass(frozen=True, slots=True)
class Alert:
    """`id` is the same as it repeats and when it resolves; `host` as the labels name it; `group` what the site's labels say it hangs on."""

    id: str
    name: str
    firing: bool
    host: str = ""
    device: str = ""
    xid: str = ""
    group: str = ""
    severity: str = ""
    summary: str = ""
    runbook: str = ""
    """Addresses that the alert brought, http or https and checked; empty where it has none or one that we do not link to."""
    source: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    """As they came, for the routes alone: never kept, and never shown."""
    sxid: str = ""

    @property
    def cause(self) -> str:
        """Alerts of one cause are one incident: of one switch or rack, else of one Xid or SXid, else of one name."""
        return self.group or (f"Xid {self.xid}" if self.xid else f"SXid {self.sxid}" if self.sxid else self.name)

    def to_stored_row(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name != "labels"}


_ALERT_ADAPTER = TypeAdapter(Alert)


def parse_stored_alert(stored: bytes) -> Alert | None:
    """An alert as `stored` wrote it. None for a damaged row: it must not keep the others from being counted."""
    try:
        return _ALERT_ADAPTER.validate_json(stored)
    except ValidationError:
        return None


def clean_label_text(text: object, most: int = MAX_NAME_CHARS) -> str:
    """A stranger's word as we keep it: one line, no secret, nothing that hides, no longer than that."""
    return show_invisible(redact_to_line(str(text), most))[:most] if isinstance(text, str | int | float) else ""


@dataclass(frozen=True, slots=True)
class RawAlert:
    """What a sender said: names and values of anybody's choosing."""

    id: str
    firing: bool
    labels: Mapping[str, str]
    notes: Mapping[str, str] = field(default_factory=dict)
    source: str = ""
    """The address of the query that fires, Alertmanager's `generatorURL`."""


def parse_link_address(text: object) -> str:
    """Return an http or https address that may be linked to; empty for any other text, and for one that holds a secret or a user name."""
    if not isinstance(text, str) or len(text) > MAX_ADDRESS_CHARS or not ADDRESS_PATTERN.fullmatch(text):
        return ""
    return text if redact_to_line(text, MAX_ADDRESS_CHARS) == text else ""


def parse_alert(raw: RawAlert, names: AlertLabels) -> Alert:
    """By the site's names of labels. A number of an Xid that only another label, an annotation or the name tells counts too."""
    told = clean_label_text(raw.notes.get("summary") or raw.notes.get("description") or raw.notes.get("message") or "", MAX_SUMMARY_CHARS)
    texts = [
        _PCI_ADDRESS_PATTERN.sub(" ", value[:MAX_PARSED_CHARS])
        for value in (*raw.notes.values(), *raw.labels.values())
        if "://" not in value
    ]
    xid = _find_xid_in_labels(raw, names) or _find_error_number(_XID_PATTERN, texts)
    return Alert(
        id=raw.id,
        name=clean_label_text(raw.labels.get("alertname", "")) or "an alert",
        firing=raw.firing,
        host=next((_PORT_PATTERN.sub("", value) for value in _list_label_values(raw, names.host)), ""),
        device=next(_list_label_values(raw, names.device).__iter__(), ""),
        xid=xid,
        group=next((f"{name} {raw_value}" for name in names.cause if (raw_value := clean_label_text(raw.labels.get(name, "")))), ""),
        severity=clean_label_text(raw.labels.get("severity", ""), 20),
        summary=told,
        runbook=parse_link_address(raw.notes.get("runbook_url") or raw.notes.get("runbook")),
        source=parse_link_address(raw.source),
        labels=raw.labels,
        sxid="" if xid else _find_error_number(_SXID_PATTERN, texts),
    )


def _find_xid_in_labels(raw: RawAlert, names: AlertLabels) -> str:
    """Return the number that one of the labels for Xids holds, as a number or in words; "" for none."""
    for value in _list_label_values(raw, names.xid):
        number = value.removesuffix(".0")
        if number.isascii() and number.isdecimal() and len(number) < 5 and int(number):
            return number
    return ""


def _find_error_number(pattern: re.Pattern[str], texts: Sequence[str]) -> str:
    """Return the first number of an error in the texts, "" for none: no error has the number 0."""
    return next((str(int(found[1])) for text in texts for found in pattern.finditer(text) if int(found[1])), "")


def _list_label_values(raw: RawAlert, names: Sequence[str]) -> list[str]:
    return [value for name in names if (value := clean_label_text(raw.labels.get(name, "")))]


def hash_cause(cause: str, channel: str = "") -> str:
    """Of a cause; with a channel, of its episodes there."""
    return hashlib.sha256(f"{cause}\0{channel}".encode() if channel else cause.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class AlertTally:
    """The alerts of one cause, counted. `more`: that were counted and are not kept; `left`: that the sender counts beside them and does not
    list, of which nobody knows whether they fire."""

    cause: str
    firing: int
    resolved: int
    hosts: tuple[str, ...]
    shown: tuple[Alert, ...]
    more: int = 0
    left: int = 0

    @property
    def is_resolved(self) -> bool:
        """What is not listed is never taken for over."""
        return not self.firing and not self.more and not self.left


def count_alerts(cause: str, alerts: Sequence[Alert], more: int = 0, left: int = 0) -> AlertTally:
    firing = [row for row in alerts if row.firing]
    hosts = tuple(dict.fromkeys(row.host for row in firing or alerts if row.host))
    shown: dict[tuple[str, str], Alert] = {}
    for row in firing or alerts:
        shown.setdefault((row.name, row.summary), row)
    return AlertTally(cause, len(firing), len(alerts) - len(firing), hosts, tuple(shown.values())[:MAX_SHOWN_ALERTS], more, left)


def render_alert_summary(counted: AlertTally) -> str:
    """What an incident is told, as a person might have said it."""
    where = f" on {fold_host_names(counted.hosts)}" if counted.hosts else ""
    left = f" Not listed by whoever sends them: {counted.left} more." if counted.left else ""
    lines = [f"Alerts of {counted.cause}: {counted.firing + counted.more} firing{where}.{left}"]
    return "\n".join([*lines, *dict.fromkeys(_render_alert_line(row) for row in counted.shown)])


def _render_alert_line(row: Alert) -> str:
    where = " ".join(part for part in (row.host, f"gpu{row.device}" if row.device.isdecimal() else row.device) if part)
    said = ": ".join(part for part in (f"Xid {row.xid}" if row.xid else f"SXid {row.sxid}" if row.sxid else "", row.summary) if part)
    return " ".join(part for part in (row.name, f"on {where}" if where else "", f"({said})" if said else "") if part)
