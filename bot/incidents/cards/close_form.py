"""The form that closes an incident with its true cause."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bot.cards import blocks
from bot.cards.blocks import Block
from bot.cards.buttons import MALFORMED_PAYLOAD_ERRORS, BadForm, OldButton
from graph.state import ABSTAIN, NO_FAULT
from kb.taxonomy.taxonomy import CATEGORIES
from tools.inventory.host_ranges import BadRange, expand_host_range, fold_host_names

CLOSE_CALLBACK_ID = "close_modal.submit"
CLOSE_LABEL_BLOCK_ID = "close_modal.label"
CAUSE_BLOCK_ID = "close_modal.cause"
HOSTS_BLOCK_ID = "close_modal.hosts"
MAX_CAUSE_CHARS = 2000
MAX_HOSTS_CHARS = 500
LabelChoices = Mapping[str, Sequence[tuple[str, str]]]  # heading → (label, title) rows


@dataclass(frozen=True, slots=True)
class IncidentClosure:
    """The true cause of an incident, as a person states it."""

    incident: str
    label: str
    root_cause: str
    hosts: tuple[str, ...] = ()


def build_label_choices(leaves: Iterable[tuple[str, str]]) -> LabelChoices:
    """Return the titles of causes by category. They end with the two answers that name no cause."""
    choices: dict[str, list[tuple[str, str]]] = {}
    for label, title in sorted(leaves):
        category = label.partition(".")[0]
        choices.setdefault(CATEGORIES.get(category, category), []).append((label, title))
    return {**choices, "None of these": [(NO_FAULT, "Nothing was broken"), (ABSTAIN, "Not known, or not in the list")]}


def render_close_form(closing: IncidentClosure, label_choices: LabelChoices) -> Block:
    hosts = fold_host_names(closing.hosts)
    return blocks.modal(
        CLOSE_CALLBACK_ID,
        "Close the incident",
        [
            blocks.input_block(CLOSE_LABEL_BLOCK_ID, "What was it?", blocks.select(label_choices, closing.label)),
            blocks.input_block(
                CAUSE_BLOCK_ID,
                "Root cause, in your words",
                blocks.text_input(initial=closing.root_cause[:MAX_CAUSE_CHARS], multiline=True, max_chars=MAX_CAUSE_CHARS),
                hint="What broke, how you know, what fixed it. The next diagnosis learns from this.",
            ),
            blocks.input_block(
                HOSTS_BLOCK_ID,
                "Hosts",
                blocks.text_input(initial=hosts if len(hosts) <= MAX_HOSTS_CHARS else "", max_chars=MAX_HOSTS_CHARS),
                hint="For example gpu-[017-018]. Leave empty if no host was at fault.",
                optional=True,
            ),
        ],
        submit="Close incident",
        metadata=json.dumps({"incident": closing.incident}),
    )


def parse_close_form(payload: Mapping[str, Any]) -> IncidentClosure:
    """Parse a submitted form. Raises BadForm for wrong fields, and OldButton for a malformed payload."""
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
    """Return the host names. Raises BadForm with the problem of each wrong field."""
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
