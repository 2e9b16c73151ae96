"""Closing an incident: the true root cause, chosen or in words. What is learnt later comes from here, so it must not be empty."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bot.cards import blocks
from bot.cards.blocks import Block
from bot.cards.buttons import MALFORMED, BadForm, OldButton
from graph.state import ABSTAIN, NO_FAULT
from kb.taxonomy.labels import CATEGORIES
from tools.inventory.ranges import BadRange, expand, fold

CALLBACK = "close_modal.submit"
LABEL, CAUSE, HOSTS = "close_modal.label", "close_modal.cause", "close_modal.hosts"
MOST_CAUSE, MOST_HOSTS = 2000, 500

Choices = Mapping[str, Sequence[tuple[str, str]]]
"""Heading → (label, title) rows."""


@dataclass(frozen=True, slots=True)
class Closing:
    """What a human says the cause was."""

    incident: str
    label: str
    root_cause: str
    hosts: tuple[str, ...] = ()


def choices(leaves: Iterable[tuple[str, str]]) -> Choices:
    """(label, title) of the taxonomy under their categories, and the two verdicts that are no labels."""
    grouped: dict[str, list[tuple[str, str]]] = {}
    for label, title in sorted(leaves):
        category = label.partition(".")[0]
        grouped.setdefault(CATEGORIES.get(category, category), []).append((label, title))
    return {**grouped, "None of these": [(NO_FAULT, "Nothing was broken"), (ABSTAIN, "Not known, or not in the list")]}


def render(closing: Closing, offered: Choices) -> Block:
    """The form, filled with what is believed so far; `closing.hosts` are shown folded."""
    hosts = fold(closing.hosts)
    return blocks.modal(
        CALLBACK,
        "Close the incident",
        [
            blocks.field_input(LABEL, "What was it?", blocks.select(offered, closing.label)),
            blocks.field_input(
                CAUSE,
                "Root cause, in your words",
                blocks.text_input(initial=closing.root_cause[:MOST_CAUSE], multiline=True, most=MOST_CAUSE),
                hint="What broke, how you know, what mended it. The next diagnosis learns from this.",
            ),
            blocks.field_input(
                HOSTS,
                "Hosts",
                blocks.text_input(initial=hosts if len(hosts) <= MOST_HOSTS else "", most=MOST_HOSTS),
                hint="For example gpu-[017-018]. Leave empty when no machine was guilty.",
                optional=True,
            ),
        ],
        submit="Close incident",
        metadata=json.dumps({"incident": closing.incident}),
    )


def read(payload: Mapping[str, Any]) -> Closing:
    """A submission. Raises BadForm for what the person can mend, OldButton for a form that is not ours."""
    try:
        view = payload["view"]
        values = view["state"]["values"]
        incident = str(json.loads(view["private_metadata"])["incident"])
        label = str(((values[LABEL][LABEL]).get("selected_option") or {}).get("value", ""))
        cause, hosts = (str(values[block][block].get("value") or "").strip() for block in (CAUSE, HOSTS))
    except MALFORMED as wrong:
        raise OldButton from wrong
    return Closing(incident, label, cause, _checked(label, cause, hosts))


def _checked(label: str, cause: str, hosts: str) -> tuple[str, ...]:
    problems = {}
    if not label:
        problems[LABEL] = "Choose what it was; “Not known” is an answer too."
    if not cause:
        problems[CAUSE] = "Write at least what mended it."
    names: list[str] = []
    try:
        names = expand(hosts)
    except BadRange as wrong:
        problems[HOSTS] = f"{wrong}. Write for example gpu-[017-018]."
    if problems:
        raise BadForm(problems)
    return tuple(names)
