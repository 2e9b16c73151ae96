"""What trackers send us when something moved, one row a product: how it is signed, and which ticket it is about. Pure.

Nothing of it is believed but that: how far the ticket is, is asked of the tracker itself.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from bot.inbound.signatures import borne, hex_signed
from bot.inbound.webhook import PREFIX, SIGNATURE, Unsigned, key_of, verified
from bot.trackers.wire import text_at

CHANGED: Final = "rackmedic.ticket.changed"
MOST_ID = 100
Judge = Callable[[Sequence[str], Mapping[str, str], bytes, datetime], bool]


class UnreadableHook(ValueError):
    """Signed, and no JSON. Told to who sent it, who is known."""


@dataclass(frozen=True, slots=True)
class HookRule:
    """A product's: whether one of the site's secrets signed it, in which header, the ids that tell whose ticket it is, and where that is written."""

    header: str
    signed: Judge
    about: Callable[[Any], Sequence[str]]
    source: str
    switched_on: str
    """Where there, in words for the docs."""


def tickets_of(rule: HookRule, body: bytes) -> Sequence[str]:
    """Ids of the tickets that a signed body is about, none where it is about something else. Raises UnreadableHook."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        raise UnreadableHook("send JSON: the content type application/json") from None
    return tuple(dict.fromkeys(id_ for id_ in rule.about(data) if 0 < len(id_) <= MOST_ID))


def _hex(header: str, prefix: str) -> Judge:
    def signed(secrets: Sequence[str], headers: Mapping[str, str], body: bytes, now: datetime) -> bool:
        return hex_signed([secret.encode() for secret in secrets], headers.get(header, ""), prefix, body)

    return signed


def _standard(secrets: Sequence[str], headers: Mapping[str, str], body: bytes, now: datetime) -> bool:
    try:
        verified([key_of(secret) for secret in secrets if secret.startswith(PREFIX)], headers, body, now)
    except Unsigned:
        return False
    return True


def _standard_or_token(secrets: Sequence[str], headers: Mapping[str, str], body: bytes, now: datetime) -> bool:
    """A key that signs is no token: whoever saw one request could send it again as such."""
    if headers.get(SIGNATURE):
        return _standard(secrets, headers, body, now)
    return borne([secret.encode() for secret in secrets if not secret.startswith(PREFIX)], headers.get("Authorization", ""))


def _jira(data: Any) -> Sequence[str]:
    return (text_at(data, "issue", "id"),)


def _github(data: Any) -> Sequence[str]:
    return (text_at(data, "issue", "number"),)


def _pagerduty(data: Any) -> Sequence[str]:
    """An incident by our key and by its id; of a note or a responder only the incident's id is told."""
    ways = ("incident_key",), ("id",), ("incident", "id")
    return tuple(text_at(data, "event", "data", *way) for way in ways)


def _servicenow(data: Any) -> Sequence[str]:
    return (text_at(data, "sys_id"),)


def _webhook(data: Any) -> Sequence[str]:
    return (text_at(data, "data", "id"),) if text_at(data, "type") == CHANGED else ()


HOOKS: Final[Mapping[str, HookRule]] = {
    "jira": HookRule(
        "X-Hub-Signature: sha256=…",
        _hex("X-Hub-Signature", "sha256="),
        _jira,
        "https://developer.atlassian.com/cloud/jira/platform/webhooks/#secure-admin-webhooks",
        "Settings → System → WebHooks, with a secret; events *Issue: updated* and *Comment: created*",
    ),
    "servicenow": HookRule(
        "Authorization: Bearer …, or webhook-signature",
        _standard_or_token,
        _servicenow,
        "https://www.servicenow.com/docs/bundle/xanadu-api-reference/page/integrate/outbound-rest/concept/c_OutboundRESTWebService.html",
        "an outbound REST message (below), for ServiceNow signs nothing by itself",
    ),
    "pagerduty": HookRule(
        "X-PagerDuty-Signature: v1=…,v1=…",
        _hex("X-PagerDuty-Signature", "v1="),
        _pagerduty,
        "https://github.com/PagerDuty/developer-docs/blob/main/docs/webhooks/04-Signatures.md",
        "Integrations → Generic Webhooks (v3), scope type *Service*, all events of incidents; the secret is shown once",
    ),
    "github": HookRule(
        "X-Hub-Signature-256: sha256=…",
        _hex("X-Hub-Signature-256", "sha256="),
        _github,
        "https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries",
        "the repository's Settings → Webhooks, content type application/json, with a secret; events *Issues* and *Issue comments*",
    ),
    "webhook": HookRule(
        "webhook-signature: v1,…",
        _standard,
        _webhook,
        "https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md",
        f'`{CHANGED}` with `{{"id": …}}` as its data, signed with the key of `hook`',
    ),
}
