"""The promises of a soak, judged from what was observed. No I/O."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bot.remediation.cards import action_text
from bot.remediation.cards import approval_card as approval
from tools.ledger.record import ActionRecord
from tools.ledger.states import State

# the state in which a button is valid
LIVE = {
    approval.APPROVE_ACTION_ID: State.PENDING,
    approval.REJECT_ACTION_ID: State.PENDING,
    approval.EDIT_ACTION_ID: State.PENDING,
    approval.APPROVE_ALL_ACTION_ID: State.PENDING,
    approval.REVOKE_ACTION_ID: State.APPROVED,
    approval.RAN_ACTION_ID: State.UNKNOWN,
    approval.NOT_RAN_ACTION_ID: State.UNKNOWN,
}
LOOKING = "Looking at the hosts"
CALLED = ("rackmedic_approval", "card")


@dataclass(frozen=True, slots=True)
class Thread:
    """One incident at the end: its messages and ledger records."""

    number: int
    incident: str
    messages: Sequence[Mapping[str, Any]]
    records: Sequence[ActionRecord]
    batches: Mapping[str, Sequence[str]] = field(default_factory=dict)  # approvals on each card, by the card's approval
    ended: bool = True


@dataclass(frozen=True, slots=True)
class Seen:
    """Everything observed. `executions`: runs by (host, remedy, digest)."""

    threads: Sequence[Thread]
    executions: Mapping[tuple[str, str, str], int]
    leases: Collection[str] = ()
    waiting: Collection[str] = ()  # inboxes that still hold items
    set_aside: int = 0
    still_open: Collection[str] = ()
    # exit codes of processes that the soak did not kill
    ended_by_themselves: Mapping[str, Sequence[int]] = field(default_factory=dict)
    unsafe: int = 0


def broken(seen: Seen) -> list[str]:
    """Return every broken promise in words."""
    return [
        *(f"incident {one.number} ({one.incident or 'none'}) did not end" for one in seen.threads if not one.ended),
        *(f"incident {one.number} was lost: nobody keeps it" for one in seen.threads if not one.incident),
        *(f"ran {times} times: {remedy} on {host}" for (host, remedy, _), times in seen.executions.items() if times > 1),
        *(row for one in seen.threads for row in _records(one, seen.executions)),
        *(row for one in seen.threads for row in false_cards(one)),
        *(f"a lease is stuck: {name}" for name in sorted(seen.leases)),
        *(f"something waits still in {name}" for name in sorted(seen.waiting)),
        *([f"{seen.set_aside} items were set aside"] if seen.set_aside else []),
        *(f"{name} exited by itself: {list(how)}" for name, how in seen.ended_by_themselves.items() if how),
        *([f"{seen.unsafe} commands were refused as unsafe"] if seen.unsafe else []),
    ]


def _records(one: Thread, executions: Mapping[tuple[str, str, str], int]) -> list[str]:
    """Return actions still open at the end, and actions recorded as run that no host ran."""
    ran = {digest for _, _, digest in executions}
    names = f"{one.incident} {{0.approval}} {{0.action.remedy}}"
    going = (State.PENDING, State.APPROVED, State.EXECUTING, State.UNKNOWN)
    return [
        *(f"still {row.state}: {names.format(row)}" for row in one.records if row.state in going),
        *(
            f"done and never run: {names.format(row)}"
            for row in one.records
            if row.state is State.DONE and row.digest not in ran and row.terms.changes
        ),
    ]


def false_cards(one: Thread) -> list[str]:
    """Return cards with false text, and buttons for another state."""
    found, records = list[str](), {row.approval: row for row in one.records}
    for message in one.messages:
        shown = str(message.get("blocks", ""))
        if LOOKING in shown:
            found.append(f"{one.incident}: a message says that somebody looks")
        about = _about(message)
        rows = [records[name] for name in one.batches.get(about, (about,)) if name in records] if about else []
        found += [f"{one.incident}: {why}" for why in _untrue(message, rows)] if rows else []
    return found


def _about(message: Mapping[str, Any]) -> str:
    metadata = message.get("metadata") or {}
    payload = metadata.get("event_payload") or {}
    return str(payload["approval"]) if (metadata.get("event_type"), payload.get("what")) == CALLED else ""


def _untrue(message: Mapping[str, Any], rows: Sequence[ActionRecord]) -> list[str]:
    states, shown = {row.state for row in rows}, str(message.get("blocks", ""))
    buttons = {e["action_id"] for block in message.get("blocks", ()) if block["type"] == "actions" for e in block["elements"]}
    dead = [f"a button is live that is for {LIVE[name]}: {name}" for name in sorted(buttons & LIVE.keys()) if LIVE[name] not in states]
    if len(rows) == 1:
        begins = action_text.get_state_headline(rows[0])[1]
        return dead + (
            [] if begins in message.get("text", "") else [f"{rows[0].approval} is {begins!r}, its card {message.get('text', '')!r}"]
        )
    wrong = [row for row in rows if action_text.get_state_word(row)[1] not in shown]
    return dead + [f"{row.approval} stands {action_text.get_state_word(row)[1]!r}, and not on its card" for row in wrong]
