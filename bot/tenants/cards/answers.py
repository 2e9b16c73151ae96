"""Answer a tenant's question on one card from what they may already know, without checks."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, Literal

from bot.cards.blocks import Card
from bot.tenants.cards import tenant_card
from bot.tenants.cards.phrases import get_phrase
from bot.tenants.cards.view import TenantView
from graph.dialogue.intents import Intent
from graph.dialogue.news import has_complaint, is_empty_message
from graph.dialogue.said import ParsedMessage
from graph.dialogue.tenant_requests import TenantRequest
from tools.inventory.host_ranges import fold_host_names

AnswerKind = Literal["why", "why_when", "machines", "ours", "again", "pressed", "inside", "help", "thanks", "beyond", "report"]
# None of these is a command: what only operators may do is answered in words.
ANSWER_BY_INTENT: Final[Mapping[Intent, AnswerKind]] = {
    Intent.EXPLAIN: "why",
    Intent.WHY_NOT: "why",
    Intent.HOST_STATE: "machines",
    Intent.GROUP_STATE: "machines",
    Intent.COMPARE: "machines",
    Intent.WISH_REMEDY: "ours",
    Intent.UNDO: "ours",
    Intent.RUN_CHECK: "ours",
    Intent.RUN_GUIDE: "ours",
    Intent.TYPED_APPROVAL: "ours",
    Intent.ON_APPROVE: "ours",
    Intent.WHO_MAY_APPROVE: "ours",
    Intent.ASSIGN: "ours",
    Intent.ACTION_DETAIL: "ours",
    Intent.FACT_DETAIL: "inside",
    Intent.JOBS_ON_HOST: "inside",
    Intent.HOST_IDENTITY: "inside",
    Intent.WAITS: "inside",
    Intent.SHOW_OUTPUT: "inside",
    Intent.SHOW_PICTURE: "inside",
    Intent.HAPPENED_BEFORE: "inside",
    Intent.CHANGED_SINCE: "inside",
    Intent.REPORT: "report",
    Intent.HELP: "help",
    Intent.META: "help",
}
# The same by the tenant's request.
ANSWER_BY_WANT: Final[Mapping[TenantRequest, AnswerKind]] = {
    TenantRequest.CHANGE: "ours",
    TenantRequest.FAULT: "why",
    TenantRequest.WHY_WHEN: "why_when",
    TenantRequest.AGAIN: "again",
    TenantRequest.PRESSED: "pressed",
}
# About hosts by name. If none of them is the tenant's, there is nothing to check.
MACHINE_INTENTS: Final = frozenset({Intent.SAFE_TO, Intent.WIDEN, Intent.NARROW})


def classify_answer(
    message: ParsedMessage, at: datetime, *, facts: bool = False, want: TenantRequest | None = None, unclear: bool = False
) -> AnswerKind | None:
    """Return the kind of answer, or None to store the item.

    `facts`: it answers our question or attaches something. `unclear`: it was not understood, and is meant for RackMedic alone.
    """
    if facts:
        return None
    if unclear:
        return "beyond"
    if want is not None and want in ANSWER_BY_WANT:
        return ANSWER_BY_WANT[want]
    if message.intent in MACHINE_INTENTS and (message.unknown_hosts if not message.hosts else message.intent is Intent.SAFE_TO):
        return "machines"
    if is_empty_message(message, at):
        return "thanks" if message.intent is Intent.THANKS else "help"
    return ANSWER_BY_INTENT.get(message.intent) or ("beyond" if _is_unrelated_question(message, at) else None)


def _is_unrelated_question(message: ParsedMessage, at: datetime) -> bool:
    """A question without a host or job of the tenant; checking their hosts would not answer it."""
    subject = message.hosts or message.unknown_hosts or message.job
    return (
        message.intent is Intent.NOT_UNDERSTOOD
        and message.text.rstrip().endswith("?")
        and not subject
        and not has_complaint(message.text, at)
    )


def render_answer(kind: AnswerKind, view: TenantView, hosts: Sequence[str], unknown: Sequence[str]) -> Card:
    """Render the answer. `hosts`: named hosts of the tenant, by their names; `unknown`: other names."""
    match kind:
        case "why":
            return tenant_card.render_explanation(view)
        case "why_when":
            return tenant_card.render_explanation(view, include_duration=True)
        case "pressed":
            return tenant_card.render_progress_answer(view, get_phrase("answer_pressed", view.language))
        case "machines":
            return tenant_card.render_text_card(*_format_machine_lines(view, hosts, unknown))
        case other:
            return tenant_card.render_text_card(get_phrase(f"answer_{other}", view.language))


def _format_machine_lines(view: TenantView, hosts: Sequence[str], unknown: Sequence[str]) -> list[str]:
    """Return a line per known result. A host that was not checked is never called healthy."""
    rows = [get_phrase("unknown_hosts", view.language, names=_format_host_names(unknown))] if unknown else []
    if view.stage == "received":
        return [*rows, get_phrase("received", view.language)] if hosts or not unknown else rows
    asked_hosts = list(dict.fromkeys(hosts or (() if unknown else view.hosts)))
    for cause in view.causes:
        if cause_hosts := [host for host in asked_hosts if host in cause.hosts]:
            rows.append(f"{_format_host_names(cause_hosts)}: {cause.said.title}")
    rest = [host for host in asked_hosts if all(host not in cause.hosts for cause in view.causes)]
    hosts_by_phrase = {
        "could_not_look": [host for host in rest if host in view.silent],
        "host_clear": [host for host in rest if host in view.hosts and host not in view.silent],
        "host_not_asked": [host for host in rest if host not in (*view.hosts, *view.silent)],
    }
    rows += [get_phrase(id_, view.language, names=_format_host_names(names)) for id_, names in hosts_by_phrase.items() if names]
    return rows or [get_phrase("q_which", view.language)]


def _format_host_names(names: Sequence[str]) -> str:
    return fold_host_names(names)[: tenant_card.MAX_HOSTS_CHARS]
