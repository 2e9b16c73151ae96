"""The approval card: rendered by code from the ledger's record alone. Host, command and digest are whole, or the card cannot be approved.

What a click carries is the approval id and the digest; the ledger compares both again, so an old or forged card changes nothing.
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from bot.cards import blocks
from bot.cards.approvals import files, parts, process, waiting, words
from bot.cards.blocks import Block, Card, TooLong
from bot.cards.buttons import MALFORMED, Stale
from bot.cards.text import Line, Part, bold, clip, exact, exact_code, plain, size
from tools.acting.conditions import ConditionSeen
from tools.action import Action
from tools.ledger.record import Record, is_digest
from tools.ledger.states import OPEN, State
from tools.remedies import REMEDIES

Does = Literal["approve", "reject_form", "edit_form", "revoke", "ask_again", "ran", "not_ran", "approve_all", "show_all", "let_go"]
APPROVE, REJECT, EDIT, REVOKE = "approval.approve", "approval.reject", "approval.edit", "approval.revoke"
ASK_AGAIN, RAN, NOT_RAN = "approval.ask_again", "approval.ran", "approval.not_ran"
APPROVE_ALL, SHOW_ALL = "approval.approve_all", "approval.show_all"
BUTTONS: Mapping[str, Does] = {
    APPROVE: "approve",
    REJECT: "reject_form",
    EDIT: "edit_form",
    REVOKE: "revoke",
    ASK_AGAIN: "ask_again",
    RAN: "ran",
    NOT_RAN: "not_ran",
    APPROVE_ALL: "approve_all",
    SHOW_ALL: "show_all",
    waiting.LET_GO: "let_go",
}
OF_SEVERAL = frozenset({APPROVE_ALL, SHOW_ALL})
"""Buttons that name every action that they are about."""
NOT_EDITABLE = frozenset({"node", "approval"})
"""Kinds of arguments that say which host is changed or which approval it is: another host is another action, never an edit."""
TOO_LARGE = "Too large to approve"
CONFIRM = 300
APPROVERS_ONLY = "For approvers only."
KNOWN = 2600
MOST_EACH = 20
"""Actions that one button can name: with their digests whole they still fit into its value."""


@dataclass(frozen=True, slots=True)
class Click:
    """A click on a card. One about several actions names them all in `each`, as (approval, digest), and the first of them beside."""

    does: Does
    approval: str
    digest: str
    each: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Shown:
    """The record, and what the card shows beside it."""

    record: Record
    group: str = ""
    """The approver group's Slack id; it is mentioned while a decision is wanted."""
    names: Mapping[str, str] = field(default_factory=dict)
    """`TEAM:USER` → what people call them."""
    seen: Sequence[ConditionSeen] = ()
    """The dry run of the conditions."""
    seen_at: datetime | None = None
    began: datetime | None = None
    held: str = ""
    """Why an approved action waits."""
    tail: Sequence[str] = ()
    """The last lines of its output."""
    warning: str = ""
    """Said on every card, for example that the ledger's store may forget."""
    queued: waiting.Queued | None = None
    """What waits for its turn behind this card."""
    known: process.Rows = ()
    """What is known of the process that it ends, or of the files that it deletes."""


def render(shown: Shown) -> Card:
    """The card in its present state."""
    record = shown.record
    try:
        core = _core(record, shown.group)
        proof, identity = parts.small_print(record, shown.seen, shown.seen_at), parts.identity(record)
    except TooLong as why:
        return _too_large(shown, str(why))
    made = blocks.card(
        words.headline(record, shown.held),
        [
            blocks.header(_head(record, shown.held)),
            *waiting.render(shown.queued, 1, carry(record)),
            *core,
            *_impact(shown),
            *parts.warned(shown.warning),
            *parts.stands(record, shown.names, shown.began, shown.held),
            *parts.output(shown.tail),
            *parts.conditions(record, shown.seen),
            *parts.asked_for(record, shown.names),
            *parts.votes(record, shown.names),
            proof,
            *_all_buttons(shown),
            identity,
        ],
    )
    return (
        made
        if all(block in made.blocks for block in (*core, proof, identity))
        else _too_large(shown, "its parts together are longer than a message may be")
    )


def read(payload: Mapping[str, Any]) -> Click:
    """The inverse of what a click sends. Stale for whatever is no button of today's cards."""
    try:
        action = payload["actions"][0]
        does, carried = BUTTONS[action["action_id"]], json.loads(action["value"])
        rows = carried["each"] if action["action_id"] in OF_SEVERAL else [[carried["approval"], carried["digest"]]]
        each = tuple(dict.fromkeys((str(approval), str(digest)) for approval, digest in rows))
        approval, digest = each[0]
    except MALFORMED as wrong:
        raise Stale from wrong
    if len(each) > MOST_EACH or not all(is_digest(digest) for _, digest in each):
        raise Stale
    return Click(does, approval, digest, each if action["action_id"] in OF_SEVERAL else ())


def carry(record: Record) -> str:
    """The value of a button; also what a modal keeps."""
    return json.dumps({"approval": record.approval, "digest": record.digest}, separators=(",", ":"))


def carry_each(records: Sequence[Record]) -> str:
    """The value of a button about several actions: each with its digest, whole."""
    return json.dumps({"each": [[record.approval, record.digest] for record in records]}, separators=(",", ":"))


def editable(action: Action) -> tuple[str, ...]:
    """The arguments that somebody may change on the card."""
    remedy = REMEDIES.get(action.remedy)
    return tuple(name for name, kind in remedy.args.items() if kind not in NOT_EDITABLE) if remedy else ()


def command(action: Action) -> str:
    """Return the command as one would type it. A script is shown as its lines, with its arguments set before them and the shell that runs it
    after them: each word of the command stands there, none of them twice quoted."""
    if action.command[:2] == ("sh", "-c") and len(action.command) > 3:
        script, name, *arguments = action.command[2:]
        end = "\n" if "\n" in script else "; "
        return f"{' '.join(['set --', *map(shlex.quote, arguments)])}{end}{script} # sh -c, $0={shlex.quote(name)}"
    return shlex.join(action.command)


def _head(record: Record, held: str = "") -> str:
    """What is to decide or how it went; host and risk stand below it, whole. One that does not fit names the remedy only, for half a host
    name would be another host."""
    line = words.short_headline(record, held)
    if size(plain(line)) <= blocks.HEADER:
        return line
    mark, begins = words.state_of(record, held)
    return f"{mark} {begins} {words.title(record.action)}"


def _core(record: Record, group: str) -> list[Block]:
    """Who decides, where and what, not one character cut."""
    action, asked = record.action, parts.asked(record, group)
    where: Line = (bold("On"), " ", *words.place(action), " · ", bold(exact(action.risk)), f": {words.blast(action)}")
    return [blocks.whole(*([asked] if asked else []), where), blocks.verbatim(command(action))]


def _impact(shown: Shown) -> list[Block]:
    """What is unavailable for how long, what waiting costs, and what is hit; only as long as it can still be stopped."""
    lines = [*words.impact(shown.record), *(files.known_lines(shown.record.action, shown.known) if shown.record.state in OPEN else [])]
    return [blocks.short(*lines, room=KNOWN)] if lines else []


def _all_buttons(shown: Shown) -> list[Block]:
    """The buttons of the state, and one to read all files where the card does not show all of them."""
    rows, record = buttons(shown.record), shown.record
    if record.state not in OPEN or not files.has_more(shown.known):
        return rows
    show = blocks.button("Show all", SHOW_ALL, carry_each([record]))
    return [*rows[:-1], blocks.actions(*(rows[-1]["elements"] if rows else ()), show)]


def _too_large(shown: Shown, why: str) -> Card:
    """Nobody approves what cannot be read whole."""
    record = shown.record
    head = f"🚫 {TOO_LARGE}, so it cannot run"
    mark, begins = words.state_of(record)
    reject = [blocks.actions(_reject(record))] if record.state is State.PENDING else []
    return blocks.card(
        head,
        [
            blocks.header(head),
            blocks.section(
                (f"{mark} {begins} ", bold(words.title(record.action)), " on ", bold(exact(words.targets(record.action))[:200])),
                ("Host, command and digest must be readable whole on this card, and they do not fit: ", why, "."),
                ("Nothing runs. Do this one by hand, or with fewer hosts at once. The audit log holds the action whole.",),
            ),
            *parts.stands(record, shown.names, shown.began, shown.held),
            blocks.whole_context(("digest ", exact_code(record.digest))),
            *reject,
        ],
    )


def buttons(record: Record) -> list[Block]:
    """What can be done in this state; nothing where nothing can."""
    value = carry(record)
    match record.state:
        case State.PENDING if record.terms.approvers:
            edit = [blocks.button("Edit…", EDIT, value)] if editable(record.action) else []
            approve = blocks.button("Approve", APPROVE, value, style="primary", ask=_sure(record.action))
            return [blocks.actions(approve, _reject(record), *edit)]
        case State.APPROVED:
            sure = blocks.confirm("Take it back?", "It has not started. Nothing will run; RackMedic may propose it anew.", "Revoke")
            return [blocks.actions(blocks.button("Revoke", REVOKE, value, style="danger", ask=sure))]
        case State.EXPIRED:
            return [blocks.actions(blocks.button("Ask again", ASK_AGAIN, value))]
        case State.UNKNOWN:
            return [blocks.actions(_settles(record, "It ran", RAN, True), _settles(record, "It did not run", NOT_RAN, False))]
        case _:
            return []


def buttons_weight(action: Action) -> int:
    """The length of all texts of its buttons and their dialogs, in whichever state has most."""
    deciding = blocks.weight(_sure(action)) + len("ApproveReject…Edit…")
    vouching = sum(blocks.weight(_looked(action, label, ran)) + len(label) for label, ran in (("It ran", True), ("It did not run", False)))
    return max(deciding, vouching, 200)


def _reject(record: Record) -> Block:
    return blocks.button("Reject…", REJECT, carry(record), style="danger")


def _sure(action: Action) -> Block:
    """Slack's dialog before an approval: host and command once more, whole where they fit."""
    host = exact(words.targets(action))
    via = f", via {exact(action.via)}" if action.via != action.target else ""
    whole = command(action)
    told = f"On {host}{via}: {exact(whole)}"
    if size(plain(told)) > CONFIRM:
        told = f"On {host}{via}. The card shows the whole command ({len(whole):,} characters): read it there first."
    if size(plain(told)) > CONFIRM:
        told = f"The card shows the hosts and the whole command ({len(whole):,} characters): read them there first."
    told = told if size(plain(f"{APPROVERS_ONLY} {told}")) > CONFIRM else f"{APPROVERS_ONLY} {told}"
    return blocks.confirm(clip(f"{words.does(action)}?", 100), told, "Run it once", "Not now")


def _settles(record: Record, label: str, action_id: str, ran: bool) -> Block:
    return blocks.button(label, action_id, carry(record), ask=_looked(record.action, label, ran))


def _looked(action: Action, label: str, ran: bool) -> Block:
    told: Part = "ran" if ran else "did not run"
    host = exact(words.targets(action))
    text = f"You looked at {host if len(host) < 150 else 'the host'} and vouch that it {told}. This is audited and unlocks the target."
    return blocks.confirm("You have looked?", text, label)
