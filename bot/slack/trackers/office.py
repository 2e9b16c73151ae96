"""Opening a ticket in a tracker from an incident's thread: what would leave is shown whole, a person confirms it, and it is stored before Slack is
told so. Whoever empties the outbox (`bot.trackers.courier`) does the rest, and paints here where it stands."""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta

import structlog

from bot.cards.buttons import OldButton
from bot.cards.incidents.rows import Titles, title
from bot.cards.trackers import following, opening
from bot.cards.trackers.following import FollowedTicket, TicketRemark, Way
from bot.cards.trackers.opening import TrackerForm
from bot.desk.inbox import Inbox
from bot.policy.channels import Place
from bot.refusal import Refusal
from bot.slack.client import SLACK_TROUBLE, SlackClient, post
from bot.slack.context import Surface, storing
from bot.slack.incoming.payloads import Payload, thread_of
from bot.slack.outgoing.posts import KeptMessages, Once
from bot.slack.people import People
from bot.store.outbox import Clicked, Outbox, Sending
from bot.trackers.courier import BEGAN, DONE, SHOWN, UNREAD, URL
from bot.trackers.draft import TrackerDraft, draft_of, plain_text, retitled, without_customers
from bot.trackers.tracker import RemoteRemark, Tracker, marker_of
from graph.rows import IncidentRows
from graph.state import Origin
from graph.stored import StoredIncidents
from tools.inventory.hosts import ChannelRow

log = structlog.get_logger()
MARK, MOVED, REMARK = "rackmedic_tracker", "rackmedic_tracker_moved", "rackmedic_tracker_remark"
WAIT = timedelta(seconds=12)
OLD = "The incident moved on meanwhile, so this is not what would be sent now. Open the form again to see it."
NOTHING = "There is nothing to send yet: this incident was not looked at."


@dataclass(frozen=True, slots=True)
class TrackerCards:
    """The message of each ticket elsewhere, painted whenever something moved."""

    client: SlackClient
    kept: KeptMessages
    inbox: Inbox
    people: People
    outbox: Outbox
    trackers: Mapping[str, Tracker]
    bound: Mapping[str, ChannelRow]

    async def paint(self, name: str) -> None:
        """Show where a row stands; say it as well where that is news. Slack's trouble is written down: it is painted again with the next news."""
        try:
            if where := await self._where(name):
                await self._paint(*where)
        except SLACK_TROUBLE as trouble:
            log.warning("trackers.not_painted", row=name, error=str(trouble)[:200])

    async def tell(self, name: str, said: RemoteRemark, beside: str) -> bool:
        """Quote what somebody wrote there, once however often this is asked for. False where Slack has not got it yet; where nobody may read it, it
        is dealt with."""
        try:
            where = await self._where(name)
            return where is None or await self._tell(*where, said, beside)
        except SLACK_TROUBLE as trouble:
            log.warning("trackers.not_told", row=name, error=str(trouble)[:200])
            return False

    async def _where(self, name: str) -> tuple[Origin, str, Tracker] | None:
        """The incident's thread, as long as it is one of the operators' own; None where nothing may be shown."""
        row = await self.outbox.row(name)
        origin, tracker = await self.inbox.origin(row.incident), self.trackers.get(row.place)
        if origin is None or origin.kind != "slack" or not origin.thread_ts or tracker is None:
            return None
        bound = self.bound.get(origin.channel)
        if bound is None or bound.kind != "operators" or await self.people.shared(origin.channel):
            log.warning("trackers.channel_of_others", incident=row.incident)
            return None
        return origin, name, tracker

    async def _tell(self, origin: Origin, name: str, tracker: Tracker, said: RemoteRemark, beside: str) -> bool:
        incident, card = name.partition(" ")[0], f"tracker:{tracker.name}:remark:{said.sign}"
        async with self.kept.cards.alone(incident, card, wait=WAIT) as alone:
            if alone:
                view = await self._view(await self.outbox.row(name), tracker)
                quoted = following.remark(view, TicketRemark(said.kind, said.by, said.lines, said.at, said.url), beside)
                about = {"event_type": REMARK, "event_payload": {"incident": incident, "tracker": tracker.name, "remark": said.sign}}
                await Once(self.client, self.kept.cards).post(origin, incident, card, quoted, about)
            return alone

    async def _paint(self, origin: Origin, name: str, tracker: Tracker) -> None:
        incident, card = name.partition(" ")[0], f"tracker:{tracker.name}"
        async with self.kept.cards.alone(incident, card, wait=WAIT) as alone:
            if not alone:
                return
            row = await self.outbox.row(name)
            view = await self._view(row, tracker)
            about = {"incident": incident, "tracker": tracker.name}
            await self.kept.put(origin, incident, card, following.render(view), {"event_type": MARK, "event_payload": about})
            stands = f"{row.ticket}/{row.state}"
            if view.way == "there" and row.state and await self.kept.cards.get(incident, f"{card}:told") != stands:
                mark = {"event_type": MOVED, "event_payload": {**about, "stands": stands}}
                await post(self.client, origin.channel, origin.thread_ts, following.moved(view), mark)
                await self.kept.cards.set(incident, f"{card}:told", stands)

    async def _view(self, row: Sending, tracker: Tracker) -> FollowedTicket:
        return FollowedTicket(
            row.incident,
            tracker.name,
            tracker.words,
            _way(row),
            by=await self.people.name(row.by),
            shown=row.notes.get(SHOWN, "") or row.ticket,
            url=row.notes.get(URL, ""),
            state=row.state,
            done=row.notes.get(DONE) == "1",
            tells=tracker.tells,
            trouble=row.refused or row.trouble,
            tries=row.tries,
            unread=row.notes.get(UNREAD, ""),
            closed=await self.inbox.lifecycle(row.incident) == "closed",
        )


def _way(row: Sending) -> Way:
    if row.refused:
        return "refused"
    if not row.pending:
        return "there"
    return "doubt" if row.notes.get(BEGAN) else "waiting"


@dataclass(frozen=True, slots=True)
class TrackerDesk:
    """Its buttons and its form, handed to the listeners. A colleague in the incident's own thread uses them, and nobody else: incidents live in
    operators' channels alone. `customers`: names of tenants, none of which leaves."""

    surface: Surface
    cards: TrackerCards
    titles: Titles
    customers: Collection[str]

    async def press(self, payload: Payload) -> None:
        """Show what would leave. Raises Refusal."""
        pressed = opening.read(payload)
        tracker = self._tracker(pressed.item)
        user, channel = str(payload["user"]["id"]), str(payload["channel"]["id"])
        team = str(payload["team"]["id"])
        await self.surface.admit(Place(team, channel), user, fresh=True)
        await self.surface.allow(f"button.{payload['actions'][0]['action_id']}", user, channel)
        async with storing():
            origin = await self.surface.inbox.origin(pressed.incident)
            known = await self.surface.inbox.find(team, channel, thread_of(payload))
        if origin is None or known != pressed.incident or origin.channel != channel:
            raise OldButton
        form = await self._form(pressed.incident, origin, tracker)
        await self.surface.client.views_open(trigger_id=str(payload["trigger_id"]), view=opening.render(form))

    async def submit(self, payload: Payload) -> None:
        """Send what was shown, under the title that the person gave it. Raises Refusal, and BadForm for what can be mended in it."""
        form = opening.filled(payload)
        tracker = self._tracker(form.tracker)
        team, user = str(payload["team"]["id"]), str(payload["user"]["id"])
        async with storing():
            origin = await self.surface.inbox.origin(form.incident)
        if origin is None or origin.team != team:
            raise OldButton
        await self.surface.admit(Place(team, origin.channel), user, fresh=True)
        await self.surface.allow(f"form.{payload['view']['callback_id']}", user, origin.channel, origin)
        name = f"{form.incident} {tracker.name}"
        async with storing():
            await self._once(name, tracker)
            shown = await self.cards.outbox.drafted(name, form.digest)
            if shown is None:
                raise Refusal(OLD)
            sent = retitled(TrackerDraft.model_validate_json(shown), form.title, self.customers)
            came = await self.cards.outbox.put(name, form.digest, user, instead=sent.stored(), once=True)
        if came is Clicked.OLD:
            raise Refusal(OLD)
        self.surface.tasks.spawn("tracker_card", self.cards.paint(name))

    async def _form(self, incident: str, origin: Origin, tracker: Tracker) -> TrackerForm:
        name = f"{incident} {tracker.name}"
        async with storing():
            await self._once(name, tracker)
            state = await self.surface.state_of(incident)
        if IncidentRows(state).report is None:
            raise Refusal(NOTHING)
        draft = await asyncio.to_thread(draft_of, incident, state, origin, self.titles, self.customers)
        async with storing():
            digest = await self.cards.outbox.draft(name, draft.stored())
        text, fields = plain_text(draft, marker_of(incident)), tracker.fields(draft)
        return TrackerForm(incident, tracker.name, tracker.words, digest, draft.title, text, fields, tracker.title_most)

    async def _once(self, name: str, tracker: Tracker) -> None:
        """One ticket for each incident and tracker."""
        row = await self.cards.outbox.row(name)
        if row.pending:
            raise Refusal(f"It is on its way to {tracker.words} already; the thread says how far it is.")
        if row.ticket and not row.refused:
            raise Refusal(f"{tracker.words} has it already: {row.notes.get(SHOWN) or row.ticket}.")

    def _tracker(self, name: str) -> Tracker:
        tracker = self.cards.trackers.get(name)
        if tracker is None:
            raise OldButton
        return tracker


@dataclass(frozen=True, slots=True)
class Closings:
    """With what cause an incident was closed, as it may be told elsewhere."""

    stored: StoredIncidents
    titles: Titles
    customers: Collection[str]

    async def of(self, incident: str) -> str | None:
        """None while it is open."""
        rows = IncidentRows(await self.stored.state(incident))
        if rows.lifecycle != "closed":
            return None
        held = rows.ticket
        said = [title(held.true_label, self.titles), held.true_cause] if held else []
        return without_customers(". ".join(word for word in said if word) or "no cause was noted", self.customers)
