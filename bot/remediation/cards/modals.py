"""Dialogs of an approval card: all actions in full, the reject form, and the form that edits an action's arguments.

The reason of a rejection is required for the next diagnosis and the audit log. Submitting an edit voids all votes, and the
editor may not approve the result.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bot.cards import blocks
from bot.cards.blocks import Block, TooLong
from bot.cards.buttons import MALFORMED_PAYLOAD_ERRORS, BadForm, StaleCard, get_form_text, parse_form_target
from bot.cards.text import Line, bold, exact_code, italic
from bot.remediation.cards import action_text, approval_card, card_parts, side_effects
from bot.remediation.cards.approval_card import encode_action, list_editable_args
from bot.remediation.cards.side_effects import KnownRows
from tools.action import Action
from tools.ledger.record import ActionRecord
from tools.remedies import REMEDIES
from tools.remedies.remedy import ARGUMENT_KINDS

MAX_DETAIL_CHARS = 260
MAX_PAGE_CHARS = 2600
NO_KNOWN_ROWS: Mapping[str, KnownRows] = {}
REJECT_CALLBACK_ID = "reject_modal.submit"
REASON_BLOCK_ID = "reject_modal.reason"
MAX_REASON_CHARS = 400
EDIT_CALLBACK_ID = "edit_modal.submit"
FIELD_ID_PREFIX = "edit_modal.arg."
MAX_VALUE_CHARS = 256
MAX_PROBLEM_CHARS = 150


def render_all_actions(records: Sequence[ActionRecord], known_rows: Mapping[str, KnownRows] = NO_KNOWN_ROWS) -> Block:
    """Render the dialog that shows actions in full. `known_rows` are the stored rows of each approval id.

    It has no buttons: decisions stay on the card, where Slack confirms them.
    """
    head = blocks.section((bold(action_text.describe_actions([record.action for record in records])),))
    note = blocks.context(("Approve and reject on the card. This shows how it stood when it was opened.",))
    title = f"All {len(records)} actions" if len(records) > 1 else "The whole action"
    action_blocks: list[Block] = []
    for record in records:
        action_blocks += [_render_action(record), *_render_files(known_rows.get(record.approval, ()))]
    return blocks.read_only_modal(title, [head, *action_blocks, note])


def _render_files(known_rows: KnownRows) -> list[Block]:
    """Render all deleted files, as many per block as fit."""
    pages: list[list[str]] = []
    page_chars = 0
    for line in side_effects.list_all_files(known_rows):
        page_chars += len(line) + 1
        if not pages or page_chars > MAX_PAGE_CHARS:
            pages.append([])
            page_chars = len(line) + 1
        pages[-1].append(line)
    return [blocks.code_section(page, width=MAX_PAGE_CHARS) for page in pages]


def _render_action(record: ActionRecord) -> Block:
    action = record.action
    mark, state = action_text.get_state_word(record)
    conditions = [action_text.describe_fault_condition(action), *(condition.says for condition in action.conditions)]
    lines_above: list[Line] = [(f"{mark} ", *action_text.render_place(action), " · ", bold(state)), ("digest ", exact_code(action.digest))]
    lines_below: list[Line] = [
        (card_parts.format_approval_count(record), f" · {action.risk} · time limit {action.limit_seconds} s · {action.approval}"),
        *((f"• {condition}",) for condition in conditions if condition),
        (italic(f"boot {action.boot_id or '–'}"),),
    ]
    try:
        return blocks.exact_command_section(lines_above, approval_card.format_command(action), lines_below, MAX_DETAIL_CHARS)
    except TooLong as error:
        return blocks.section((bold("Too large to show whole"), f": {action.approval}, {error}"))


@dataclass(frozen=True, slots=True)
class Rejection:
    approval: str
    digest: str
    reason: str


def render_reject_form(record: ActionRecord) -> Block:
    reason = blocks.input_block(
        REASON_BLOCK_ID,
        "Why not?",
        blocks.text_input(multiline=True, max_chars=MAX_REASON_CHARS),
        hint="One sentence is enough. It is kept in the audit log and shown on the card.",
    )
    return blocks.modal(
        REJECT_CALLBACK_ID,
        "Reject the action",
        [blocks.section((action_text.summarize_action(record.action),)), reason],
        submit="Reject",
        metadata=encode_action(record),
    )


def parse_reject_form(payload: Mapping[str, Any]) -> Rejection:
    """Parse the form. Raise BadForm if it gives no reason."""
    approval, digest = parse_form_target(payload)
    reason = get_form_text(payload, REASON_BLOCK_ID)
    if not reason:
        raise BadForm({REASON_BLOCK_ID: "Say why, in one sentence."})
    return Rejection(approval, digest, reason[:MAX_REASON_CHARS])


@dataclass(frozen=True, slots=True)
class ActionEdit:
    """The arguments that a person typed, by name."""

    approval: str
    digest: str
    values: Mapping[str, str]


def render_edit_form(record: ActionRecord) -> Block:
    """Render a field for each argument that may be edited. Raise StaleCard if there is none."""
    action, names = record.action, list_editable_args(record.action)
    if not names:
        raise StaleCard
    fields = [_render_field(action, name, REMEDIES[action.remedy].args[name]) for name in names]
    warning = "Submitting replaces the card: all votes on it are void, and you cannot approve the new one yourself."
    description_block = blocks.section((action_text.summarize_action(record.action),), (bold(warning),))
    return blocks.modal(
        EDIT_CALLBACK_ID, "Edit the action", [description_block, *fields], submit="Replace the card", metadata=encode_action(record)
    )


def parse_edit_form(payload: Mapping[str, Any]) -> ActionEdit:
    approval, digest = parse_form_target(payload)
    try:
        fields = [block["block_id"] for block in payload["view"]["blocks"] if block.get("type") == "input"]
    except MALFORMED_PAYLOAD_ERRORS as error:
        raise StaleCard from error
    return ActionEdit(
        approval,
        digest,
        {name.removeprefix(FIELD_ID_PREFIX): get_form_text(payload, name) for name in fields if name.startswith(FIELD_ID_PREFIX)},
    )


def validate_edit(edit: ActionEdit, action: Action) -> dict[str, str]:
    """Return all arguments after the edit. Raise BadForm with an error for each wrong field."""
    names = list_editable_args(action)
    if set(edit.values) != set(names):
        raise StaleCard
    kinds = REMEDIES[action.remedy].args
    problems: dict[str, str] = {}
    for name in names:
        kind = ARGUMENT_KINDS[kinds[name]]
        if not re.fullmatch(kind.pattern, edit.values[name]):
            problems[FIELD_ID_PREFIX + name] = f"This must be {kind.says}."
    if problems:
        raise BadForm(problems)
    if all(action.args.get(name) == edit.values[name] for name in names):
        raise BadForm({FIELD_ID_PREFIX + names[0]: "Nothing was changed."})
    return {**action.args, **edit.values}


def build_edit_error(action: Action, reason: str) -> BadForm:
    """Return the error for the form. Each part of the reason is shown at the field that it names, or else at the first."""
    names = list_editable_args(action)
    problems: dict[str, str] = {}
    for problem in reason.split("; "):
        for name in names:
            if problem.startswith((f"{name}=", f"{name}:")):
                problems[FIELD_ID_PREFIX + name] = problem[:MAX_PROBLEM_CHARS]
    return BadForm(problems or {FIELD_ID_PREFIX + names[0]: reason[:MAX_PROBLEM_CHARS]})


def _render_field(action: Action, name: str, kind: str) -> Block:
    value = action.args.get(name, "")
    initial = value if len(value) <= MAX_VALUE_CHARS else ""
    return blocks.input_block(
        FIELD_ID_PREFIX + name, name, blocks.text_input(initial=initial, max_chars=MAX_VALUE_CHARS), hint=f"{ARGUMENT_KINDS[kind].says}"
    )
