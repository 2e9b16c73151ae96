"""Cards of incidents that alerts opened. Pure."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from bot.cards import blocks
from bot.cards.blocks import Block, Card
from bot.cards.text import BadId, Line, Part, bold, code, web_link

# The first message of an alert incident, also posted in a thread that the alerts joined.

MAX_LINES = 6
MAX_LINKS = 6


@dataclass(frozen=True, slots=True)
class AlertLink:
    """A link of an alert; `what` says of which kind."""

    what: str
    alert: str
    url: str


def render_alert_message(
    cause: str, firing: int, resolved: int, hosts: str, lines: tuple[str, ...], left: int = 0, links: Sequence[AlertLink] = ()
) -> Card:
    """Render the message. `lines` are the monitoring system's words; `left`: alerts counted but not listed."""
    head = f"{'🔔' if firing else '🔕'} Alerts of {cause[:120]}: {firing} firing, {resolved} resolved"
    place_lines: list[Line] = [("On ", code(hosts[:300]))] if hosts else []
    quoted: list[Block] = [blocks.code_section(lines[:MAX_LINES])] if lines else []
    source_line: Line = ("From the monitoring system. Alerts say where to look; my own checks decide.",)
    more: list[Line] = [(f"{left} more alerts are not listed (max_alerts): whether they fire is unknown.",)] if left else []
    return blocks.build_card(
        head,
        [
            blocks.line_section(bold(head)),
            *([blocks.section(*place_lines)] if place_lines else []),
            *quoted,
            *_render_links(links),
            *map(blocks.context, more),
            blocks.context(source_line),
        ],
    )


def _render_links(links: Sequence[AlertLink]) -> list[Block]:
    """Render each address once, with its host in the link text."""
    parts: list[Part] = []
    for row in list({row.url: row for row in links}.values())[:MAX_LINKS]:
        with suppress(BadId):
            parts += [" · " if parts else "", web_link(row.url, f"{row.what} of {row.alert} ({urlsplit(row.url).hostname})")]
    return [blocks.context(tuple(parts))] if parts else []
