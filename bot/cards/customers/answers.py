"""What a customer asks, answered from what they may know already: one card, nothing looked at. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from bot.cards.blocks import Card
from bot.cards.customers import living
from bot.cards.customers.phrases import phrase
from bot.cards.customers.view import CustomerView
from graph.conversation.intents import Intent
from tools.inventory.ranges import fold

Answered = Literal["why", "machines", "ours", "inside", "help"]
ANSWERS: Final[Mapping[Intent, Answered]] = {
    Intent.EXPLAIN: "why",
    Intent.WHY_NOT: "why",
    Intent.HOST_STATE: "machines",
    Intent.GROUP_STATE: "machines",
    Intent.COMPARE: "machines",
    Intent.WISH_REMEDY: "ours",
    Intent.UNDO: "ours",
    Intent.RUN_CHECK: "ours",
    Intent.TYPED_APPROVAL: "ours",
    Intent.ON_APPROVE: "ours",
    Intent.WHO_MAY_APPROVE: "ours",
    Intent.ASSIGN: "ours",
    Intent.SHOW_OUTPUT: "inside",
    Intent.HAPPENED_BEFORE: "inside",
    Intent.CHANGED_SINCE: "inside",
    Intent.HELP: "help",
    Intent.META: "help",
}
"""What is answered so, by what was understood. Nothing of it is a command: what our people alone may do they read in their own thread."""


def answer(intent: Intent, view: CustomerView, hosts: Sequence[str], unknown: Sequence[str]) -> Card:
    """`hosts`: those of the customer's own that were named, as they call them; `unknown`: names that are none of theirs."""
    match ANSWERS[intent]:
        case "why":
            return living.why(view)
        case "machines":
            return living.said(*_machines(view, hosts, unknown))
        case said:
            return living.said(phrase(f"answer_{said}", view.language))


def _machines(view: CustomerView, hosts: Sequence[str], unknown: Sequence[str]) -> list[str]:
    """A line for each thing that is known of them; what was not looked at is never called sound."""
    rows = [phrase("unknown_hosts", view.language, names=_names(unknown))] if unknown else []
    if view.stage == "received":
        return [*rows, phrase("received", view.language)] if hosts or not unknown else rows
    asked = list(dict.fromkeys(hosts or (() if unknown else view.hosts)))
    for cause in view.causes:
        if named := [host for host in asked if host in cause.hosts]:
            rows.append(f"{_names(named)}: {cause.said.title}")
    rest = [host for host in asked if all(host not in cause.hosts for cause in view.causes)]
    told = {
        "could_not_look": [host for host in rest if host in view.silent],
        "host_clear": [host for host in rest if host in view.hosts and host not in view.silent],
        "host_not_asked": [host for host in rest if host not in (*view.hosts, *view.silent)],
    }
    rows += [phrase(id_, view.language, names=_names(names)) for id_, names in told.items() if names]
    return rows or [phrase("q_which", view.language)]


def _names(names: Sequence[str]) -> str:
    return fold(names)[: living.MOST_HOSTS]
