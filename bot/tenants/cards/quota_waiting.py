"""Show operators the tenants over quota, one line each, with a button that starts the oldest incident."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from bot.cards import blocks
from bot.cards.blocks import Block
from bot.cards.buttons import ButtonClick, encode_button_value, parse_button_click
from bot.cards.text import Line, Part, bold, format_slack_date, format_utc_time, italic

LET_IN_ACTION_ID = "share.let_in"
BUTTONS = {LET_IN_ACTION_ID: "let_in"}
MAX_TENANTS = 5
MAX_QUOTED_CHARS = 120
# By exceeded limit.
WAIT_REASONS: Final[Mapping[str, str]] = {
    "incidents": "Their limit of open incidents is reached: the next report starts when one ends or is handed over",
    "mentions": "Their messages of this hour are used up",
}


@dataclass(frozen=True, slots=True)
class WaitingTenantView:
    """A tenant's row. `oldest`: the longest-waiting incident; `words`: its text; `until`: when it continues."""

    tenant: str
    count: int
    oldest: str
    since: datetime
    limit: str
    until: datetime | None = None
    words: str = ""


def render_waiting_tenants(shown: Sequence[WaitingTenantView], *, buttons: bool = True) -> list[Block]:
    """Render a line and a button per tenant. `buttons`: whether clicks are accepted here."""
    parts: list[Block] = []
    for row in shown[:MAX_TENANTS]:
        parts.append(blocks.section(*_render_waiting_row(row)))
        if buttons:
            parts.append(blocks.actions(blocks.button("Start the oldest", LET_IN_ACTION_ID, encode_button_value(row.oldest))))
    rest = len(shown) - MAX_TENANTS
    return [*parts, blocks.context((f"… and reports of {rest} more customers",))] if rest > 0 else parts


def parse_let_in_click(payload: Mapping[str, Any]) -> ButtonClick:
    """Parse a click; its incident was the oldest when the line was rendered."""
    return parse_button_click(payload, BUTTONS)


def _render_waiting_row(row: WaitingTenantView) -> tuple[Line, ...]:
    count_text = f": {row.count} reports wait, the oldest since " if row.count > 1 else ": 1 report waits since "
    words: tuple[Part, ...] = (f": “{row.words[:MAX_QUOTED_CHARS]}”",) if row.words.strip() else ()
    goes_on = f"; it continues automatically at {format_utc_time(row.until)}" if row.until else ""
    return (("⏳ ", bold(row.tenant), count_text, format_slack_date(row.since), *words), (italic(f"{WAIT_REASONS[row.limit]}{goes_on}."),))
