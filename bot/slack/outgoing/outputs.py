"""Outputs that somebody asked for as files, and pictures with their rows as text, put into the thread beside the answer. Each goes there once."""

import asyncio
import contextlib
import hashlib
from collections.abc import Awaitable, Sequence

import structlog
from slack_sdk.web.async_client import AsyncWebClient

from bot.cards.text import clip
from bot.pictures.drawing import Drawing
from bot.postmortem.drawings import DrawnFrom, FactsGone
from bot.postmortem.formats import format_asked
from bot.refusal import Refusal
from bot.slack.client import SLACK_TROUBLE
from bot.slack.outgoing.pages import IncidentPages
from bot.slack.outgoing.posts import PostedCards
from graph.report import Report, ShownPicture
from graph.rows import IncidentRows
from graph.state import Incident, Origin
from tools.evidence import EvidenceStore

log = structlog.get_logger()
ALT, TITLE = 900, 100
"""Slack takes a thousand characters for those who cannot see a picture."""
TOLD_BY = frozenset({"ran", "proved", "failed", "handed over"})
"""What must have happened for the end of an incident to be worth its timeline."""


class Outputs:
    """The answer stands without its files, so Slack's refusal is written down and no more."""

    def __init__(
        self, client: AsyncWebClient, cards: PostedCards, evidence: EvidenceStore, drawn_from: DrawnFrom, pages: IncidentPages | None = None
    ) -> None:
        self._client, self._cards, self._evidence = client, cards, evidence
        self.drawn_from, self.pages = drawn_from, pages
        self._drawing = asyncio.Lock()

    async def share(self, origin: Origin, incident: str, report: Report, state: Incident) -> None:
        """Upload what the report shows."""
        for number, row in enumerate(report.shown):
            text = await self._evidence.get(row.sha256)
            if text is not None and not await self._cards.claim(incident, f"shown:{report.item}:{number}"):
                await self._tried(incident, self._upload(origin, [(row.name, row.name, text, None)]))
        for number, wanted in enumerate(report.pictures):
            mark = f"picture:{report.item}:{number}" if wanted.asked else _mark(wanted, report)
            await self._picture(origin, incident, wanted, IncidentRows(state), mark)
        if report.page and self.pages is not None and not await self._cards.claim(incident, f"page:{report.item}"):
            with contextlib.suppress(Refusal):  # it is being written already, and comes here
                item = IncidentRows(state).item if state.get("item") else None
                place = origin.model_copy(update={"user": item.user if item else origin.user})
                self.pages.begin(incident, place, format_asked(item.text if item else ""))

    async def ended(self, origin: Origin, incident: str, state: Incident) -> None:
        """The timeline of an incident in which something was done, once, when it is closed."""
        rows = IncidentRows(state)
        if _worth_a_timeline(rows):
            await self._picture(origin, incident, ShownPicture(kind="timeline", asked=False), rows, "timeline:closed")

    async def _picture(self, origin: Origin, incident: str, wanted: ShownPicture, rows: IncidentRows, mark: str) -> None:
        """`mark` is claimed before it is drawn; without one the same rows are shown once."""
        if mark and await self._cards.claim(incident, mark):
            return
        try:
            drawing = await self.drawn_from.drawing(wanted, rows)
        except FactsGone:
            log.warning("board.picture_without_facts", incident=incident)
            return
        if mark or not await self._cards.claim(incident, f"drawn:{_digest(drawing.text)}"):
            await self._tried(incident, self._drawn(origin, drawing))

    async def _drawn(self, origin: Origin, drawing: Drawing) -> None:
        """Drawn beside the event loop, one at a time; its rows are a file beside it."""
        async with self._drawing:
            png = await asyncio.to_thread(drawing.draw, "png")
            text = await asyncio.to_thread(lambda: drawing.text)
        title = clip(drawing.title, TITLE)
        picture = (f"{drawing.name}.png", title, png, clip(drawing.words, ALT))
        await self._upload(origin, [picture, (f"{drawing.name}.txt", clip(f"{title}, as text", TITLE), text, None)])

    async def _upload(self, origin: Origin, files: Sequence[tuple[str, str, str | bytes, str | None]]) -> None:
        """(name, title, content, words for who cannot see it), together in one message."""
        rows = [{"filename": name, "title": title, "content": content, "alt_txt": alt} for name, title, content, alt in files]
        await self._client.files_upload_v2(channel=origin.channel, thread_ts=origin.thread_ts, file_uploads=rows)

    async def _tried(self, incident: str, upload: Awaitable[None]) -> None:
        try:
            await upload
        except SLACK_TROUBLE as trouble:
            log.warning("board.output_not_uploaded", incident=incident, error=str(trouble)[:200])


def anything_to_show(report: Report, state: Incident) -> bool:
    """Whether a report has files or pictures at all: only then Slack is asked who would see them."""
    return bool(report.shown or report.pictures or report.page) or _worth_a_timeline(IncidentRows(state))


def _worth_a_timeline(rows: IncidentRows) -> bool:
    return rows.lifecycle == "closed" and any(mark.kind in TOLD_BY for mark in rows.milestones)


def _mark(wanted: ShownPicture, report: Report) -> str:
    """By what a picture that nobody asked for comes once: a number that moves with each look, by whom it accuses; any other, by its rows."""
    accused = sorted({host for cause in report.root_causes for host in cause.hosts})
    return f"picture:{wanted.key}:{_digest(' '.join(accused))}" if wanted.kind == "heat" else ""


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
