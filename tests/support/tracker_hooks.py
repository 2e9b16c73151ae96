"""What each tracker sends when something moved, signed as its vendor writes it; made here anew, not with the product's own functions."""

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from tests.support.trackers import KEY

HOOK = dict.fromkeys(("jira", "servicenow", "pagerduty", "github"), "a-secret-of-thirty-characters.") | {"webhook": KEY}


def payload(kind: str, ticket: Mapping[str, Any]) -> Any:
    """About a ticket of the stand-in. How far it is stands in it as a lie, where the vendor tells it at all."""
    rows: Mapping[str, Any] = {
        "jira": {
            "webhookEvent": "jira:issue_updated",
            "issue": {"id": ticket["id"], "key": "OPS-1", "fields": {"status": {"name": "Lies"}}},
        },
        "servicenow": {"sys_id": ticket["id"], "state": "Lies"},
        "pagerduty": {
            "event": {
                "event_type": "incident.acknowledged",
                "data": {"id": "P7" if ticket.get("title") else "P9", "type": "incident", "incident_key": ticket["id"], "status": "Lies"},
            }
        },
        "github": {
            "action": "closed",
            "issue": {"number": int(ticket["id"]) if str(ticket["id"]).isdigit() else 0, "state": "Lies"},
            "repository": {"full_name": "acme/ops"},
        },
        "webhook": {"type": "rackmedic.ticket.changed", "data": {"id": ticket["id"], "state": "Lies", "done": True}},
    }
    return rows[kind]


def hex_of(secret: str, body: bytes) -> str:
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def headers_of(kind: str, body: bytes, at: datetime, secret: str = "") -> dict[str, str]:
    """The headers that make it theirs."""
    secret = secret or HOOK[kind]
    if kind == "servicenow":
        return {"Authorization": f"Bearer {secret}"}
    if kind == "webhook":
        id_, stamp = "msg_0123456789", str(int(at.timestamp()))
        made = hmac.new(base64.b64decode(secret.removeprefix("whsec_")), f"{id_}.{stamp}.".encode() + body, hashlib.sha256).digest()
        return {"webhook-id": id_, "webhook-timestamp": stamp, "webhook-signature": f"v1,{base64.b64encode(made).decode()}"}
    name, prefix = {
        "jira": ("X-Hub-Signature", "sha256="),
        "github": ("X-Hub-Signature-256", "sha256="),
        "pagerduty": ("X-PagerDuty-Signature", "v1="),
    }[kind]
    return {name: prefix + hex_of(secret, body)}


def hooked(kind: str, ticket: Mapping[str, Any], at: datetime) -> tuple[bytes, dict[str, str]]:
    """A whole message of theirs."""
    body = json.dumps(payload(kind, ticket)).encode()
    return body, headers_of(kind, body, at)
