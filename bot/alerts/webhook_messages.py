"""Parse alert messages: Alertmanager's webhook (version 4) and our own. Unreadable ones are refused with a reason."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError

from bot.alerts.alert import Alert, AlertLabels, RawAlert, clean_label_text, parse_alert, parse_link_address
from kb.numbers import parse_bounded_count

MAX_ALERTS = 1000
MAX_LABELS = 64
MAX_UNLISTED_ALERTS = 1_000_000  # Cap of the count of unlisted alerts.


class UnreadableAlerts(ValueError):
    """Not a message of alerts; the text says why, in our words."""


@dataclass(frozen=True, slots=True)
class AlertMessage:
    """`left`: alerts counted but not contained, or over the limit. `group`: its next message replaces that count."""

    alerts: Sequence[Alert]
    left: int = 0
    group: str = ""


def parse_alertmanager_webhook(body: bytes, names: AlertLabels) -> AlertMessage:
    """https://prometheus.io/docs/alerting/latest/configuration/#webhook_config, version 4."""
    payload = _parse_json(body)
    rows = payload.get("alerts")
    if str(payload.get("version")) != "4" or not isinstance(rows, list):
        raise UnreadableAlerts("not version 4 of Alertmanager's webhook")
    unlisted_count = min(
        MAX_UNLISTED_ALERTS, max(0, len(rows) - MAX_ALERTS) + parse_bounded_count(payload.get("truncatedAlerts"), MAX_UNLISTED_ALERTS)
    )
    return AlertMessage(
        [parse_alert(_parse_raw_alert(row), names) for row in rows[:MAX_ALERTS] if isinstance(row, dict)],
        unlisted_count,
        _hash_group(payload),
    )


def _hash_group(said: Mapping[str, Any]) -> str:
    return hashlib.sha256(f"{said.get('receiver')} {said.get('groupKey')}".encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _parse_raw_alert(row: Mapping[str, Any]) -> RawAlert:
    labels, notes = _select_texts(row.get("labels")), _select_texts(row.get("annotations"))
    sign = row.get("fingerprint")
    fingerprint = sign if isinstance(sign, str) and sign.isalnum() and len(sign) <= 64 else ""
    source = row.get("generatorURL")
    return RawAlert(
        fingerprint or _hash_labels(labels), row.get("status") != "resolved", labels, notes, source if isinstance(source, str) else ""
    )


def _hash_labels(labels: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(sorted(labels.items())).encode()).hexdigest()[:16]


def _select_texts(rows: object) -> Mapping[str, str]:
    """Return the first MAX_LABELS pairs of texts."""
    texts = rows if isinstance(rows, dict) else {}
    return {name: value for name, value in list(texts.items())[:MAX_LABELS] if isinstance(value, str)}


class WebhookAlert(BaseModel):
    """One alert of our own message (docs/alerts.md)."""

    id: str = Field(min_length=1, max_length=200)
    name: str = Field(min_length=1, max_length=200)
    status: Literal["firing", "resolved"] = "firing"
    host: str = Field("", max_length=253)
    gpu: str = Field("", max_length=80)
    xid: int | None = Field(None, ge=0, le=9999)
    cause: str = Field("", max_length=200)
    severity: str = Field("", max_length=40)
    summary: str = Field("", max_length=2000)
    runbook_url: str = Field("", max_length=2000)
    source_url: str = Field("", max_length=2000)
    labels: dict[str, str] = Field(default_factory=dict, max_length=MAX_LABELS)

    def to_alert(self) -> Alert:
        sign = hashlib.sha256(self.id.encode()).hexdigest()[:32]
        xid = "" if self.xid is None else str(self.xid)
        texts = (clean_label_text(text) for text in (self.name, self.host, self.gpu, self.cause, self.severity))
        name, host, gpu, cause, severity = texts
        identity = {"alertname": name, "host": host, "gpu": gpu, "xid": xid, "cause": cause, "severity": severity}
        labels = {**self.labels, **{label: value for label, value in identity.items() if value}}
        summary, runbook, source = (
            clean_label_text(self.summary, 300),
            parse_link_address(self.runbook_url),
            parse_link_address(self.source_url),
        )
        return Alert(sign, name, self.status == "firing", host, gpu, xid, cause, severity, summary, runbook, source, labels)


class WebhookAlerts(BaseModel):
    """The message."""

    alerts: list[WebhookAlert] = Field(min_length=1, max_length=MAX_ALERTS)


def parse_own_webhook(body: bytes) -> AlertMessage:
    """Parse `{"alerts": [...]}`."""
    try:
        return AlertMessage([row.to_alert() for row in WebhookAlerts.model_validate(_parse_json(body)).alerts])
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        raise UnreadableAlerts(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error


def _parse_json(body: bytes) -> dict[str, Any]:
    try:
        payload = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise UnreadableAlerts("not JSON") from error
    if not isinstance(payload, dict):
        raise UnreadableAlerts("not a JSON object")
    return payload
