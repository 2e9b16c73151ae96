"""What the Slack side works with, as one frozen value, and the ways in which it can fail: the store is away, the ledger says no, or it is
a refusal."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from redis.exceptions import OutOfMemoryError, ReadOnlyError, RedisError, ResponseError
from slack_sdk.web.async_client import AsyncWebClient

from bot.alerts.posted_alerts import PostedAlerts
from bot.cards.blocks import Card
from bot.incidents.cards import notes
from bot.incidents.cards.close_modal import LabelChoices
from bot.incidents.direct_messages import DirectMessages
from bot.incidents.dispatch.inbox import Inbox
from bot.incidents.dispatch.metrics_store import IncidentMetricsStore
from bot.incidents.dispatch.thread_activity import ThreadActivity
from bot.incidents.publishing.answer_outbox import AnswerOutbox
from bot.policy import channels as policy
from bot.policy.channels import SlackPlace
from bot.policy.roles import ACTS, PersonRole, RoleTable, require_role
from bot.refusal import Refusal
from bot.remediation.decisions import ApprovalServices
from bot.reports.incident_sources import TenantReportContext
from bot.reports.page_formats import PageFormat
from bot.slack.client import post_message
from bot.slack.people import People
from bot.store.quota_waiting_list import QuotaWaitingList
from bot.tasks import BackgroundTasks, KeyedLocks
from graph.context import Progress
from graph.dialogue.said import Vocabulary
from graph.state import IncidentState, Origin
from tools.clock import Clock
from tools.fact import Fact
from tools.inventory.inventory import ChannelRow
from tools.ledger.record import Refused

APPROVALS_NOT_SET_UP = "Approving is not set up here, so nothing can be run. Whoever runs me finds out why with `rackmedic doctor`."
STORE_TIMEOUT_SECONDS = 2.0
"""Slack waits three seconds for an ack."""


async def get_no_facts(incident: str) -> Sequence[Fact]:
    """No facts."""
    return ()


class StoreUnreachable(Exception):
    """What happened could not be noted down."""


class LedgerSays(Refusal):
    """The ledger's own refusal, as the person who clicked is told it."""

    def __init__(self, no: Refused) -> None:
        super().__init__(str(no) or str(type(no).__doc__))


class ProviderHandlersPort(Protocol):
    """Who takes the buttons that send tickets to a provider."""

    async def handle_click(self, payload: dict[str, Any]) -> None: ...


class TrackerHandlersPort(Protocol):
    """Who takes what opens tickets in trackers: the buttons, and the form that they open."""

    async def handle_click(self, payload: Mapping[str, Any]) -> None: ...

    async def handle_submission(self, payload: Mapping[str, Any]) -> None: ...


class LessonHandlersPort(Protocol):
    """Who takes what people decide about lessons: the buttons, and the form that one of them opens."""

    async def handle_click(self, payload: Mapping[str, Any]) -> None: ...

    async def handle_submission(self, payload: Mapping[str, Any]) -> None: ...


class ReportWriter(Protocol):
    """Who writes an incident down as a page and puts that into its thread."""

    def begin_report(self, incident: str, place: Origin, form: PageFormat = "pdf") -> None: ...

    def begin_tenant_report(self, incident: str, place: Origin, customer: TenantReportContext, *, withdrawn: bool) -> None: ...


class TenantUpdatesPort(Protocol):
    """Who takes what our people tell a customer: the button, the form, its preview."""

    async def handle_click(self, payload: dict[str, Any]) -> None: ...

    async def build_preview(self, payload: dict[str, Any]) -> dict[str, Any]: ...

    async def handle_send(self, payload: dict[str, Any]) -> None: ...


@dataclass(frozen=True, slots=True)
class HandlerContext:
    """Handed to every listener by the composition root."""

    client: AsyncWebClient
    inbox: Inbox
    wake: Callable[[str], Awaitable[None]]
    progress: Callable[[Progress], Awaitable[None]]
    state_of: Callable[[str], Awaitable[IncidentState]]
    people: People
    bound: Mapping[str, ChannelRow]
    hosts_of: Callable[[Origin], Collection[str]]
    """The hosts that a place may speak of."""
    offered: LabelChoices
    """Labels to choose from when closing."""
    clock: Clock
    tasks: BackgroundTasks
    pulse: ThreadActivity
    vocabulary_of: Callable[[Origin], Vocabulary]
    """What may be named in a place."""
    direct: DirectMessages
    outbox: AnswerOutbox
    alert_bots: frozenset[str] = frozenset()
    """Bot ids of the alert sources that may open incidents."""
    posted: Callable[[str, str, PostedAlerts], Awaitable[list[str]]] | None = None
    """Who takes the alerts that those list in a channel at a time; without it each of their messages is a report."""
    approvals: ApprovalServices | None = None
    """Where remedies may be approved; without it nothing is ever repaired."""
    courses: IncidentMetricsStore | None = None
    """Where it is kept what people think of a diagnosis; without it that is refused."""
    customers: Collection[str] = ()
    """Channels of customers, where they are served."""
    theirs: Collection[str] = ()
    """Labels of causes that are a customer's to mend."""
    facts_of: Callable[[str], Awaitable[Sequence[Fact]]] = get_no_facts
    """What an incident's latest look established."""
    in_order: KeyedLocks = field(default_factory=KeyedLocks)
    """By thread."""
    roles: RoleTable = field(default_factory=RoleTable)
    """Who may do what."""
    sending: "ProviderHandlersPort | None" = None
    """Where tickets are sent to a provider."""
    tracking: "TrackerHandlersPort | None" = None
    """Where tickets are opened in trackers."""
    waits: QuotaWaitingList | None = None
    """What of customers waits for their share, where they are served."""
    telling: "TenantUpdatesPort | None" = None
    """Where customers are told something."""
    teaching: "LessonHandlersPort | None" = None
    """Where lessons are decided about."""
    groups: Mapping[str, Collection[str]] = field(default_factory=dict)
    """The inventory's groups and their hosts."""
    writing: "ReportWriter | None" = None
    """Where incidents are written down."""
    patience: float = STORE_TIMEOUT_SECONDS
    """How long a click may take before it is acknowledged and goes on by itself."""

    async def admit_user(self, place: SlackPlace, user: str, *, fresh: bool = False) -> None:
        """Refuse a click, form or command that comes from where, or from whom, we do not serve. Asked each time; `fresh`: a decision hangs on it."""
        if fresh:
            self.people.refresh(place.channel, user)
        if place.channel in self.customers:
            raise policy.ChannelNotServed("mentions")
        policy.require_operator_channel(place, self.bound)
        if await self.people.is_shared(place.channel):
            raise policy.ChannelNotServed("shared")
        policy.require_colleague(await self.people.get_person(user), place.team)

    async def require_permission(self, act: str, user: str, channel: str, origin: Origin | None = None) -> None:
        """Refuse an admitted colleague who is none of those who may. Slack is asked where more than being an operator is needed; of votes on
        an action its own request says who may, and the ledger asks. `origin`: of the incident that it is about."""
        if ACTS[act].by_request or PersonRole.OPERATOR in self.roles.get_roles(act):
            return
        require_role(self.roles, act, await self.get_roles(user, channel, origin))

    async def get_roles(self, user: str, channel: str, origin: Origin | None = None) -> frozenset[PersonRole]:
        """What a colleague is in an operators' channel, or to an incident in it."""
        found = {PersonRole.OPERATOR}
        if user in await self.list_approvers(channel, origin):
            found.add(PersonRole.APPROVER)
        for role, named in self.roles.named_people:
            groups = [await self.people.list_members(group) for group in named.groups]
            if user in named.users or any(user in members for members in groups):
                found.add(role)
        return frozenset(found)

    async def list_approvers(self, channel: str, origin: Origin | None = None) -> frozenset[str]:
        """User ids of a channel's approvers; of what a customer reported, those of their channel where that has its own."""
        theirs = policy.find_tenant_channel(origin, self.bound) if origin else None
        row = theirs if theirs and theirs.approvers else self.bound.get(channel)
        members = await self.people.list_members(row.approvers) if row and row.approvers else frozenset()
        return members | (self.approvals.always if self.approvals else frozenset())

    def notify_stored(self, incident: str, *, opened: bool = False) -> None:
        """Something is in the inbox: wake a worker, and show at once that it was seen."""
        self.tasks.spawn_task("wake", self.wake(incident))
        if opened:
            self.tasks.spawn_task("first_card", self.progress(Progress(incident, "queued", "On it.")))

    async def queue_reply(self, place: Origin, key: str, card: Card) -> None:
        """Answer in a thread, or in a channel: the same card under the same key once, however crowded Slack is and whatever happens to us. Where it
        cannot be stored it is posted at once, and forgotten where Slack refuses it."""
        try:
            async with guard_store():
                await self.outbox.store_answer(place, key, card)
        except StoreUnreachable:
            self.tasks.spawn_task("say", post_message(self.client, place.channel, place.thread_ts, card))


@asynccontextmanager
async def guard_store(seconds: float = STORE_TIMEOUT_SECONDS) -> AsyncIterator[None]:
    """Trouble with Redis inside becomes StoreAway, in time for Slack to be told. A refusal of Redis is a bug and stays one."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except (TimeoutError, OSError) as away:
        raise StoreUnreachable from away
    except RedisError as error:
        if isinstance(error, ResponseError) and not isinstance(error, OutOfMemoryError | ReadOnlyError):
            raise
        raise StoreUnreachable from error


def render_refusal(no: Refusal) -> Card:
    """What whoever is refused is told, and where to go instead."""
    return notes.render_refusal(str(no), no.instead if isinstance(no, policy.ChannelNotServed) else ())


def require_approvals(surface: HandlerContext) -> ApprovalServices:
    """What clicks are carried to; a Refusal where nothing can be approved."""
    if surface.approvals is None:
        raise Refusal(APPROVALS_NOT_SET_UP)
    return surface.approvals


@asynccontextmanager
async def translate_ledger_errors() -> AsyncIterator[None]:
    """A refusal of the ledger becomes what the person is told."""
    try:
        yield
    except Refused as no:
        raise LedgerSays(no) from no
