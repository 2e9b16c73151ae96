"""The form that edits an action's arguments. Submitting voids all votes, and the editor may not approve the result."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bot.cards import blocks
from bot.cards.blocks import Block
from bot.cards.buttons import MALFORMED_PAYLOAD_ERRORS, BadForm, StaleCard, get_form_text, parse_form_target
from bot.cards.text import bold
from bot.remediation.cards import action_text
from bot.remediation.cards.approval_card import encode_action, list_editable_args
from tools.action import Action
from tools.ledger.record import ActionRecord
from tools.remedies import REMEDIES
from tools.remedies.remedy import ARGUMENT_KINDS

CALLBACK_ID = "edit_modal.submit"
FIELD_ID_PREFIX = "edit_modal.arg."
MAX_VALUE_CHARS = 256
MAX_PROBLEM_CHARS = 150


@dataclass(frozen=True, slots=True)
class ActionEdit:
    """The typed arguments, by name."""

    approval: str
    digest: str
    values: Mapping[str, str]


def render_edit_form(record: ActionRecord) -> Block:
    """Render a field per editable argument. Raise StaleCard if there is none."""
    action, names = record.action, list_editable_args(record.action)
    if not names:
        raise StaleCard
    fields = [_render_field(action, name, REMEDIES[action.remedy].args[name]) for name in names]
    warning = "Submitting replaces the card: all votes on it are void, and you cannot approve the new one yourself."
    description_block = blocks.section((action_text.summarize_action(record.action),), (bold(warning),))
    return blocks.modal(
        CALLBACK_ID, "Edit the action", [description_block, *fields], submit="Replace the card", metadata=encode_action(record)
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
    invalid = {
        name: ARGUMENT_KINDS[kinds[name]].says for name in names if not re.fullmatch(ARGUMENT_KINDS[kinds[name]].pattern, edit.values[name])
    }
    if invalid:
        raise BadForm({FIELD_ID_PREFIX + name: f"This must be {rule}." for name, rule in invalid.items()})
    if all(action.args.get(name) == edit.values[name] for name in names):
        raise BadForm({FIELD_ID_PREFIX + names[0]: "Nothing was changed."})
    return {**action.args, **edit.values}


def build_edit_error(action: Action, why: str) -> BadForm:
    """Put each error under the field that it names, else under the first."""
    names = list_editable_args(action)
    problems = {FIELD_ID_PREFIX + name: part for part in why.split("; ") for name in names if part.startswith((f"{name}=", f"{name}:"))}
    cut = {block: text[:MAX_PROBLEM_CHARS] for block, text in (problems or {FIELD_ID_PREFIX + names[0]: why}).items()}
    return BadForm(cut)


def _render_field(action: Action, name: str, kind: str) -> Block:
    value = action.args.get(name, "")
    initial = value if len(value) <= MAX_VALUE_CHARS else ""
    return blocks.input_block(
        FIELD_ID_PREFIX + name, name, blocks.text_input(initial=initial, most=MAX_VALUE_CHARS), hint=f"{ARGUMENT_KINDS[kind].says}"
    )
