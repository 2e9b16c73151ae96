"""Incident reports, posted as a file on request."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import structlog

from bot.cards.blocks import Card
from bot.cards.text import clip_text
from bot.incidents.cards import notes
from bot.refusal import Refusal
from bot.reports.incident_sources import IncidentSources, TenantReportContext
from bot.reports.page import Page
from bot.reports.page_formats import FORMATS, PageFormat
from bot.slack.client import SLACK_ERRORS, SlackClient, build_message_args
from bot.tasks import BackgroundTasks
from bot.tenants.cards import tenant_card
from bot.tenants.cards.phrases import get_phrase
from graph.state import Origin

MAX_TITLE_CHARS = 100
ReportGatherer = Callable[[], Awaitable[Page]]
log = structlog.get_logger()
REPORT_IN_PROGRESS = "The report of this incident is being written: it comes as a file in a moment."
REPORT_FAILED = "The report could not be put into the thread ({why}). `rackmedic report {incident}` writes it in a terminal."


class IncidentReportWriter:
    """Renders one report at a time, off the event loop."""

    def __init__(self, client: SlackClient, sources: IncidentSources, tasks: BackgroundTasks) -> None:
        self._client, self._sources, self._tasks = client, sources, tasks
        self._one, self._begun = asyncio.Lock(), set[tuple[str, str]]()

    def begin_report(self, incident: str, place: Origin, form: PageFormat = "pdf") -> None:
        """Start a report for operators. Raises Refusal while one is in progress."""
        self._spawn_report(incident, place, partial(self._sources.build_operator_page, incident), form=form)

    def begin_tenant_report(self, incident: str, place: Origin, customer: TenantReportContext, *, withdrawn: bool) -> None:
        """Start a report of what the tenant may see. Raises Refusal while one is in progress."""
        gathered = partial(self._sources.build_tenant_page, incident, customer, withdrawn=withdrawn)
        self._spawn_report(
            incident,
            place,
            gathered,
            tenant_card.render_text_card(get_phrase("report_failed", customer.languages.get(place.channel, "en"))),
        )

    def _spawn_report(
        self, incident: str, place: Origin, gathered: ReportGatherer, in_their_words: Card | None = None, form: PageFormat = "pdf"
    ) -> None:
        if (incident, place.channel) in self._begun:
            raise Refusal(REPORT_IN_PROGRESS)
        self._begun.add((incident, place.channel))
        self._tasks.spawn_task("report", self._write_report(incident, place, gathered, in_their_words, form))

    async def _write_report(
        self, incident: str, place: Origin, gathered: ReportGatherer, in_their_words: Card | None, form: PageFormat
    ) -> None:
        try:
            async with self._one:
                await self._upload_report(incident, place, await gathered(), form)
        except Refusal as error:
            await self._post_ephemeral(place, in_their_words or notes.render_refusal(str(error)))
        except SLACK_ERRORS as error:
            log.warning("pages.not_posted", incident=incident, error=str(error)[:200])
            await self._post_ephemeral(
                place, in_their_words or notes.render_refusal(REPORT_FAILED.format(why="a service did not answer", incident=incident))
            )
        except Exception:
            log.exception("pages.bug", incident=incident)
            await self._post_ephemeral(
                place, in_their_words or notes.render_refusal(REPORT_FAILED.format(why="something went wrong here", incident=incident))
            )
        finally:
            self._begun.discard((incident, place.channel))

    async def _upload_report(self, incident: str, place: Origin, page: Page, form: PageFormat) -> None:
        content = await asyncio.to_thread(FORMATS[form].write, page)
        title = clip_text(page.title, MAX_TITLE_CHARS) if page.audience == "customer" else f"Post-incident report of {incident}"
        await self._client.files_upload_v2(
            channel=place.channel, thread_ts=place.thread_ts, content=content, filename=f"{incident}-report.{form}", title=title
        )

    async def _post_ephemeral(self, place: Origin, card: Card) -> None:
        try:
            await self._client.chat_postEphemeral(
                channel=place.channel, user=place.user, thread_ts=place.thread_ts, **build_message_args(card)
            )
        except SLACK_ERRORS as error:
            log.warning("pages.not_told", error=str(error)[:200])
