"""Outputs as files, and charts with their rows as text, uploaded once each."""

import asyncio
import contextlib
import hashlib
from collections.abc import Awaitable, Sequence

import structlog
from slack_sdk.web.async_client import AsyncWebClient

from bot.cards.text import clip_text
from bot.incidents.publishing.incident_reports import IncidentReportWriter
from bot.refusal import Refusal
from bot.reports.charts.drawing import Drawing
from bot.reports.drawing_source import DrawingSource, FactsNotKept
from bot.reports.page_formats import parse_page_format
from bot.slack.client import SLACK_ERRORS
from bot.slack.posted_messages import PostedCards
from graph.incident_view import IncidentView
from graph.report import AttachedChart, Report
from graph.state import IncidentState, Origin
from tools.evidence import EvidenceStore

log = structlog.get_logger()
MAX_ALT_TEXT_CHARS, MAX_TITLE_CHARS = 900, 100  # Slack's limit for alt text is 1000
# An incident with one of these gets a timeline at its end.
TIMELINE_MILESTONES = frozenset({"ran", "proved", "failed", "handed over"})


class ReportAttachments:
    """Best effort: the answer is complete without them."""

    def __init__(
        self,
        client: AsyncWebClient,
        cards: PostedCards,
        evidence: EvidenceStore,
        drawn_from: DrawingSource,
        pages: IncidentReportWriter | None = None,
    ) -> None:
        self._client, self._cards, self._evidence = client, cards, evidence
        self.drawn_from, self.pages = drawn_from, pages
        self._drawing = asyncio.Lock()

    async def upload_report_files(self, origin: Origin, incident: str, report: Report, state: IncidentState) -> None:
        for number, row in enumerate(report.shown):
            text = await self._evidence.get_text(row.sha256)
            if text is not None and not await self._cards.claim(incident, f"shown:{report.item}:{number}"):
                await self._log_slack_errors(incident, self._upload_files(origin, [(row.name, row.name, text, None)]))
        for number, wanted in enumerate(report.pictures):
            mark = f"picture:{report.item}:{number}" if wanted.asked else _build_chart_key(wanted, report)
            await self._post_chart(origin, incident, wanted, IncidentView(state), mark)
        if report.page and self.pages is not None and not await self._cards.claim(incident, f"page:{report.item}"):
            with contextlib.suppress(Refusal):  # it is being written already, and comes here
                item = IncidentView(state).item if state.get("item") else None
                place = origin.model_copy(update={"user": item.user if item else origin.user})
                self.pages.begin_report(incident, place, parse_page_format(item.text if item else ""))

    async def post_closing_timeline(self, origin: Origin, incident: str, state: IncidentState) -> None:
        """Post the timeline once, if something was done."""
        rows = IncidentView(state)
        if _is_worth_timeline(rows):
            await self._post_chart(origin, incident, AttachedChart(kind="timeline", asked=False), rows, "timeline:closed")

    async def _post_chart(self, origin: Origin, incident: str, chart: AttachedChart, incident_view: IncidentView, mark: str) -> None:
        """Claim `mark`, then draw. Without a mark, the same rows are shown once."""
        if mark and await self._cards.claim(incident, mark):
            return
        try:
            drawing = await self.drawn_from.build_drawing(chart, incident_view)
        except FactsNotKept:
            log.warning("board.picture_without_facts", incident=incident)
            return
        if mark or not await self._cards.claim(incident, f"drawn:{_compute_digest(drawing.text)}"):
            await self._log_slack_errors(incident, self._upload_chart(origin, drawing))

    async def _upload_chart(self, origin: Origin, drawing: Drawing) -> None:
        """Draw off the event loop, one chart at a time."""
        async with self._drawing:
            png = await asyncio.to_thread(drawing.draw, "png")
            text = await asyncio.to_thread(lambda: drawing.text)
        title = clip_text(drawing.title, MAX_TITLE_CHARS)
        picture = (f"{drawing.name}.png", title, png, clip_text(drawing.words, MAX_ALT_TEXT_CHARS))
        await self._upload_files(origin, [picture, (f"{drawing.name}.txt", clip_text(f"{title}, as text", MAX_TITLE_CHARS), text, None)])

    async def _upload_files(self, origin: Origin, files: Sequence[tuple[str, str, str | bytes, str | None]]) -> None:
        """Upload (name, title, content, alt text) rows in one message."""
        rows = [{"filename": name, "title": title, "content": content, "alt_txt": alt} for name, title, content, alt in files]
        await self._client.files_upload_v2(channel=origin.channel, thread_ts=origin.thread_ts, file_uploads=rows)

    async def _log_slack_errors(self, incident: str, upload: Awaitable[None]) -> None:
        try:
            await upload
        except SLACK_ERRORS as error:
            log.warning("board.output_not_uploaded", incident=incident, error=str(error)[:200])


def has_attachments(report: Report, state: IncidentState) -> bool:
    """Return whether there is anything to upload; only then is Slack asked who reads the channel."""
    return bool(report.shown or report.pictures or report.page) or _is_worth_timeline(IncidentView(state))


def _is_worth_timeline(incident_view: IncidentView) -> bool:
    return incident_view.lifecycle == "closed" and any(mark.kind in TIMELINE_MILESTONES for mark in incident_view.milestones)


def _build_chart_key(chart: AttachedChart, report: Report) -> str:
    """Key of an unrequested chart: a heat map's numbers change with each look, so its accused hosts count; others are
    keyed by their rows.
    """
    accused = sorted({host for cause in report.root_causes for host in cause.hosts})
    return f"picture:{chart.key}:{_compute_digest(' '.join(accused))}" if chart.kind == "heat" else ""


def _compute_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
