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
LONGEST_LINE, MOST_LINES = 2100, 4
"""Characters of a piece of the line to start again with, and pieces of it."""


def render(view: CustomerView) -> Card:
    """The message as it is now."""
    head = _head(view)
    return blocks.card(
        head, [blocks.header(head), *_state(view), *_clear(view), *_causes(view), *_avoid(view), *_rest(view), *_buttons(view)]
    )


def read(payload: Mapping[str, Any]) -> Press:
    """A click on one of its buttons."""
    return read_press(payload, BUTTONS)


def moved(view: CustomerView) -> Card:
    """A short message of its own, for an edit tells nobody: that an answer is there, or how far our side is."""
    words = phrase(f"state_{view.state}", view.language) if view.state else phrase(view.stage, view.language)
    if still_asked(view):
        head = f"{_mark(view)} {phrase('reminded', view.language)}"
        return blocks.card(head, [blocks.section((head,), *_questions(view))])
    if view.unanswered and view.state == "received":
        return said(f"{_mark(view)} {phrase('unanswered', view.language)}", words)
    return blocks.card(words, [blocks.section((f"{_mark(view)} {words}",), *_unread(view))])


def news(view: CustomerView, stands: str, before: str, *, broken: bool) -> bool:
    """Whether what stands now is to be said as news. What was proved is not proved anew to whoever says that it fails (`broken`)."""
    if stands == before or (stands == "received/" and not before):
        return False
    return not (broken and view.state in OVER and before.endswith(f"/{view.state}"))


def looked_again(view: CustomerView, *, broken: bool) -> Card:
    """A look that they asked for changed nothing. Where it still fails (`broken`) and nothing shows it, they are offered a person."""
    if broken and (view.state in OVER or (view.stage == "healthy" and not view.state)):
        words = phrase("again_nothing", view.language)
        person = blocks.button(phrase("button_person", view.language), PERSON, carry(view.incident))
        return blocks.card(words, [blocks.section((f"{MARKS['received']} {words}",), *_unread(view)), blocks.actions(person)])
    words, asks = phrase("again_before", view.language), _questions(view) if view.stage == "asked" else []
    return blocks.card(words, [blocks.section((f"{MARKS['received']} {words}",), (_how_far(view)[0],), *asks, *_unread(view))])


def still_asked(view: CustomerView) -> bool:
    """Whether they were reminded of what they were asked, and it is not said yet."""
    return view.stage == "asked" and view.reminded


def asked(view: CustomerView, *before: str) -> Card:
    """The same for whoever asks how far it is; of what is not over, also that nobody knows how long it takes. `before`: lines that go ahead of it."""
    first, *more = _how_far(view)
    return said(*before, f"{_mark(view)} {first}", *more)


def _how_far(view: CustomerView) -> list[str]:
    words = phrase(f"state_{view.state}", view.language) if view.state else phrase(view.stage, view.language)
    return [words, *([phrase("how_long", view.language)] if view.state and view.state not in OVER else [])]


def said(*words: str) -> Card:
    """A line, or a few below each other."""
    return blocks.card(" ".join(words), [blocks.section(*((line,) for line in words))])


def why(view: CustomerView, *, when: bool = False) -> Card:
    """What is believed, and the lines of their own job that show it; where nothing is, what the message says of it. `when`: they also ask how
    long it takes, which is answered after it."""
    head = phrase("why", view.language) if view.causes else phrase(view.stage, view.language)
    rows: list[Block] = []
    for cause in view.causes:
        where = f" ({fold(cause.hosts)[:MOST_HOSTS]})" if cause.hosts else ""
        rows.append(blocks.section((bold(cause.said.title), where), (cause.said.words,)))
        rows += [blocks.section((bold(phrase("shows", view.language)),)), blocks.quote(cause.shows)] if cause.shows else []
    after = _when(view) if when else []
    lines = [blocks.section(*((line,) for line in after))] if after else []
    return blocks.card(" ".join((head, *after)), [blocks.say(head), *rows, *lines])


def _when(view: CustomerView) -> list[str]:
    """How far it is and how long it takes, for whoever was told the stage already where nothing is found."""
    told = _how_far(view)
    return (told if view.causes else told[1:]) or [phrase("how_long", view.language)]


def from_people(words: str, language: str) -> Card:
    """What one of our people tells the customer, in the app's name: no person is named."""
    head = phrase("from_people", language)
    return blocks.card(f"{head} {words}", [blocks.section((bold(head),), *((line,) for line in lines_in(words) if line.strip()))])


def draft(view: CustomerView) -> str:
    """What our people may begin with when they tell the customer something: what their card says by now; empty where that is nothing."""
    rows = [words for cause in view.causes for words in _draft(cause)]
    return "\n".join([*rows, *([phrase(f"state_{view.state}", view.language)] if view.causes and view.state else [])])


def _draft(cause: TheirCause) -> list[str]:
    where = f" ({fold(cause.hosts)[:MOST_HOSTS]})" if cause.hosts else ""
    fix = None if cause.ours else cause.said.fix
    return [f"{cause.said.words}{where}", *([fix.change, *([cause.block] if cause.block else []), fix.works] if fix else [])]


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


def _clear(view: CustomerView) -> list[Block]:
    """What was asked comes first, where the fault is elsewhere."""
    names = fold(view.clear)[:MOST_HOSTS]
    return [blocks.section((phrase("host_clear", view.language, names=names),))] if view.causes and view.clear else []


def _causes(view: CustomerView) -> list[Block]:
    return [block for cause in view.causes for block in cause_blocks(cause, view.language)]


def cause_blocks(cause: TheirCause, language: str) -> list[Block]:
    """One cause: a sentence where it is ours; where it is theirs, what shows it, what to change, and how to see that it worked."""
    return _ours(cause) if cause.ours else _theirs(cause, language)


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
    lines = exclude_lines(view.avoid)
    try:
        whole = [blocks.verbatim(row) for row in lines] if len(lines) <= MOST_LINES else []
    except blocks.TooLong:  # a name of signs that are spelled out, each in nine characters
        whole = []
    if not whole:
        return [blocks.section((phrase("avoid_many", view.language, count=str(len(view.avoid))),))]
    return [blocks.section((bold(phrase("avoid", view.language)),)), *whole]


def exclude_lines(hosts: Sequence[str]) -> list[str]:
    """One line for a shell, in pieces of at most `LONGEST_LINE` characters, none of them cut: pasted below each other they are one."""
    first, *more = _pieces(tuple(hosts))
    pieces = [f"--exclude={first}", *more]
    return [f"{piece},\\" for piece in pieces[:-1]] + pieces[-1:]


def _pieces(hosts: Sequence[str]) -> list[str]:
    """Folded whole, or else each half."""
    if len(folded := fold(hosts)) <= LONGEST_LINE or len(hosts) == 1:
        return [folded]
    half = len(hosts) // 2
    return [*_pieces(hosts[:half]), *_pieces(hosts[half:])]


def _rest(view: CustomerView) -> list[Block]:
    lines: list[Line] = []
    if view.questions:
        lines += [(bold(phrase("questions", view.language)),), *_questions(view)]
    if view.stage in ("healthy", "people"):
        lines.append((phrase(_next(view), view.language),))
    lines += _unknown(view)
    small = blocks.context((f"{phrase('ticket', view.language)} ", code(view.incident)))
    return [*([blocks.section(*lines)] if lines else []), small]


def _next(view: CustomerView) -> str:
    """The phrase that says what comes now."""
    if view.unanswered:
        return "unanswered"
    return "unseen_next" if view.unseen and view.stage == "people" else f"{view.stage}_next"


def _questions(view: CustomerView) -> list[Line]:
    return [(f"{n}. {phrase(id_, view.language)}",) for n, id_ in enumerate(view.questions, 1)]


def _unread(view: CustomerView) -> list[Line]:
    """That a file of theirs was not read; said in a message of its own as well, for they wait for what it shows."""
    return [(phrase("unread", view.language, names=", ".join(view.unread)[:MOST_HOSTS]),)] if view.unread else []


def _unknown(view: CustomerView) -> list[Line]:
    rows: Sequence[tuple[str, str]] = (
        ("unknown_hosts", ", ".join(view.unknown_hosts)),
        ("unknown_job", view.unknown_job),
        ("could_not_look", fold(view.silent)),
    )
    return [*((phrase(id_, view.language, names=names[:MOST_HOSTS]),) for id_, names in rows if names), *_unread(view)]


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
