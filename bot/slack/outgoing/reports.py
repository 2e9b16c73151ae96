"""Where people read: the desk's board in Slack. A report is posted once, however often it is asked for; its metadata is the item's id."""

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

import structlog
from slack_sdk.web.async_client import AsyncWebClient

from bot.cards.blocks import Card
from bot.cards.incidents import diagnosis, living, notes, question, ticket
from bot.cards.incidents.handoff import Handoff, digests, evidence_text, handoff
from bot.cards.incidents.rows import NO_TITLES, Titles
from bot.cards.incidents.standing import standing
from bot.cards.trackers import opening
from bot.cards.trackers.opening import Offered
from bot.policy import channels as policy
from bot.postmortem.drawings import DrawnFrom
from bot.slack.client import SLACK_TROUBLE
from bot.slack.outgoing.elsewhere import UNBOUND, links
from bot.slack.outgoing.living import REPORT, no_state
from bot.slack.outgoing.outputs import Outputs, anything_to_show
from bot.slack.outgoing.owed import OwedEdits
from bot.slack.outgoing.pages import IncidentPages
from bot.slack.outgoing.posts import POSTING, Once, OriginOf, PostedCards
from bot.slack.outgoing.progress import ProgressCards
from bot.slack.people import People
from graph.ports import Progress
from graph.report import Report
from graph.rows import IncidentRows
from graph.state import REMIND, Incident, Origin, PersonsWord, Ticket
from tools.evidence import EvidenceStore
from tools.inventory.hosts import ChannelRow

log = structlog.get_logger()
TICKET, END, OVER = "rackmedic_ticket", "rackmedic_end", "rackmedic_over"
END_CARD, TICKET_CARD = "end", "ticket"
"""How these two are noted."""
NOTICE_AFTER_SECONDS = 60.0  # people who wait this long no longer look at the message that is edited
TOLD = frozenset({"recurred", "busy", "unreachable", "shows", "cannot", "given_back", "in_service"})
"""What people hear of a fix by a message of its own. All else is on the card of its action, on the living message, or in its last message."""
MOST_OUTPUTS = 40


class SlackBoard:
    """The board of incidents that live in Slack; others are passed over in silence."""

    def __init__(
        self,
        client: AsyncWebClient,
        cards: PostedCards,
        living: ProgressCards,
        people: People,
        origin_of: OriginOf,
        evidence: EvidenceStore,
        bound: Mapping[str, ChannelRow] = UNBOUND,
        titles: Titles = NO_TITLES,
        trackers: Offered = (),
    ) -> None:
        self._client = client
        self._cards = cards
        self._once = Once(client, cards)
        self._living = living
        self._people = people
        self._origin_of = origin_of
        self._evidence = evidence
        self._outputs_of = Outputs(client, cards, evidence, DrawnFrom(evidence, people.name))
        self._bound = bound
        self._titles = titles
        self._trackers = trackers
        self._owed = OwedEdits(client, cards, living.unsettled, (END_CARD, TICKET_CARD))
        self._state_of: Callable[[str], Awaitable[Incident]] = no_state

    def reads(self, state_of: Callable[[str], Awaitable[Incident]]) -> None:
        """From where stored incidents come."""
        self._state_of = state_of

    def draws(self, drawn_from: DrawnFrom) -> None:
        """From what pictures are drawn; without it from what is stored with the incident alone."""
        self._outputs_of.drawn_from = drawn_from

    def writes(self, pages: IncidentPages) -> None:
        """Who writes an incident down when somebody asks for that in its thread."""
        self._outputs_of.pages = pages

    async def progress(self, p: Progress) -> None:
        """News for the living card."""
        self._living.follow(p)

    async def report(self, incident: str, state: Incident, report: Report) -> None:
        """The report of a turn, then its ticket where there is one."""
        origin = await self._origin(incident, state)
        if origin is None or origin.kind != "slack":
            return
        here = await self._living.finish(incident, state, report)
        if not here and (made := await self._made(incident, state, report, origin)) is not None:
            card = await self._for(origin, made)
            await self._once.post(
                origin, incident, f"report:{report.item}", card, {"event_type": REPORT, "event_payload": {"item": report.item}}
            )
        if here and self._unheard(state, report):
            card = await self._for(origin, living.told(report))
            await self._once.post(
                origin, incident, f"over:{report.item}", card, {"event_type": OVER, "event_payload": {"item": report.item}}
            )
        await self._ended(origin, incident, state, report)
        if anything_to_show(report, state) and not await self._people.shared(origin.channel):
            await self._outputs_of.share(origin, incident, report, state)
            await self._outputs_of.ended(origin, incident, state)
        if await self._handed_off(incident, state):
            await self._ticket(origin, incident, handoff(state), str(state.get("facts", "")))
        await self._cards.keep(incident, closed=state.get("lifecycle") == "closed")
        await self._owed.note(incident)

    async def catch_up(self, incident: str) -> None:
        """The edits for which Slack had no turn when they were told, as things stand now."""
        origin = await self._origin_of(incident)
        if origin is None or origin.kind != "slack":
            return

        async def drawn(name: str) -> Card:
            state = await self._state_of(incident)
            return await self._end_card(origin, state) if name == END_CARD else await self._ticket_card(origin, incident, handoff(state))

        await self._owed.make(origin, incident, drawn)

    def _unheard(self, state: Incident, report: Report) -> bool:
        """Whether the end of a long look would be an edit alone. A card to decide, or a ticket, is a new message by itself."""
        rows = IncidentRows(state)
        return not report.actions and not report.reply and rows.ticket is None and rows.stats.makespan_seconds >= NOTICE_AFTER_SECONDS

    async def _handed_off(self, incident: str, state: Incident) -> bool:
        """Whether people got a ticket: closing an incident notes its cause in one that nobody was handed."""
        held = IncidentRows(state).ticket
        return held is not None and ((held.handed and held.state != "resolved") or bool(await self._cards.get(incident, TICKET_CARD)))

    async def _made(self, incident: str, state: Incident, report: Report, origin: Origin) -> Card | None:
        """The card of a report. What changed nothing is silent; a timer may ask once more what was asked."""
        item: Mapping[str, Any] = state.get("item") or {}
        if item.get("kind") == "ask" and not report.reply:
            return None
        if item.get("kind") == "action_result" and (not report.reply or (item.get("data") or {}).get("event") not in TOLD):
            return None
        if item.get("kind") == "timer" and not report.reply and not IncidentRows(state).woke_itself:
            asks = (item.get("data") or {}).get("why") == REMIND and report.questions
            return question.render(report.questions) if asks else None
        rows = IncidentRows(state)
        held = rows.ticket or Ticket()
        told = (item.get("data") or {}).get("said") or {}
        word = rows.correction or PersonsWord()
        users = (item.get("user"), told.get("person"), rows.owner, word.by, held.taken_by, held.closed_by)
        people = {str(user) for user in users if user}
        named, others = await self._with_names(report, people), await links(report, origin, self._origin_of, self._bound)
        return diagnosis.render(incident, named, rows.stats if state.get("stats") else None, others, self._titles)

    async def _ended(self, origin: Origin, incident: str, state: Incident, report: Report) -> None:
        """One message says that all fixes hold, and follows them to the end. What does not hold is told anew, and so is the next one that does."""
        rows, known = IncidentRows(state), await self._cards.get(incident, END_CARD)
        holds = rows.lifecycle in ("watching", "closed") and any(row.proven for row in rows.ladders)
        moved = report.reply and (state.get("item") or {}).get("kind") == "action_result"
        if not (moved and (holds or known)) and not (known and rows.lifecycle == "closed"):
            return
        card = await self._end_card(origin, state)
        ts = await self._once.post(origin, incident, END_CARD, card, {"event_type": END, "event_payload": {"item": report.item}})
        if known:
            await self._owed.edit(origin, incident, END_CARD, ts, card)
        if not holds:
            await self._cards.drop(incident, END_CARD)

    async def _end_card(self, origin: Origin, state: Incident) -> Card:
        rows = IncidentRows(state)
        return await self._for(origin, living.ended(standing(rows), rows.report.headline if rows.report else ""))

    async def _with_names(self, report: Report, people: set[str]) -> Report:
        """An answer that names people by their ids, said as people would. A name mentions nobody."""
        reply = report.reply
        for user in people:
            if user in reply:
                reply = reply.replace(user, await self._people.name(user))
        return report.model_copy(update={"reply": reply})

    async def _origin(self, incident: str, state: Incident) -> Origin | None:
        return IncidentRows(state).origin or await self._origin_of(incident)

    async def _for(self, origin: Origin, card: Card) -> Card:
        """The card, unless others can read the channel by now: then the thread is told that, and nothing of the inside."""
        shared = await self._people.shared(origin.channel)
        return notes.refused(policy.WHY_NOT["shared"]) if shared else card

    async def _ticket(self, origin: Origin, incident: str, whole: Handoff, facts: str) -> None:
        """One ticket card an incident, edited as it changes hands; the evidence file once, when it is new."""
        card = await self._ticket_card(origin, incident, whole)
        shown = hashlib.sha256(json.dumps(card.blocks).encode()).hexdigest()
        known = await self._cards.get(incident, TICKET_CARD)
        ts = await self._once.post(origin, incident, TICKET_CARD, card, {"event_type": TICKET, "event_payload": {"incident": incident}})
        if known and shown != await self._cards.get(incident, "ticket_shown"):
            await self._owed.edit(origin, incident, TICKET_CARD, ts, card)
        await self._cards.set(incident, "ticket_shown", shown)
        await self._file(origin, incident, whole, facts)

    async def _ticket_card(self, origin: Origin, incident: str, whole: Handoff) -> Card:
        named = whole.ticket.model_copy(
            update={
                "taken_by": await self._people.name(whole.ticket.taken_by),
                "closed_by": await self._people.name(whole.ticket.closed_by),
            }
        )
        return await self._for(origin, ticket.render(replace(whole, ticket=named), self._titles, opening.offers(incident, self._trackers)))

    async def _file(self, origin: Origin, incident: str, whole: Handoff, facts: str) -> None:
        """The evidence as a file. The ticket stands without it, so Slack's refusal is written down and no more."""
        name = f"{incident}-evidence.txt"
        before = await self._cards.claim(incident, "file")
        if before not in ("", POSTING) or await self._people.shared(origin.channel):
            return
        try:
            if before != POSTING or not await self._has_file(origin, name):
                text = evidence_text(whole, await self._outputs(whole, facts))
                await self._client.files_upload_v2(
                    channel=origin.channel,
                    thread_ts=origin.thread_ts,
                    content=text,
                    filename=name,
                    title=f"Evidence of incident {incident}",
                )
        except SLACK_TROUBLE as trouble:
            log.warning("board.evidence_not_uploaded", incident=incident, error=str(trouble)[:200])
            return
        await self._cards.set(incident, "file", name)

    async def _has_file(self, origin: Origin, name: str) -> bool:
        return any(file.get("name") == name for message in await self._once.thread(origin) for file in message.get("files") or [])

    async def _outputs(self, whole: Handoff, facts: str) -> dict[str, str]:
        """What is still kept of the outputs, the most telling first."""
        try:
            known = await self._evidence.facts(facts)
        except KeyError:
            known = []
        outputs = {sha: await self._evidence.get(sha) for sha in digests(whole, known)[:MOST_OUTPUTS]}
        return {sha: text for sha, text in outputs.items() if text is not None}
