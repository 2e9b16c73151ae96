"""An incident as one page, put into its thread as a PDF when somebody asks for it. Whoever asked is told where that failed."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import structlog

from bot.cards.blocks import Card
from bot.cards.customers import living
from bot.cards.customers.phrases import phrase
from bot.cards.incidents import notes
from bot.cards.text import clip
from bot.postmortem.formats import FORMATS, PageFormat
from bot.postmortem.gather import CustomerSide, IncidentSources
from bot.postmortem.page import Page
from bot.refusal import Refusal
from bot.slack.client import SLACK_TROUBLE, SlackClient, said
from bot.tasks import Background
from graph.state import Origin

TITLE = 100
Gathered = Callable[[], Awaitable[Page]]
log = structlog.get_logger()
BEING_WRITTEN = "The report of this incident is being written: it comes as a file in a moment."
NOT_WRITTEN = "The report could not be put into the thread ({why}). `rackmedic report {incident}` writes it in a terminal."


class IncidentPages:
    """One at a time, beside the event loop: drawing takes processor time."""

    def __init__(self, client: SlackClient, sources: IncidentSources, tasks: Background) -> None:
        self._client, self._sources, self._tasks = client, sources, tasks
        self._one, self._begun = asyncio.Lock(), set[tuple[str, str]]()

    def begin(self, incident: str, place: Origin, form: PageFormat = "pdf") -> None:
        """Write it down for our own people. Raises Refusal while that is under way."""
        self._begin(incident, place, partial(self._sources.for_operators, incident), form=form)

    def begin_theirs(self, incident: str, place: Origin, customer: CustomerSide, *, withdrawn: bool) -> None:
        """The same for the customer who reported it, of what they may have. Raises Refusal while that is under way."""
        gathered = partial(self._sources.for_customer, incident, customer, withdrawn=withdrawn)
        self._begin(incident, place, gathered, living.said(phrase("report_failed", customer.languages.get(place.channel, "en"))))

    def _begin(
        self, incident: str, place: Origin, gathered: Gathered, in_their_words: Card | None = None, form: PageFormat = "pdf"
    ) -> None:
        if (incident, place.channel) in self._begun:
            raise Refusal(BEING_WRITTEN)
        self._begun.add((incident, place.channel))
        self._tasks.spawn("report", self._written(incident, place, gathered, in_their_words, form))

    async def _written(self, incident: str, place: Origin, gathered: Gathered, in_their_words: Card | None, form: PageFormat) -> None:
        try:
            async with self._one:
                await self._post(incident, place, await gathered(), form)
        except Refusal as no:
            await self._tell(place, in_their_words or notes.refused(str(no)))
        except SLACK_TROUBLE as trouble:
            log.warning("pages.not_posted", incident=incident, error=str(trouble)[:200])
            await self._tell(place, in_their_words or notes.refused(NOT_WRITTEN.format(why="somebody did not answer", incident=incident)))
        except Exception:
            log.exception("pages.bug", incident=incident)
            await self._tell(place, in_their_words or notes.refused(NOT_WRITTEN.format(why="something went wrong here", incident=incident)))
        finally:
            self._begun.discard((incident, place.channel))

    async def _post(self, incident: str, place: Origin, page: Page, form: PageFormat) -> None:
        content = await asyncio.to_thread(FORMATS[form].write, page)
        title = clip(page.title, TITLE) if page.audience == "customer" else f"Post-incident report of {incident}"
        await self._client.files_upload_v2(
            channel=place.channel, thread_ts=place.thread_ts, content=content, filename=f"{incident}-report.{form}", title=title
        )

    async def _tell(self, place: Origin, card: Card) -> None:
        """Whoever pressed, and nobody else."""
        try:
            await self._client.chat_postEphemeral(channel=place.channel, user=place.user, thread_ts=place.thread_ts, **said(card))
        except SLACK_TROUBLE as trouble:
            log.warning("pages.not_told", error=str(trouble)[:200])
