"""What our own people are shown of customers who are over their share: one line a customer, however much of theirs waits, and the button that lets
the oldest in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from bot.cards import blocks
from bot.cards.blocks import Block
from bot.cards.buttons import Press, carry, read_press
from bot.cards.text import Line, Part, bold, italic, moment, utc

LET_IN = "share.let_in"
BUTTONS = {LET_IN: "let_in"}
MOST, SAID = 5, 120
WHY: Final[Mapping[str, str]] = {
    "incidents": "As many of their incidents are open as their share allows: the next begins when one ends or is handed over",
    "mentions": "Their messages of this hour are used up",
}
"""By the limit that they are over."""


@dataclass(frozen=True, slots=True)
class WaitsShown:
    """One customer's row. `oldest`: the incident that waits longest; `words`: what it says; `until`: when it goes on, where that is known."""

    tenant: str
    count: int
    oldest: str
    since: datetime
    limit: str
    until: datetime | None = None
    words: str = ""


def rows(shown: Sequence[WaitsShown], *, buttons: bool = True) -> list[Block]:
    """One line a customer and a button below it; nothing where nothing waits. `buttons`: where a press would be taken."""
    parts: list[Block] = []
    for row in shown[:MOST]:
        parts.append(blocks.section(*_row(row)))
        if buttons:
            parts.append(blocks.actions(blocks.button("Let the oldest in", LET_IN, carry(row.oldest))))
    rest = len(shown) - MOST
    return [*parts, blocks.context((f"… and reports of {rest} more customers",))] if rest > 0 else parts


def read(payload: Mapping[str, Any]) -> Press:
    """A click on Let the oldest in; its incident is the one that was the oldest when the line was drawn."""
    return read_press(payload, BUTTONS)


def _row(row: WaitsShown) -> tuple[Line, ...]:
    what = f": {row.count} reports wait, the oldest since " if row.count > 1 else ": 1 report waits since "
    words: tuple[Part, ...] = (f": “{row.words[:SAID]}”",) if row.words.strip() else ()
    goes_on = f"; it goes on by itself at {utc(row.until)}" if row.until else ""
    return (("⏳ ", bold(row.tenant), what, moment(row.since), *words), (italic(f"{WHY[row.limit]}{goes_on}."),))
