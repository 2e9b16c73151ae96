"""One alert, its cause, and the text about alerts for an incident."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from pydantic import TypeAdapter, ValidationError

from kb.redact import redact_to_line, show_invisible
from kb.schema import StrictModel
from tools.inventory.host_ranges import fold_host_names

# Which labels of an alert mean what.

MAX_NAME_CHARS = 80
MAX_SUMMARY_CHARS = 300
MAX_PARSED_CHARS = 1000
MAX_SHOWN_ALERTS = 6
MAX_ADDRESS_CHARS = 500
# No user names, passwords or blanks, and no character that could end a link.
ADDRESS_PATTERN = re.compile(r"https?://[A-Za-z0-9.\[\]-]{1,253}(?::[0-9]{1,5})?/[A-Za-z0-9._~:/?#!$'()*+,;=%&-]*")
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
# Like _XID_PATTERN: the word, fillers and the number of an error, never of a GPU, a host or minutes.
_SXID_PATTERN = re.compile(r"S[Xx](?:id|ID)s?" + _FILLER_WORDS_PATTERN + _PLACE_PATTERN + _NUMBER_PATTERN % r"(\d{5})", re.ASCII)
# In the kernel's own line a PCI address separates the word from its number.
_PCI_ADDRESS_PATTERN = re.compile(
    r"\((?:PCI:)?[0-9a-f]{4,8}:[^)\n]{1,80}\)|\b(?:PCI:)?[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?\b", re.IGNORECASE
)
_PORT_PATTERN = re.compile(r":\d{1,5}$")


class AlertLabels(StrictModel):
    """Names of labels, the first that an alert has counts: as node_exporter, dcgm-exporter and kube-state-metrics have them."""

    host: tuple[str, ...] = ("Hostname", "node", "nodename", "kubernetes_node", "hostname", "host", "instance")
    device: tuple[str, ...] = ("gpu", "UUID", "device")
    xid: tuple[str, ...] = ("xid", "err_code", "DCGM_FI_DEV_XID_ERRORS")
    cause: tuple[str, ...] = ("switch", "leaf", "rack")


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert. `id` is stable when it repeats or resolves; `group` comes from the site's cause labels."""

    id: str
    name: str
    firing: bool
    host: str = ""
    device: str = ""
    xid: str = ""
    group: str = ""
    severity: str = ""
    summary: str = ""
    runbook: str = ""  # `runbook` and `source` are validated http(s) addresses, or empty.
    source: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)  # Unredacted, for routing only: never stored or shown.
    sxid: str = ""

    @property
    def cause(self) -> str:
        """Alerts of one cause share an incident: the group, else the Xid or SXid, else the name."""
        return self.group or _format_error_number(self) or self.name

    def to_stored_row(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name != "labels"}


_ALERT_ADAPTER = TypeAdapter(Alert)


def parse_stored_alert(stored: bytes) -> Alert | None:
    """Parse a row of `to_stored_row`. None for a damaged row, so that the others still count."""
    try:
        return _ALERT_ADAPTER.validate_json(stored)
    except ValidationError:
        return None


def clean_label_text(text: object, max_chars: int = MAX_NAME_CHARS) -> str:
    """Return untrusted text as one line without secrets or invisible characters, at most `most` characters."""
    return show_invisible(redact_to_line(str(text), max_chars))[:max_chars] if isinstance(text, str | int | float) else ""


@dataclass(frozen=True, slots=True)
class RawAlert:
    """An alert as sent, untrusted."""

    id: str
    firing: bool
    labels: Mapping[str, str]
    notes: Mapping[str, str] = field(default_factory=dict)
    source: str = ""  # Alertmanager's `generatorURL`.


def parse_link_address(text: object) -> str:
    """Return an http(s) address that may be linked; empty if it is none, or holds a secret or a user name."""
    if not isinstance(text, str) or len(text) > MAX_ADDRESS_CHARS or not ADDRESS_PATTERN.fullmatch(text):
        return ""
    return text if redact_to_line(text, MAX_ADDRESS_CHARS) == text else ""


def parse_alert(raw: RawAlert, label_names: AlertLabels) -> Alert:
    """Read an alert by the site's label names. An Xid may also come from another label, an annotation or the name."""
    label_text = clean_label_text(
        raw.notes.get("summary") or raw.notes.get("description") or raw.notes.get("message") or "", MAX_SUMMARY_CHARS
    )
    texts = [
        _PCI_ADDRESS_PATTERN.sub(" ", value[:MAX_PARSED_CHARS])
        for value in (*raw.notes.values(), *raw.labels.values())
        if "://" not in value
    ]
    xid = _find_xid_in_labels(raw, label_names) or _find_error_number(_XID_PATTERN, texts)
    return Alert(
        id=raw.id,
        name=clean_label_text(raw.labels.get("alertname", "")) or "an alert",
        firing=raw.firing,
        host=next((_PORT_PATTERN.sub("", value) for value in _list_label_values(raw, label_names.host)), ""),
        device=next(_list_label_values(raw, label_names.device).__iter__(), ""),
        xid=xid,
        group=next((f"{name} {raw_value}" for name in label_names.cause if (raw_value := clean_label_text(raw.labels.get(name, "")))), ""),
        severity=clean_label_text(raw.labels.get("severity", ""), 20),
        summary=label_text,
        runbook=parse_link_address(raw.notes.get("runbook_url") or raw.notes.get("runbook")),
        source=parse_link_address(raw.source),
        labels=raw.labels,
        sxid="" if xid else _find_error_number(_SXID_PATTERN, texts),
    )


def _find_xid_in_labels(raw: RawAlert, label_names: AlertLabels) -> str:
    for value in _list_label_values(raw, label_names.xid):
        number = value.removesuffix(".0")
        if number.isascii() and number.isdecimal() and len(number) < 5 and int(number):
            return number
    return ""


def _find_error_number(pattern: re.Pattern[str], texts: Sequence[str]) -> str:
    """Return the first error number in the texts, or an empty string; 0 is not an error."""
    return next((str(int(match[1])) for text in texts for match in pattern.finditer(text) if int(match[1])), "")


def _list_label_values(raw: RawAlert, names: Sequence[str]) -> list[str]:
    return [value for name in names if (value := clean_label_text(raw.labels.get(name, "")))]


def hash_cause(cause: str, channel: str = "") -> str:
    """Hash a cause, or a cause in a channel."""
    return hashlib.sha256(f"{cause}\0{channel}".encode() if channel else cause.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class AlertTally:
    """Alert counts of one cause. `more`: not stored. `left`: counted by the sender but not listed; may fire."""

    cause: str
    firing: int
    resolved: int
    hosts: tuple[str, ...]
    shown: tuple[Alert, ...]
    more: int = 0
    left: int = 0

    @property
    def is_resolved(self) -> bool:
        """Unlisted alerts never count as resolved."""
        return not self.firing and not self.more and not self.left


def count_alerts(cause: str, alerts: Sequence[Alert], more: int = 0, left: int = 0) -> AlertTally:
    firing = [alert for alert in alerts if alert.firing]
    hosts = tuple(dict.fromkeys(row.host for row in firing or alerts if row.host))
    counted_alerts: dict[tuple[str, str], Alert] = {}
    for row in firing or alerts:
        counted_alerts.setdefault((row.name, row.summary), row)
    return AlertTally(cause, len(firing), len(alerts) - len(firing), hosts, tuple(counted_alerts.values())[:MAX_SHOWN_ALERTS], more, left)


def render_alert_summary(counted: AlertTally) -> str:
    """Return the alerts as a message for the incident."""
    place = f" on {fold_host_names(counted.hosts)}" if counted.hosts else ""
    unlisted_note = f" Not listed by the sender: {counted.left} more." if counted.left else ""
    lines = [f"Alerts of {counted.cause}: {counted.firing + counted.more} firing{place}.{unlisted_note}"]
    return "\n".join([*lines, *dict.fromkeys(_render_alert_line(row) for row in counted.shown)])


def _format_error_number(alert: Alert) -> str:
    if alert.xid:
        return f"Xid {alert.xid}"
    return f"SXid {alert.sxid}" if alert.sxid else ""


def _render_alert_line(alert: Alert) -> str:
    place = " ".join(part for part in (alert.host, f"gpu{alert.device}" if alert.device.isdecimal() else alert.device) if part)
    error_text = ": ".join(part for part in (_format_error_number(alert), alert.summary) if part)
    return " ".join(part for part in (alert.name, f"on {place}" if place else "", f"({error_text})" if error_text else "") if part)
