"""The approval card, from the ledger's record alone. Host, command and digest appear whole, or it cannot be approved.

A click carries the approval id and the digest. The ledger compares both, so an old or forged card changes nothing.
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from bot.cards import blocks
from bot.cards.blocks import Block, Card, TooLong
from bot.cards.buttons import MALFORMED_PAYLOAD_ERRORS, StaleCard
from bot.cards.text import Line, Part, bold, clip_text, count_utf16_units, escape_ambiguous, exact_code, strip_markup
from bot.remediation.cards import action_text, card_parts, side_effects
from tools.action import Action
from tools.execution.conditions import ConditionResult
from tools.ledger.record import ActionRecord, is_digest
from tools.ledger.states import OPEN_STATES, State
from tools.remedies import REMEDIES

ClickAction = Literal["approve", "reject_form", "edit_form", "revoke", "ask_again", "ran", "not_ran", "approve_all", "show_all", "let_go"]
APPROVE_ACTION_ID = "approval.approve"
REJECT_ACTION_ID = "approval.reject"
EDIT_ACTION_ID = "approval.edit"
REVOKE_ACTION_ID = "approval.revoke"
ASK_AGAIN_ACTION_ID = "approval.ask_again"
RAN_ACTION_ID = "approval.ran"
NOT_RAN_ACTION_ID = "approval.not_ran"
APPROVE_ALL_ACTION_ID = "approval.approve_all"
SHOW_ALL_ACTION_ID = "approval.show_all"
BUTTONS: Mapping[str, ClickAction] = {
    APPROVE_ACTION_ID: "approve",
    REJECT_ACTION_ID: "reject_form",
    EDIT_ACTION_ID: "edit_form",
    REVOKE_ACTION_ID: "revoke",
    ASK_AGAIN_ACTION_ID: "ask_again",
    RAN_ACTION_ID: "ran",
    NOT_RAN_ACTION_ID: "not_ran",
    APPROVE_ALL_ACTION_ID: "approve_all",
    SHOW_ALL_ACTION_ID: "show_all",
    card_parts.LET_GO_ACTION_ID: "let_go",
}
# These buttons name every action that they affect.
MULTI_ACTION_BUTTON_IDS = frozenset({APPROVE_ALL_ACTION_ID, SHOW_ALL_ACTION_ID})
FIXED_ARGUMENT_KINDS = frozenset({"node", "approval"})  # Not editable: another host or approval is another action.
TOO_LARGE_TEXT = "Too large to approve"
MAX_CONFIRM_CHARS = 300
APPROVERS_ONLY = "For approvers only."
MAX_IMPACT_CHARS = 2600
MAX_ACTIONS_PER_BUTTON = 20  # With whole digests, this many fit into a button's value.


@dataclass(frozen=True, slots=True)
class CardClick:
    """A click on a card. `each` lists (approval, digest) of a button on several actions; the first is also outside."""

    does: ClickAction
    approval: str
    digest: str
    each: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ApprovalCardView:
    """A record and what its card shows besides."""

    record: ActionRecord
    group: str = ""  # Slack id of the approver group, mentioned while a decision is open.
    names: Mapping[str, str] = field(default_factory=dict)  # `TEAM:USER` → display name
    seen: Sequence[ConditionResult] = ()  # Dry run of the conditions.
    seen_at: datetime | None = None
    began: datetime | None = None
    held: str = ""  # Why an approved action waits, or that the host does not answer.
    tail: Sequence[str] = ()  # Last lines of the output.
    warning: str = ""  # Shown on every card, e.g. that the ledger's store may lose data.
    queued: card_parts.QueuedHosts | None = None  # Hosts that wait behind this card.
    known: side_effects.KnownRows = ()  # The process that it ends, the files that it deletes, and the like.


def render_approval_card(view: ApprovalCardView) -> Card:
    record = view.record
    try:
        core = _render_core(record, view.group)
        proof, identity = card_parts.render_small_print(record, view.seen, view.seen_at), card_parts.render_identity(record)
    except TooLong as error:
        return _render_too_large(view, str(error))
    card = blocks.build_card(
        action_text.format_headline(record, view.held),
        [
            blocks.header(_format_headline(record, view.held)),
            *card_parts.render_queue(view.queued, 1, encode_action(record)),
            *core,
            *_render_impact(view),
            *card_parts.render_warning(view.warning),
            *card_parts.render_status(record, view.names, view.began, view.held),
            *card_parts.render_output(view.tail),
            *card_parts.render_conditions(record, view.seen),
            *card_parts.render_requesters(record, view.names),
            *card_parts.render_votes(record, view.names),
            proof,
            *_render_all_buttons(view),
            identity,
        ],
    )
    return (
        card
        if all(block in card.blocks for block in (*core, proof, identity))
        else _render_too_large(view, "its parts together are longer than a message may be")
    )


def parse_card_click(payload: Mapping[str, Any]) -> CardClick:
    """Parse a click. Raise StaleCard for an unknown button or value."""
    try:
        action = payload["actions"][0]
        choice, carried = BUTTONS[action["action_id"]], json.loads(action["value"])
        rows = carried["each"] if action["action_id"] in MULTI_ACTION_BUTTON_IDS else [[carried["approval"], carried["digest"]]]
        each = tuple(dict.fromkeys((str(approval), str(digest)) for approval, digest in rows))
        approval, digest = each[0]
    except MALFORMED_PAYLOAD_ERRORS as error:
        raise StaleCard from error
    if len(each) > MAX_ACTIONS_PER_BUTTON or not all(is_digest(digest) for _, digest in each):
        raise StaleCard
    return CardClick(choice, approval, digest, each if action["action_id"] in MULTI_ACTION_BUTTON_IDS else ())


def encode_action(record: ActionRecord) -> str:
    """Return a button's value; modals keep it too."""
    return json.dumps({"approval": record.approval, "digest": record.digest}, separators=(",", ":"))


def encode_actions(records: Sequence[ActionRecord]) -> str:
    """Return the value of a button on several actions, with whole digests."""
    return json.dumps({"each": [[record.approval, record.digest] for record in records]}, separators=(",", ":"))


def list_editable_args(action: Action) -> tuple[str, ...]:
    remedy = REMEDIES.get(action.remedy)
    return tuple(name for name, kind in remedy.args.items() if kind not in FIXED_ARGUMENT_KINDS) if remedy else ()


def format_command(action: Action) -> str:
    """Return the command as typed in a shell.

    A script is shown as its lines, between its arguments and its shell: every word appears, none quoted twice.
    """
    if action.command[:2] == ("sh", "-c") and len(action.command) > 3:
        script, name, *arguments = action.command[2:]
        end = "\n" if "\n" in script else "; "
        return f"{' '.join(['set --', *map(shlex.quote, arguments)])}{end}{script} # sh -c, $0={shlex.quote(name)}"
    return shlex.join(action.command)


def _format_headline(record: ActionRecord, held: str = "") -> str:
    """Return the headline; if it does not fit, only the remedy: a cut host name would be another host."""
    line = action_text.format_short_headline(record, held)
    if count_utf16_units(strip_markup(line)) <= blocks.MAX_HEADER_CHARS:
        return line
    mark, begins = action_text.get_state_headline(record, held)
    return f"{mark} {begins} {action_text.get_action_title(record.action)}"


def _render_core(record: ActionRecord, group: str) -> list[Block]:
    """Render who decides, where and what, without cutting a character."""
    action, request_blocks = record.action, card_parts.render_decision_request(record, group)
    place_line: Line = (
        bold("On"),
        " ",
        *action_text.render_place(action),
        " · ",
        bold(escape_ambiguous(action.risk)),
        f": {action_text.describe_blast_radius(action)}",
    )
    return [
        blocks.exact_section(*([request_blocks] if request_blocks else []), place_line),
        blocks.exact_code_section(format_command(action)),
    ]


def _render_impact(view: ApprovalCardView) -> list[Block]:
    """Render outage, cost of waiting and affected objects, while the action can be stopped."""
    lines = [
        *action_text.render_impact(view.record),
        *(side_effects.render_known_lines(view.record.action, view.known) if view.record.state in OPEN_STATES else []),
    ]
    return [blocks.clipped_section(*lines, room=MAX_IMPACT_CHARS)] if lines else []


def _render_all_buttons(view: ApprovalCardView) -> list[Block]:
    """Add a button for all files if the card hides some."""
    rows, record = render_buttons(view.record), view.record
    if record.state not in OPEN_STATES or not side_effects.has_hidden_files(view.known):
        return rows
    show = blocks.button("Show all", SHOW_ALL_ACTION_ID, encode_actions([record]))
    return [*rows[:-1], blocks.actions(*(rows[-1]["elements"] if rows else ()), show)]


def _render_too_large(view: ApprovalCardView, why: str) -> Card:
    """Render a card without approval: what cannot be read whole must not be approved."""
    record = view.record
    head = f"🚫 {TOO_LARGE_TEXT}, so it cannot run"
    mark, begins = action_text.get_state_headline(record)
    reject = [blocks.actions(_render_reject_button(record))] if record.state is State.PENDING else []
    return blocks.build_card(
        head,
        [
            blocks.header(head),
            blocks.section(
                (
                    f"{mark} {begins} ",
                    bold(action_text.get_action_title(record.action)),
                    " on ",
                    bold(escape_ambiguous(action_text.format_targets(record.action))[:200]),
                ),
                ("The card must show host, command and digest in full, and they do not fit: ", why, "."),
                ("Nothing runs. Do it by hand, or with fewer hosts at once. The audit log has the whole action.",),
            ),
            *card_parts.render_status(record, view.names, view.began, view.held),
            blocks.exact_context(("digest ", exact_code(record.digest))),
            *reject,
        ],
    )


def render_buttons(record: ActionRecord) -> list[Block]:
    value = encode_action(record)
    match record.state:
        case State.PENDING if record.terms.approvers:
            edit = [blocks.button("Edit…", EDIT_ACTION_ID, value)] if list_editable_args(record.action) else []
            approve = blocks.button("Approve", APPROVE_ACTION_ID, value, style="primary", ask=_render_approve_dialog(record.action))
            return [blocks.actions(approve, _render_reject_button(record), *edit)]
        case State.APPROVED:
            sure = blocks.confirm("Revoke the approval?", "It has not started and will not run. RackMedic may propose it again.", "Revoke")
            return [blocks.actions(blocks.button("Revoke", REVOKE_ACTION_ID, value, style="danger", ask=sure))]
        case State.EXPIRED:
            return [blocks.actions(blocks.button("Ask again", ASK_AGAIN_ACTION_ID, value))]
        case State.UNKNOWN:
            return [
                blocks.actions(
                    _render_outcome_button(record, "It ran", RAN_ACTION_ID, True),
                    _render_outcome_button(record, "It did not run", NOT_RAN_ACTION_ID, False),
                )
            ]
        case _:
            return []


def count_button_chars(action: Action) -> int:
    """Return the total length of button and dialog texts, in the state that has most."""
    deciding = blocks.count_text_chars(_render_approve_dialog(action)) + len("ApproveReject…Edit…")
    vouching = sum(
        blocks.count_text_chars(_render_outcome_dialog(action, label, did_run)) + len(label)
        for label, did_run in (("It ran", True), ("It did not run", False))
    )
    return max(deciding, vouching, 200)


def _render_reject_button(record: ActionRecord) -> Block:
    return blocks.button("Reject…", REJECT_ACTION_ID, encode_action(record), style="danger")


def _render_approve_dialog(action: Action) -> Block:
    """Render Slack's confirmation, with host and command whole if they fit."""
    host = escape_ambiguous(action_text.format_targets(action))
    via = f", via {escape_ambiguous(action.via)}" if action.via != action.target else ""
    command = format_command(action)
    dialog_text = f"On {host}{via}: {escape_ambiguous(command)}"
    if count_utf16_units(strip_markup(dialog_text)) > MAX_CONFIRM_CHARS:
        dialog_text = f"On {host}{via}. The card shows the whole command ({len(command):,} characters): read it there first."
    if count_utf16_units(strip_markup(dialog_text)) > MAX_CONFIRM_CHARS:
        dialog_text = f"The card shows the hosts and the whole command ({len(command):,} characters): read them there first."
    dialog_text = (
        dialog_text
        if count_utf16_units(strip_markup(f"{APPROVERS_ONLY} {dialog_text}")) > MAX_CONFIRM_CHARS
        else f"{APPROVERS_ONLY} {dialog_text}"
    )
    return blocks.confirm(clip_text(f"{action_text.describe_action(action)}?", 100), dialog_text, "Run it once", "Not now")


def _render_outcome_button(record: ActionRecord, label: str, action_id: str, ran: bool) -> Block:
    return blocks.button(label, action_id, encode_action(record), ask=_render_outcome_dialog(record.action, label, ran))


def _render_outcome_dialog(action: Action, label: str, ran: bool) -> Block:
    outcome: Part = "ran" if ran else "did not run"
    host = escape_ambiguous(action_text.format_targets(action))
    text = f"You checked {host if len(host) < 150 else 'the host'} and confirm that it {outcome}. This is audited and unlocks the target."
    return blocks.confirm("Did you check the host?", text, label)
