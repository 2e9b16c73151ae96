"""One alert as we keep it, what makes several of them one cause, and the words in which an incident is told of them. Pure."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from pydantic import TypeAdapter, ValidationError

from bot.alerts.labels import AlertLabels
from kb.redact import cleaned_line, visible
from tools.inventory.ranges import fold

LONGEST_NAME, LONGEST_SUMMARY, LONGEST_READ, MOST_SHOWN = 80, 300, 1000, 6
MAX_ADDRESS = 500
ADDRESS = re.compile(r"https?://[A-Za-z0-9.\[\]-]{1,253}(?::[0-9]{1,5})?/[A-Za-z0-9._~:/?#!$'()*+,;=%&-]*")
"""Without user names and passwords, blanks, and signs that could end a link."""
MANY = "many causes at once"
_SEVERAL = r"(?:[\s:=#\"'(\[-]{0,4}(?i:_?errors?|codes?|events?|numbers?|values?|is|was|has)\b){0,3}"
_PLACE = r"(?:[\s:]{1,3}(?:on|of|for|at|in) [^:=\n]{1,60}(?:[:=]|\bis)\s{1,3})?"
_NUMBER = r"[\s:=#\"')\],>_-]{0,4}%s(?:\.0{1,6})?(?![\w]|\.\d)"
_XID = re.compile(
    r"(?:(?<![A-Za-z0-9])[Xx][Ii][Dd]|(?<=[a-rt-z0-9])X(?:id|ID)|(?<=[A-RT-Z])Xid)s?" + _SEVERAL + _PLACE + _NUMBER % r"(\d{1,4})", re.ASCII
)
_SXID = re.compile(r"S[Xx](?:id|ID)s?" + _SEVERAL + _PLACE + _NUMBER % r"(\d{5})", re.ASCII)
"""The word, what may stand between, and the number: of an error, never of a GPU, a host or a count of minutes."""
_ADDRESS = re.compile(
    r"\((?:PCI:)?[0-9a-f]{4,8}:[^)\n]{1,80}\)|\b(?:PCI:)?[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?\b", re.IGNORECASE
)
"""A PCI address stands between the word and its number in the kernel's own line."""
_PORT = re.compile(r":\d{1,5}$")


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

    def stored(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name != "labels"}


_ROW = TypeAdapter(Alert)


def read_row(stored: bytes) -> Alert | None:
    """An alert as `stored` wrote it. None for a damaged row: it must not keep the others from being counted."""
    try:
        return _ROW.validate_json(stored)
    except ValidationError:
        return None


def short(text: object, most: int = LONGEST_NAME) -> str:
    """A stranger's word as we keep it: one line, no secret, nothing that hides, no longer than that."""
    return visible(cleaned_line(str(text), most))[:most] if isinstance(text, str | int | float) else ""


@dataclass(frozen=True, slots=True)
class RawAlert:
    """What a sender said: names and values of anybody's choosing."""

    id: str
    firing: bool
    labels: Mapping[str, str]
    notes: Mapping[str, str] = field(default_factory=dict)
    source: str = ""
    """The address of the query that fires, Alertmanager's `generatorURL`."""


def read_address(text: object) -> str:
    """Return an http or https address that may be linked to; empty for any other text, and for one that holds a secret or a user name."""
    if not isinstance(text, str) or len(text) > MAX_ADDRESS or not ADDRESS.fullmatch(text):
        return ""
    return text if cleaned_line(text, MAX_ADDRESS) == text else ""


def read_alert(raw: RawAlert, names: AlertLabels) -> Alert:
    """By the site's names of labels. A number of an Xid that only another label, an annotation or the name tells counts too."""
    told = short(raw.notes.get("summary") or raw.notes.get("description") or raw.notes.get("message") or "", LONGEST_SUMMARY)
    texts = [_ADDRESS.sub(" ", value[:LONGEST_READ]) for value in (*raw.notes.values(), *raw.labels.values()) if "://" not in value]
    xid = _first_of_labels(raw, names) or _first(_XID, texts)
    return Alert(
        id=raw.id,
        name=short(raw.labels.get("alertname", "")) or "an alert",
        firing=raw.firing,
        host=next((_PORT.sub("", value) for value in _values(raw, names.host)), ""),
        device=next(_values(raw, names.device).__iter__(), ""),
        xid=xid,
        group=next((f"{name} {raw_value}" for name in names.cause if (raw_value := short(raw.labels.get(name, "")))), ""),
        severity=short(raw.labels.get("severity", ""), 20),
        summary=told,
        runbook=read_address(raw.notes.get("runbook_url") or raw.notes.get("runbook")),
        source=read_address(raw.source),
        labels=raw.labels,
        sxid="" if xid else _first(_SXID, texts),
    )


def _first_of_labels(raw: RawAlert, names: AlertLabels) -> str:
    """Return the number that one of the labels for Xids holds, as a number or in words; "" for none."""
    for value in _values(raw, names.xid):
        number = value.removesuffix(".0")
        if number.isascii() and number.isdecimal() and len(number) < 5 and int(number):
            return number
    return ""


def _first(pattern: re.Pattern[str], texts: Sequence[str]) -> str:
    """Return the first number of an error in the texts, "" for none: no error has the number 0."""
    return next((str(int(found[1])) for text in texts for found in pattern.finditer(text) if int(found[1])), "")


def _values(raw: RawAlert, names: Sequence[str]) -> list[str]:
    return [value for name in names if (value := short(raw.labels.get(name, "")))]


def digest(cause: str, channel: str = "") -> str:
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
    def over(self) -> bool:
        """What is not listed is never taken for over."""
        return not self.firing and not self.more and not self.left


def tally(cause: str, alerts: Sequence[Alert], more: int = 0, left: int = 0) -> AlertTally:
    firing = [row for row in alerts if row.firing]
    hosts = tuple(dict.fromkeys(row.host for row in firing or alerts if row.host))
    shown: dict[tuple[str, str], Alert] = {}
    for row in firing or alerts:
        shown.setdefault((row.name, row.summary), row)
    return AlertTally(cause, len(firing), len(alerts) - len(firing), hosts, tuple(shown.values())[:MOST_SHOWN], more, left)


def words_of(counted: AlertTally) -> str:
    """What an incident is told, as a person might have said it."""
    where = f" on {fold(counted.hosts)}" if counted.hosts else ""
    left = f" Not listed by whoever sends them: {counted.left} more." if counted.left else ""
    lines = [f"Alerts of {counted.cause}: {counted.firing + counted.more} firing{where}.{left}"]
    return "\n".join([*lines, *dict.fromkeys(_line(row) for row in counted.shown)])


def _line(row: Alert) -> str:
    where = " ".join(part for part in (row.host, f"gpu{row.device}" if row.device.isdecimal() else row.device) if part)
    said = ": ".join(part for part in (f"Xid {row.xid}" if row.xid else f"SXid {row.sxid}" if row.sxid else "", row.summary) if part)
    return " ".join(part for part in (row.name, f"on {where}" if where else "", f"({said})" if said else "") if part)
