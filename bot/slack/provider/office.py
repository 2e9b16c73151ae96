"""At a customer's site: the message about the provider in an incident's thread, and its buttons. What would leave is shown whole, as a file in the
thread, before anybody can send it."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta

import structlog

from bot.cards.buttons import OldButton, Press
from bot.cards.provider import sending
from bot.cards.provider.sending import ShownSending
from bot.desk.desk import Board
from bot.desk.inbox import Inbox
from bot.policy.channels import Place
from bot.provider.document import MadeTicket, NothingKnown
from bot.provider.news import ProviderWords, found_of, shown_of
from bot.refusal import Refusal
from bot.slack.client import SLACK_TROUBLE, SlackClient, post
from bot.slack.context import Surface, storing
from bot.slack.incoming.payloads import Payload, thread_of
from bot.slack.outgoing.posts import KeptMessages, Once
from bot.slack.people import People
from bot.store.outbox import Clicked, Outbox, Sending
from graph.ports import Progress
from graph.report import Report
from graph.rows import IncidentRows
from graph.state import Incident, Origin
from kb.taxonomy.labels import Taxonomy

log = structlog.get_logger()
CARD, TOLD, MARK, MOVED = "provider", "provider_told", "rackmedic_provider", "rackmedic_provider_moved"
SAID = "rackmedic_provider_said"
WAIT = timedelta(seconds=12)
OLD = "This is not what would be sent now. Press “Send to provider…” again to see it."
NOT_SHOWN = (
    "I could not show you what would leave, so nothing is sent: Slack did not take the file. `rackmedic ticket export` writes it to one."
)
DocumentOf = Callable[[str], Awaitable[MadeTicket]]


@dataclass(frozen=True, slots=True)
class ProviderCards:
    """The message. Painted after a turn that ends in what a provider mends, and whenever something moved."""

    client: SlackClient
    kept: KeptMessages
    inbox: Inbox
    people: People
    outbox: Outbox
    taxonomy: Taxonomy

    async def paint(self, incident: str) -> None:
        """Show where it stands; say it as well where that is news. Slack's trouble is written down: it is painted again with the next news."""
        origin = await self.inbox.origin(incident)
        if origin is None or origin.kind != "slack" or not origin.thread_ts:
            return
        try:
            await self._paint(origin, incident)
        except SLACK_TROUBLE as trouble:
            log.warning("provider.not_painted", incident=incident, error=str(trouble)[:200])

    async def _paint(self, origin: Origin, incident: str) -> None:
        async with self.kept.cards.alone(incident, CARD, wait=WAIT) as alone:
            if not alone:
                return
            row = await self.outbox.row(incident)
            view = await self.view(row)
            await self.kept.put(origin, incident, CARD, sending.render(view), {"event_type": MARK, "event_payload": {"incident": incident}})
            stands = f"{row.ticket}/{'yours' if view.yours else row.state}"
            if row.ticket and row.state and await self.kept.cards.get(incident, TOLD) != stands:
                mark = {"event_type": MOVED, "event_payload": {"stands": stands}}
                await post(self.client, origin.channel, origin.thread_ts, sending.moved(view), mark)
                await self.kept.cards.set(incident, TOLD, stands)

    async def view(self, row: Sending) -> ShownSending:
        """What people are shown of a row."""
        by = await self.people.name(row.by)
        found = shown_of(found_of(row.notes))
        return ShownSending(row.incident, row.stage, row.draft, by, row.ticket, row.state, row.trouble, row.refused, row.tries, found)

    async def say(self, incident: str, ticket: str, words: ProviderWords) -> bool:
        """What the provider's people said, as a message of its own, once; whether it stands in the thread."""
        origin = await self.inbox.origin(incident)
        if origin is None or origin.kind != "slack" or not origin.thread_ts:
            return False
        about = f"{ticket}/{words.n}"
        marked = {"event_type": SAID, "event_payload": {"about": about}}
        try:
            await Once(self.client, self.kept.cards).post(
                origin, incident, f"provider_said:{about}", sending.provider_says(ticket, words.text), marked
            )
        except SLACK_TROUBLE as trouble:
            log.warning("provider.not_said", incident=incident, error=str(trouble)[:200])
            return False
        return True

    async def after(self, incident: str, state: Incident) -> None:
        """After a turn: offered once something is the provider's, kept up to date from then on."""
        row = await self.outbox.row(incident)
        if row.stage != "offered" or _theirs(IncidentRows(state), self.taxonomy):
            await self.paint(incident)


def _theirs(rows: IncidentRows, taxonomy: Taxonomy) -> bool:
    """Whether people have it, or a cause is not the customer's own to mend."""
    if rows.ticket is not None and rows.ticket.handed:
        return True
    report = rows.report
    found = [taxonomy.leaves[row.label] for row in (report.root_causes if report else ()) if row.label in taxonomy.leaves]
    return any(leaf.owner != "customer" for leaf in found)


class BoardWithProvider:
    """A board whose reports may be followed by what is offered to be sent to the provider."""

    def __init__(self, board: Board, cards: ProviderCards) -> None:
        self._board, self._cards = board, cards

    async def progress(self, p: Progress) -> None:
        """News of a look are nobody else's."""
        await self._board.progress(p)

    async def report(self, incident: str, state: Incident, report: Report) -> None:
        """Ours first."""
        await self._board.report(incident, state, report)
        await self._cards.after(incident, state)


@dataclass(frozen=True, slots=True)
class ProviderDesk:
    """Its buttons, handed to the listeners. A colleague in the incident's own thread presses them, and nobody else."""

    surface: Surface
    cards: ProviderCards
    document_of: DocumentOf

    async def press(self, payload: Payload) -> None:
        """Show what would leave, send what was shown, or leave it. Raises Refusal."""
        pressed = sending.read(payload)
        user = str(payload["user"]["id"])
        origin = await self._here(payload, pressed)
        await self.surface.allow(f"button.{payload['actions'][0]['action_id']}", user, origin.channel, origin)
        match pressed.does:
            case "show":
                self.surface.tasks.spawn("provider_shows", self._show(origin, pressed.incident))
            case "send":
                await self._send(pressed, user)
            case _:
                async with storing():
                    await self.cards.outbox.drop_draft(pressed.incident)
                self._paint(pressed.incident)

    async def _here(self, payload: Payload, pressed: Press) -> Origin:
        team, channel, user = str(payload["team"]["id"]), str(payload["channel"]["id"]), str(payload["user"]["id"])
        await self.surface.admit(Place(team, channel), user, fresh=True)
        async with storing():
            origin = await self.surface.inbox.origin(pressed.incident)
            known = await self.surface.inbox.find(team, channel, thread_of(payload))
        if origin is None or known != pressed.incident or origin.channel != channel:
            raise OldButton
        return origin

    async def _show(self, origin: Origin, incident: str) -> None:
        """The file first: a button to send is there only where people can read what it sends."""
        try:
            made = await self.document_of(incident)
            raw = made.document.canonical()
            whole = json.dumps(json.loads(raw), indent=1, ensure_ascii=False)
            await self.surface.client.files_upload_v2(
                channel=origin.channel,
                thread_ts=origin.thread_ts,
                content=whole,
                filename=f"ticket-{incident}.json",
                title="What would leave for your provider",
                initial_comment=sending.attached(facts_kept=made.facts_kept),
            )
        except (NothingKnown, *SLACK_TROUBLE) as why:
            log.warning("provider.not_shown", incident=incident, error=str(why)[:200])
            words = str(why) if isinstance(why, NothingKnown) else NOT_SHOWN
            await post(self.surface.client, origin.channel, origin.thread_ts, sending.refusal(words))
            return
        await self.cards.outbox.draft(incident, made.document.canonical())
        await self.cards.paint(incident)

    async def _send(self, pressed: Press, user: str) -> None:
        """Stored before the click is acknowledged; sent by whoever empties the outbox."""
        async with storing():
            came = await self.cards.outbox.put(pressed.incident, pressed.item, user)
        if came is Clicked.OLD:
            raise Refusal(OLD)
        self._paint(pressed.incident)

    def _paint(self, incident: str) -> None:
        self.surface.tasks.spawn("provider_card", self.cards.paint(incident))
