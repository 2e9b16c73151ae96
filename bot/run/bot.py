"""The bot put together: desk, acting half and Slack side over one store and one world. Started in order, stopped in the reverse.

A process plays one of three roles. Parts that its role does not need are built all the same, and are never woken.
What arrives later than it is needed (how the desk is woken) is built first and told at its start.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from bot.actions.asked import KnownFacts
from bot.actions.decisions import Approvals
from bot.actions.due import ActionIndex
from bot.actions.open_decisions import OpenDecisions
from bot.actions.queue import LateOnes
from bot.alerts.together import PostedTogether
from bot.cards.incidents.close_modal import choices
from bot.desk.causes import Causes
from bot.desk.courses import Courses, counted
from bot.desk.desk import Board, Desk, TurnLimits, Turns
from bot.desk.earlier import RememberingBoard
from bot.desk.inbox import Inbox
from bot.desk.lease import Leases
from bot.desk.pulse import BoardWithPulse, Pulse
from bot.desk.sweeper import Sweeper, timers_after
from bot.desk.wakeups import Wakeups, wakeups_for
from bot.inbound.routes import InboundRoute
from bot.policy.channels import bindings, customers_channels, heard
from bot.run.actions import Acting, ActingNeeds, nobody_works, open_actions
from bot.run.customers import customer_cards, customer_door, customer_shares, customer_telling, customers_own
from bot.run.direct_messages import answering, direct_messages
from bot.run.http.alerts import alert_intake, alert_threads
from bot.run.http.server import inbound
from bot.run.http.slack import slack_routes
from bot.run.keeping import Keeping
from bot.run.lessons import lesson_line
from bot.run.outward.pages import drawn_from, incident_pages
from bot.run.outward.provider import provider_line, ticket_threads
from bot.run.outward.trackers import TrackerLine, offered, site_trackers, tracker_line
from bot.run.retention import Retention
from bot.run.world import WallClock, World
from bot.settings import Settings
from bot.slack.client import SlackClient, slack_client
from bot.slack.context import Surface
from bot.slack.customers.door import CustomerDoor
from bot.slack.direct_messages import DirectMessages
from bot.slack.incoming.commands import answer_direct_message
from bot.slack.incoming.files import Fetch
from bot.slack.outgoing.approval_view import Known
from bot.slack.outgoing.approvals import cards_over
from bot.slack.outgoing.customers import BoardWithCustomers, CustomerCards
from bot.slack.outgoing.forsaken import Forsaken
from bot.slack.outgoing.living import LivingMessages
from bot.slack.outgoing.posts import KeptMessages, PostedCards, Unsettled
from bot.slack.outgoing.progress import ProgressCards
from bot.slack.outgoing.reactions import Reactions
from bot.slack.outgoing.reports import SlackBoard
from bot.slack.people import People
from bot.store.baselines import BaselineStore
from bot.store.closed import ClosedIncidents
from bot.store.earlier import EarlierIncidents
from bot.store.keys import ACTION_WAKEUPS, WAKEUPS
from bot.store.share_waits import ShareWaits
from bot.store.shared import SharedMarks
from bot.store.slack_turns import SlackTurns
from bot.store.store import Store
from bot.tasks import Background, end
from bot.trackers.tracker import Tracker
from graph.conversation.said import Vocabulary
from graph.incident.visible import visible_hosts, vocabulary
from graph.ports import Ports
from graph.state import Item, Origin
from graph.stored import StoredIncidents
from tools.evidence import DirectoryEvidence

if TYPE_CHECKING:
    from graph.incident.turns import IncidentTurns

Wake = Callable[[str], Awaitable[None]]
Drain = Callable[[], Awaitable[None]]

Role = Literal["all", "front", "worker"]
"""`front`: Slack's events into inboxes and ledger. `worker`: turns and remedies. `all`: both in one process."""


@dataclass(frozen=True, slots=True)
class Window:
    """The Slack side of it: through what people are seen, and what shows them where an incident stands."""

    client: SlackClient
    background: Background
    people: People
    cards: PostedCards
    inbox: Inbox
    titles: Mapping[str, str]
    living: LivingMessages
    board: SlackBoard
    direct: DirectMessages
    customers: CustomerCards | None
    """Where customers' channels are served."""
    trackers: Sequence[Tracker]
    """In which tickets may be opened."""


@dataclass(frozen=True, slots=True)
class Thinking:
    """What is read of the stored incidents, and what turns over them are told of the other incidents' decisions."""

    ports: Ports
    stored: StoredIncidents
    decided: OpenDecisions
    index: ActionIndex
    facts_of: KnownFacts


@contextlib.asynccontextmanager
async def assembled(settings: Settings, store: Store, world: World, role: Role = "all", name: str = "serve") -> AsyncIterator[Drain]:
    """The bot, listening and working as its role says; `name` is this process's among those of its host, the same after a restart.
    Yields how to bring to a stored step what is at work. Raises Refusal for what must be mended first."""
    works = role != "front"
    window = _window(settings, store, world)
    earlier = _earlier(settings, store, world)
    thinking = _thinking(store, replace(world.ports, earlier=earlier.recall), window)
    wakeups, of_actions = (_wakeups(store, role, name, stream) for stream in (WAKEUPS, ACTION_WAKEUPS))
    needs = _acting_needs(settings, store, world, window, thinking, wake=wakeups.wake, wakeups=of_actions)
    courses, pulse = Courses(store.redis), Pulse(store.redis, world.ports.clock)
    async with contextlib.aclosing(window.background), open_actions(needs, works=works) as acting:
        thinking.decided.reads(acting.ledger, acting.rights)
        if window.customers is not None:
            window.customers.reads(records_of=acting.ledger.of_incident)
        window.board.draws(drawn_from(world.ports, window.people, acting))
        waits = ShareWaits(store.redis, world.ports.clock)
        surface = replace(_surface(settings, window, thinking, acting, wakeups, courses, pulse), roles=world.policy.roles, waits=waits)
        line = provider_line(settings, store, thinking.ports, window.client, window.cards, window.inbox, window.people)
        states = line.states(surface, acting.ledger.of_incident)
        told = customer_telling(surface, window.customers, window.cards, states, world.ports.inventory, line.fetched)
        trackers = _trackers(settings, store, thinking.ports, window)
        pages_of = window.client, window.people, window.background, thinking.stored, acting, courses
        writing = incident_pages(world.ports, *pages_of)
        window.board.writes(writing)
        learning = lesson_line(settings, store, world, window.client, window.cards, window.inbox, window.people)
        surface = replace(learning.dressed(trackers.dressed(line.dressed(surface))), telling=told, writing=writing)
        alerts = alert_intake(settings, store, thinking.ports.inventory, surface) if role != "worker" else None
        surface = replace(surface, posted=PostedTogether(alerts.posted).posted if alerts else None)
        routes = (*line.routes(surface, states), *(alerts.routes if alerts else ()))
        door = customer_door(surface, window.customers, thinking.ports)
        answer_to = partial(answer_direct_message, surface)
        direct = answering(window.direct, answer_to, store.redis, world.ports.clock, settings.lease_seconds)
        if not works:
            async with _sending(wakeups), direct, _listening(settings, store, surface, door, routes):
                yield nothing_at_work
            return
        shown = line.watching(
            BoardWithCustomers(window.board, window.customers, window.living.unsettled) if window.customers else window.board
        )
        counting = counted(acting.watching(shown), courses, world.ports.clock)
        board = BoardWithPulse(learning.watching(RememberingBoard(counting, earlier, world.ports.clock)), pulse, world.ports.clock)
        fetch = Fetch(window.client, world.ports.evidence)
        desk = _desk(settings, store, window, _turns(store, thinking.ports), board, fetch, world)
        retention = Retention(settings, window.inbox.open_incidents, ClosedIncidents(store.redis), WallClock())
        sweepers = (Sweeper(window.inbox, wakeups), Forsaken(window.living, window.board.catch_up))
        keeping = [Keeping(kept).run] if isinstance(kept := world.ports.evidence, DirectoryEvidence) else []
        chores = (*(sweeper.run for sweeper in sweepers), retention.run, *keeping, *line.chores, *trackers.chores, learning.following.run)
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(_working(desk, wakeups, chores))
            await stack.enter_async_context(direct)
            if role == "all":
                await stack.enter_async_context(_listening(settings, store, surface, door, routes))
            yield desk.drain


async def nothing_at_work() -> None:
    """A front end has nothing to bring to an end."""


def _earlier(settings: Settings, store: Store, world: World) -> EarlierIncidents:
    hears = partial(heard, bound=bindings(world.ports.inventory.channels))
    return EarlierIncidents(store.redis, hears, timedelta(days=settings.closed_days))


def _window(settings: Settings, store: Store, world: World) -> Window:
    client = slack_client(settings.slack_bot_token.get_secret_value(), settings.slack_api_url, others=SlackTurns(store.redis))
    background, people = Background(), People(client, marks=SharedMarks(store.redis))
    cards = PostedCards(store.redis, keep_closed=timedelta(days=settings.closed_days))
    inbox = Inbox(store.redis, world.ports.clock)
    bound = bindings(world.ports.inventory.channels)
    titles = {leaf.label: leaf.title for leaf in world.ports.taxonomy.leaves.values()}
    living = LivingMessages(
        KeptMessages(client, cards),
        Reactions(client, cards, background),
        people,
        inbox.origin,
        Unsettled(store.redis, world.ports.clock),
        bound,
        titles,
        customers_own(world.ports.taxonomy),
    )
    trackers = site_trackers(settings, world.ports.clock)
    board = SlackBoard(
        client,
        cards,
        ProgressCards(living, background),
        people,
        inbox.origin,
        world.ports.evidence,
        bound,
        titles,
        offered(trackers),
    )
    direct = direct_messages(client, store.redis, world.ports.clock, background)
    customers = customer_cards(client, cards, inbox, people, world.ports) if settings.customers else None
    return Window(client, background, people, cards, inbox, titles, living, board, direct, customers, trackers)


def _thinking(store: Store, ports: Ports, window: Window) -> Thinking:
    """What turns are told, which tell the window how they go on; the window reads from what they store where an incident stands."""
    decided, causes = OpenDecisions(), Causes(store.redis, ports.clock)
    index = ActionIndex(store.redis, ports.clock)
    progress, peek = window.board.progress, window.inbox.peek
    others = replace(ports, keep=causes.keep, keepers=causes.keepers, treated=index.treated)
    seen = BaselineStore(store.redis)
    others = replace(others, remembered=seen.recall, remember=seen.keep)
    whole = replace(others, progress=progress, peek=peek, decisions=decided, late=LateOnes(index))
    stored = StoredIncidents(store.redis)
    facts_of = KnownFacts(whole.evidence, stored.state)
    window.living.reads(state_of=stored.state)
    window.board.reads(stored.state)
    if window.customers is not None:
        window.customers.reads(state_of=stored.state, facts_of=facts_of, recall=whole.earlier)
        window.living.reads(beside=window.customers.paint_quietly)
    return Thinking(whole, stored, decided, index, facts_of)


def _trackers(settings: Settings, store: Store, ports: Ports, window: Window) -> TrackerLine:
    return tracker_line(settings, store, ports, window.client, window.cards, window.inbox, window.people, window.titles, window.trackers)


def _turns(store: Store, ports: Ports) -> "IncidentTurns":
    """Imported here: a front end takes no turns, and is spared LangGraph's memory."""
    from graph.incident.turns import IncidentTurns
    from graph.memory.checkpoint import RedisSaver

    return IncidentTurns(RedisSaver(store.redis), ports)


def _acting_needs(
    settings: Settings, store: Store, world: World, window: Window, thinking: Thinking, wake: Wake, wakeups: Wakeups
) -> ActingNeeds:
    known = Known(thinking.index.told, thinking.facts_of)
    people, inbox = window.people, window.inbox
    return ActingNeeds(
        settings,
        store,
        world.transport,
        thinking.ports,
        state_of=thinking.stored.state,
        inbox=inbox,
        people=people,
        show=cards_over(window.client, window.cards, people, inbox.origin, known, thinking.ports, world.transport, window.living),
        wake=wake,
        wakeups=wakeups,
        approvers=world.policy.approvers,
    )


def _surface(
    settings: Settings, window: Window, thinking: Thinking, acting: Acting, wakeups: Wakeups, courses: Courses, pulse: Pulse
) -> Surface:
    """What the listeners are handed."""
    ports = thinking.ports
    return Surface(
        client=window.client,
        inbox=window.inbox,
        wake=wakeups.wake,
        progress=window.board.progress,
        state_of=thinking.stored.state,
        people=window.people,
        bound=bindings(ports.inventory.channels),
        hosts_of=partial(visible_hosts, ports.inventory),
        offered=choices(window.titles.items()),
        clock=ports.clock,
        tasks=window.background,
        pulse=pulse,
        vocabulary_of=places(ports),
        direct=window.direct,
        alert_bots=frozenset(settings.alert_bots),
        facts_of=thinking.facts_of,
        groups=ports.inventory.groups,
        courses=courses,
        theirs=customers_own(ports.taxonomy),
        customers=customers_channels(bindings(ports.inventory.channels)) if settings.customers else (),
        approvals=Approvals(acting.decisions, acting.ledger, acting.show, frozenset(settings.approvers)),
    )


def places(ports: Ports) -> Callable[[Origin], Vocabulary]:
    """What may be named in a place, put together once for each channel that the inventory binds."""
    known: dict[tuple[str, str], Vocabulary] = {}

    def of(origin: Origin) -> Vocabulary:
        place = origin.channel, origin.tenant
        if place not in known:
            known[place] = vocabulary(ports.inventory, ports.taxonomy, ports.fleet.checks, origin)
        return known[place]

    return of


def _wakeups(store: Store, role: Role, name: str, stream: str) -> Wakeups:
    """They travel unless nobody else works on this store."""
    alone = role == "all" and store.kind != "server"
    consumer = f"{socket.gethostname()}.{name}"
    return wakeups_for(store.url, alone=alone, receive=role != "front", name=consumer, stream=stream)


def _desk(settings: Settings, store: Store, window: Window, turns: Turns, board: Board, fetch: Fetch, world: World) -> Desk:
    inbox, clock, customers, shares = window.inbox, world.ports.clock, window.customers, world.policy.shares
    leases = Leases(store.redis, clock, seconds=settings.lease_seconds, url=store.url)
    limits = TurnLimits(keep_closed=timedelta(days=settings.closed_days))
    tickets = ticket_threads(store, window.client, window.cards, inbox, window.people, customers)
    posted, people_in = (window.client, window.cards, window.people), Pulse(store.redis, clock).people
    threads = alert_threads(settings, store, world.ports.inventory, posted, inbox, people_in, tickets.home)

    async def fetched(item: Item) -> Item:
        return await fetch(await threads.fetch(item))

    return Desk(
        inbox,
        leases,
        turns,
        board,
        clock=clock,
        timers=timers_after,
        fetch=fetched,
        home=threads.home,
        limits=limits,
        gate=customer_shares(shares, store, inbox, world.ports, customers) if customers or settings.intake_keys else None,
        weight=lambda tenant: shares.of(tenant).turns if tenant else 1,
    )


@contextlib.asynccontextmanager
async def _working(desk: Desk, wakeups: Wakeups, chores: Sequence[Callable[[], Coroutine[Any, Any, None]]]) -> AsyncIterator[None]:
    """Wake-ups, the sweep and other chores; on the way down running turns reach a stored step."""
    await wakeups.start(desk.accept)
    doing = [asyncio.create_task(chore()) for chore in chores]
    try:
        yield
    finally:
        await end(*doing)
        await desk.drain()
        await wakeups.aclose()


@contextlib.asynccontextmanager
async def _sending(wakeups: Wakeups) -> AsyncIterator[None]:
    """Others are woken; what this process itself is woken for is nothing."""
    await wakeups.start(nobody_works)
    try:
        yield
    finally:
        await wakeups.aclose()


@contextlib.asynccontextmanager
async def _listening(
    settings: Settings, store: Store, surface: Surface, door: CustomerDoor | None, routes: Sequence[InboundRoute]
) -> AsyncIterator[None]:
    """Slack's events reach us, over Socket Mode or HTTP, and whatever else is sent; the first thing to stop."""
    if settings.slack_signing_secret:
        async with inbound(settings, (*routes, *await slack_routes(settings, store, surface, door))):
            yield
        return
    from bot.slack.incoming.socket import listening  # Bolt: a worker needs none of it

    async with listening(surface, settings.slack_app_token.get_secret_value(), door), inbound(settings, routes):
        yield
