"""The one message in a customer's thread: what it is, whose it is, what to do now, how far it is. Edited as the incident goes on."""

from collections.abc import Mapping, Sequence
from typing import Any

from bot.cards import blocks
from bot.cards.blocks import Block, Card
from bot.cards.buttons import Press, carry, read_press
from bot.cards.customers.phrases import phrase
from bot.cards.customers.view import CustomerView, TheirCause
from bot.cards.text import Line, bold, code
from kb.scan import lines_in
from tools.inventory.ranges import fold

BROKEN, WORKS, PERSON, WITHDRAW = "customer.broken", "customer.works", "customer.person", "customer.withdraw"
BUTTONS = {BROKEN: "broken", WORKS: "works", PERSON: "person", WITHDRAW: "withdraw"}
MARKS: Mapping[str, str] = {
    "received": "🔎",
    "yours": "🛠",
    "ours": "🔴",
    "both": "🔴",
    "healthy": "✅",
    "asked": "❓",
    "people": "🎫",
    "proved": "✅",
    "closed": "✅",
}
OVER = ("proved", "closed")
"""States in which nothing is left to wait for."""
MOST_HOSTS = 300
"""Characters of a list of hosts."""


def render(view: CustomerView) -> Card:
    """The message as it is now."""
    head = _head(view)
    return blocks.card(head, [blocks.header(head), *_state(view), *_causes(view), *_avoid(view), *_rest(view), *_buttons(view)])


def read(payload: Mapping[str, Any]) -> Press:
    """A click on one of its buttons."""
    return read_press(payload, BUTTONS)


def moved(view: CustomerView) -> Card:
    """A short message of its own, for an edit tells nobody: that an answer is there, or how far our side is."""
    words = phrase(f"state_{view.state}", view.language) if view.state else phrase(view.stage, view.language)
    return blocks.card(words, [blocks.say(f"{_mark(view)} {words}")])


def said(*words: str) -> Card:
    """A line, or a few below each other."""
    return blocks.card(" ".join(words), [blocks.section(*((line,) for line in words))])


def why(view: CustomerView) -> Card:
    """What is believed, and the lines of their own job that show it; where nothing is, what the message says of it."""
    head = phrase("why", view.language) if view.causes else phrase(view.stage, view.language)
    rows: list[Block] = []
    for cause in view.causes:
        where = f" ({fold(cause.hosts)[:MOST_HOSTS]})" if cause.hosts else ""
        rows.append(blocks.section((bold(cause.said.title), where), (cause.said.words,)))
        rows += [blocks.section((bold(phrase("shows", view.language)),)), blocks.quote(cause.shows)] if cause.shows else []
    return blocks.card(head, [blocks.say(head), *rows])


def from_people(words: str, language: str) -> Card:
    """What one of our people tells the customer, in the app's name: no person is named."""
    head = phrase("from_people", language)
    return blocks.card(f"{head} {words}", [blocks.section((bold(head),), *((line,) for line in lines_in(words) if line.strip()))])


def _mark(view: CustomerView) -> str:
    return MARKS[view.state if view.state in OVER else view.stage]


def _head(view: CustomerView) -> str:
    if view.stage == "yours" and len(view.causes) == 1:
        return f"{_mark(view)} {view.causes[0].said.title}"
    return f"{_mark(view)} {phrase(view.stage, view.language)}"


def _state(view: CustomerView) -> list[Block]:
    lines: list[Line] = [(bold(phrase(f"state_{view.state}", view.language)),)] if view.state else []
    if view.withdrawn:
        lines.append((phrase("withdrawn", view.language),))
    return [blocks.section(*lines)] if lines else []


def _causes(view: CustomerView) -> list[Block]:
    return [block for cause in view.causes for block in (_ours(cause) if cause.ours else _theirs(cause, view.language))]


def _ours(cause: TheirCause) -> list[Block]:
    where: Line = (" ", code(fold(cause.hosts))) if cause.hosts else ()
    return [blocks.section((cause.said.words, *where))]


def _theirs(cause: TheirCause, language: str) -> list[Block]:
    made = [blocks.section((cause.said.words,))]
    if cause.shows:
        made += [blocks.section((bold(phrase("shows", language)),)), blocks.quote(cause.shows)]
    if cause.said.fix:
        made += [blocks.section((bold(phrase("change", language)), f" {cause.said.fix.change}")), blocks.quote(cause.block.split("\n"))]
        made += [blocks.section((bold(phrase("works", language)), f" {cause.said.fix.works}"))]
    return made


def _avoid(view: CustomerView) -> list[Block]:
    """The line to start again with. What is repaired is not avoided."""
    if not view.avoid or view.state in OVER:
        return []
    return [blocks.section((bold(phrase("avoid", view.language)),)), blocks.quote([f"--exclude={fold(view.avoid)}"])]


def _rest(view: CustomerView) -> list[Block]:
    lines: list[Line] = []
    if view.questions:
        lines += [
            (bold(phrase("questions", view.language)),),
            *((f"{n}. {phrase(id_, view.language)}",) for n, id_ in enumerate(view.questions, 1)),
        ]
    if view.stage in ("healthy", "people"):
        lines.append((phrase(f"{view.stage}_next", view.language),))
    lines += _unknown(view)
    small = blocks.context((f"{phrase('ticket', view.language)} ", code(view.incident)))
    return [*([blocks.section(*lines)] if lines else []), small]


def _unknown(view: CustomerView) -> list[Line]:
    rows: Sequence[tuple[str, str]] = (
        ("unknown_hosts", ", ".join(view.unknown_hosts)),
        ("unknown_job", view.unknown_job),
        ("could_not_look", fold(view.silent)),
    )
    return [(phrase(id_, view.language, names=names[:MOST_HOSTS]),) for id_, names in rows if names]


def _buttons(view: CustomerView) -> list[Block]:
    if view.stage == "received":
        return []
    value, words = carry(view.incident), view.language
    again = blocks.button(phrase("button_broken", words), BROKEN, value)
    works = blocks.button(phrase("button_works", words), WORKS, value)
    person = blocks.button(phrase("button_person", words), PERSON, value)
    sure = blocks.confirm(phrase("button_withdraw", words), phrase("sure_withdraw", words), phrase("yes", words), phrase("no", words))
    back = blocks.button(phrase("button_withdraw", words), WITHDRAW, value, ask=sure)
    asks = [again, works] if view.state in ("", *OVER) else [again]
    people = [] if view.state or view.stage == "people" else [person]
    return [blocks.actions(*asks, *people, *([] if view.withdrawn or view.state in OVER else [back]))]
