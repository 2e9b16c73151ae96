"""The menu of an incident (look again, close, assign, correct the cause), and the form that closes it with its true cause."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bot.cards import blocks
from bot.cards.blocks import Block
from bot.cards.buttons import MALFORMED_PAYLOAD_ERRORS, BadForm, ButtonClick, OldButton, encode_button_value
from graph.state import ABSTAIN, NO_FAULT
from kb.taxonomy.taxonomy import CATEGORIES
from tools.inventory.host_ranges import BadRange, expand_host_range, fold_host_names

# The form that closes an incident with its true root cause, which lessons are learnt from.

CLOSE_CALLBACK_ID = "close_modal.submit"
CLOSE_LABEL_BLOCK_ID = "close_modal.label"
CAUSE_BLOCK_ID = "close_modal.cause"
HOSTS_BLOCK_ID = "close_modal.hosts"
MAX_CAUSE_CHARS = 2000
MAX_HOSTS_CHARS = 500
LabelChoices = Mapping[str, Sequence[tuple[str, str]]]  # heading → (label, title) rows


@dataclass(frozen=True, slots=True)
class IncidentClosure:
    """The cause, as a person states it."""

    incident: str
    label: str
    root_cause: str
    hosts: tuple[str, ...] = ()


def build_label_choices(leaves: Iterable[tuple[str, str]]) -> LabelChoices:
    """Group (label, title) rows by category; add the two verdicts without a label."""
    grouped: dict[str, list[tuple[str, str]]] = {}
    for label, title in sorted(leaves):
        category = label.partition(".")[0]
        grouped.setdefault(CATEGORIES.get(category, category), []).append((label, title))
    return {**grouped, "None of these": [(NO_FAULT, "Nothing was broken"), (ABSTAIN, "Not known, or not in the list")]}


def render_close_form(closing: IncidentClosure, offered: LabelChoices) -> Block:
    hosts = fold_host_names(closing.hosts)
    return blocks.modal(
        CLOSE_CALLBACK_ID,
        "Close the incident",
        [
            blocks.input_block(CLOSE_LABEL_BLOCK_ID, "What was it?", blocks.select(offered, closing.label)),
            blocks.input_block(
                CAUSE_BLOCK_ID,
                "Root cause, in your words",
                blocks.text_input(initial=closing.root_cause[:MAX_CAUSE_CHARS], multiline=True, most=MAX_CAUSE_CHARS),
                hint="What broke, how you know, what fixed it. The next diagnosis learns from this.",
            ),
            blocks.input_block(
                HOSTS_BLOCK_ID,
                "Hosts",
                blocks.text_input(initial=hosts if len(hosts) <= MAX_HOSTS_CHARS else "", most=MAX_HOSTS_CHARS),
                hint="For example gpu-[017-018]. Leave empty if no host was at fault.",
                optional=True,
            ),
        ],
        submit="Close incident",
        metadata=json.dumps({"incident": closing.incident}),
    )


def parse_close_form(payload: Mapping[str, Any]) -> IncidentClosure:
    """Parse a submission. Raises BadForm, or OldButton for a malformed payload."""
    try:
        view = payload["view"]
        values = view["state"]["values"]
        incident = str(json.loads(view["private_metadata"])["incident"])
        label = str(((values[CLOSE_LABEL_BLOCK_ID][CLOSE_LABEL_BLOCK_ID]).get("selected_option") or {}).get("value", ""))
        cause, hosts = (str(values[block][block].get("value") or "").strip() for block in (CAUSE_BLOCK_ID, HOSTS_BLOCK_ID))
    except MALFORMED_PAYLOAD_ERRORS as error:
        raise OldButton from error
    return IncidentClosure(incident, label, cause, _validate_close_form(label, cause, hosts))


def _validate_close_form(label: str, cause: str, hosts: str) -> tuple[str, ...]:
    problems = {}
    if not label:
        problems[CLOSE_LABEL_BLOCK_ID] = "Choose what it was; “Not known” is an answer too."
    if not cause:
        problems[CAUSE_BLOCK_ID] = "Write at least what fixed it."
    names: list[str] = []
    try:
        names = expand_host_range(hosts)
    except BadRange as error:
        problems[HOSTS_BLOCK_ID] = f"{error}. Write for example gpu-[017-018]."
    if problems:
        raise BadForm(problems)
    return tuple(names)


# The menu of an incident: look again, close, assign, correct the cause.

MENU_ACTION_ID = "more.menu"
# Choice → text.
MENU_CHOICES: Mapping[str, str] = {
    "recheck": "Look again",
    "close_form": "Close…",
    "assign_form": "Assign…",
    "correct_form": "It was something else…",
}
FORM_CHOICES = frozenset({"assign_form", "correct_form"})  # this module renders their forms
ASSIGN_CALLBACK_ID = "more.assign"
PERSON_BLOCK_ID = "more.person"
CORRECT_CALLBACK_ID = "more.correct"
LABEL_BLOCK_ID = "more.label"
WORDS_BLOCK_ID = "more.words"
MAX_WORDS_CHARS = 600


@dataclass(frozen=True, slots=True)
class CauseCorrection:
    """The cause, as a person corrects it."""

    incident: str
    label: str
    words: str


def render_menu(incident: str) -> Block:
    return blocks.overflow(
        MENU_ACTION_ID, [(json.dumps([choice, incident], separators=(",", ":")), words) for choice, words in MENU_CHOICES.items()]
    )


def parse_menu_choice(payload: Mapping[str, Any]) -> ButtonClick:
    """Parse a menu choice. Raises OldButton."""
    try:
        action = payload["actions"][0]
        choice, incident = json.loads(action["selected_option"]["value"])
        if action["action_id"] != MENU_ACTION_ID or choice not in MENU_CHOICES:
            raise OldButton
        return ButtonClick(choice, str(incident))
    except MALFORMED_PAYLOAD_ERRORS as error:
        raise OldButton from error


def render_assign_form(incident: str, owner: str = "") -> Block:
    field = blocks.input_block(
        PERSON_BLOCK_ID, "Who is on it?", blocks.select_person(owner), hint="Posted in the thread. I don't ping people."
    )
    return blocks.modal(ASSIGN_CALLBACK_ID, "Assign the incident", [field], submit="Assign", metadata=encode_button_value(incident))


def parse_assign_form(payload: Mapping[str, Any]) -> tuple[str, str]:
    """Return (incident, user id). Raises BadForm, OldButton."""
    incident, values = _parse_form_values(payload)
    try:
        person = str(values[PERSON_BLOCK_ID][PERSON_BLOCK_ID].get("selected_user") or "")
    except MALFORMED_PAYLOAD_ERRORS as error:
        raise OldButton from error
    if not person:
        raise BadForm({PERSON_BLOCK_ID: "Choose a person."})
    return incident, person


def render_correction_form(incident: str, offered: LabelChoices, believed: str = "") -> Block:
    return blocks.modal(
        CORRECT_CALLBACK_ID,
        "It was something else",
        [
            blocks.input_block(LABEL_BLOCK_ID, "What was it?", blocks.select(offered, believed)),
            blocks.input_block(
                WORDS_BLOCK_ID,
                "How do you know?",
                blocks.text_input(multiline=True, most=MAX_WORDS_CHARS),
                hint="Recorded with your name. Approvals for the old cause are withdrawn. Nothing is re-checked or closed.",
                optional=True,
            ),
        ],
        submit="Note it",
        metadata=encode_button_value(incident),
    )


def parse_correction_form(payload: Mapping[str, Any]) -> CauseCorrection:
    """Parse a submission. Raises BadForm, OldButton."""
    incident, values = _parse_form_values(payload)
    try:
        label = str((values[LABEL_BLOCK_ID][LABEL_BLOCK_ID].get("selected_option") or {}).get("value", ""))
        words = str(values[WORDS_BLOCK_ID][WORDS_BLOCK_ID].get("value") or "").strip()[:MAX_WORDS_CHARS]
    except MALFORMED_PAYLOAD_ERRORS as error:
        raise OldButton from error
    if not label:
        raise BadForm({LABEL_BLOCK_ID: "Choose what it was; “Not known” is an answer too."})
    return CauseCorrection(incident, label, words)


def _parse_form_values(payload: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    try:
        view = payload["view"]
        return str(json.loads(view["private_metadata"])["incident"]), view["state"]["values"]
    except MALFORMED_PAYLOAD_ERRORS as error:
        raise OldButton from error
