"""What the forms about an action share: whose action it is, kept in the form itself and read back with the submission."""

import json
from collections.abc import Mapping
from typing import Any

from bot.cards.approvals.card import Stale
from tools.ledger.record import is_digest


def about(payload: Mapping[str, Any]) -> tuple[str, str]:
    """(approval, digest) that the form was opened for. Stale for a form that is not ours."""
    try:
        kept = json.loads(payload["view"]["private_metadata"])
        approval, digest = str(kept["approval"]), str(kept["digest"])
    except (KeyError, TypeError, ValueError) as wrong:
        raise Stale from wrong
    if not is_digest(digest):
        raise Stale
    return approval, digest


def written(payload: Mapping[str, Any], block: str) -> str:
    """What was written in a field."""
    try:
        return str(payload["view"]["state"]["values"][block][block].get("value") or "").strip()
    except (KeyError, TypeError, AttributeError) as wrong:
        raise Stale from wrong
