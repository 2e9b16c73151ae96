"""Other arguments for the same remedy on the same host. Submitting voids all votes, and whoever edits may not approve the result."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bot.cards import blocks
from bot.cards.approvals import words
from bot.cards.approvals.card import carry, editable
from bot.cards.blocks import Block
from bot.cards.buttons import MALFORMED, BadForm, Stale, form_about, form_text
from bot.cards.text import bold
from tools.action import Action
from tools.ledger.record import Record
from tools.remedies import REMEDIES
from tools.remedies.row import KINDS

CALLBACK = "edit_modal.submit"
FIELD = "edit_modal.arg."
MOST_VALUE = 256
MOST_WRONG = 150


@dataclass(frozen=True, slots=True)
class Edit:
    """The arguments as they were typed, by name."""

    approval: str
    digest: str
    values: Mapping[str, str]


def render(record: Record) -> Block:
    """A field for each argument that may be changed, filled with what the card shows. Stale where there is none."""
    action, names = record.action, editable(record.action)
    if not names:
        raise Stale
    fields = [_field(action, name, REMEDIES[action.remedy].args[name]) for name in names]
    warning = "Submitting replaces the card: all votes on it are void, and you cannot approve the new one yourself."
    told = blocks.section((words.what(record.action),), (bold(warning),))
    return blocks.modal(CALLBACK, "Edit the action", [told, *fields], submit="Replace the card", metadata=carry(record))


def read(payload: Mapping[str, Any]) -> Edit:
    """A submission, as typed."""
    approval, digest = form_about(payload)
    try:
        fields = [block["block_id"] for block in payload["view"]["blocks"] if block.get("type") == "input"]
    except MALFORMED as wrong:
        raise Stale from wrong
    return Edit(approval, digest, {name.removeprefix(FIELD): form_text(payload, name) for name in fields if name.startswith(FIELD)})


def check(edit: Edit, action: Action) -> dict[str, str]:
    """All arguments of the action after the edit. BadForm says under each field what it must be."""
    names = editable(action)
    if set(edit.values) != set(names):
        raise Stale
    kinds = REMEDIES[action.remedy].args
    wrong = {name: KINDS[kinds[name]].says for name in names if not re.fullmatch(KINDS[kinds[name]].pattern, edit.values[name])}
    if wrong:
        raise BadForm({FIELD + name: f"This must be {says}." for name, says in wrong.items()})
    if all(action.args.get(name) == edit.values[name] for name in names):
        raise BadForm({FIELD + names[0]: "Nothing was changed."})
    return {**action.args, **edit.values}


def refused(action: Action, why: str) -> BadForm:
    """What the catalogue or the host had against the values, under the field that it names, else under the first."""
    names = editable(action)
    problems = {FIELD + name: part for part in why.split("; ") for name in names if part.startswith((f"{name}=", f"{name}:"))}
    cut = {block: text[:MOST_WRONG] for block, text in (problems or {FIELD + names[0]: why}).items()}
    return BadForm(cut)


def _field(action: Action, name: str, kind: str) -> Block:
    value = action.args.get(name, "")
    initial = value if len(value) <= MOST_VALUE else ""
    return blocks.field_input(FIELD + name, name, blocks.text_input(initial=initial, most=MOST_VALUE), hint=f"{KINDS[kind].says}")
