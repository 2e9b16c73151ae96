"""What the Slack handlers share, and how they fail."""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

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
from bot.store.unreachable import STORE_TIMEOUT_SECONDS, StoreUnreachable, guard_store
from bot.tasks import BackgroundTasks, KeyedLocks
from graph.context import Progress
from graph.dialogue.said import Vocabulary
from graph.state import IncidentState, Origin
from tools.clock import Clock
from tools.fact import Fact
from tools.inventory.inventory import ChannelRow
from tools.ledger.record import Refused

APPROVALS_NOT_SET_UP = "Approvals are not set up here, so nothing can run. Run `rackmedic doctor` to find out why."


async def get_no_facts(incident: str) -> Sequence[Fact]:
    return ()


class LedgerSays(Refusal):
    """The ledger's own refusal, as the person who clicked is told it."""

    def __init__(self, no: Refused) -> None:
        super().__init__(str(no) or str(type(no).__doc__))


class ReportWriter(Protocol):
    """Posts an incident as a page into its thread."""

    def begin_report(self, incident: str, place: Origin, form: PageFormat = "pdf") -> None: ...

    def begin_tenant_report(self, incident: str, place: Origin, customer: TenantReportContext, *, withdrawn: bool) -> None: ...


@dataclass(frozen=True, slots=True)
class HandlerContext:
    """Built by the composition root."""

    client: AsyncWebClient
    inbox: Inbox
    wake: Callable[[str], Awaitable[None]]
    progress: Callable[[Progress], Awaitable[None]]
    state_of: Callable[[str], Awaitable[IncidentState]]
    people: People
    bound: Mapping[str, ChannelRow]
    hosts_of: Callable[[Origin], Collection[str]]  # the hosts that a place may name
    offered: LabelChoices  # labels to choose from when closing
    clock: Clock
    tasks: BackgroundTasks
    pulse: ThreadActivity
    vocabulary_of: Callable[[Origin], Vocabulary]  # names that are known in a place
    direct: DirectMessages
    outbox: AnswerOutbox
    # Takes the alerts of a bot that lists several per message; without it, each message is a report.
    posted: Callable[[str, str, PostedAlerts], Awaitable[list[str]]] | None = None
    approvals: ApprovalServices | None = None  # without it, no remedy can be approved or run
    courses: IncidentMetricsStore | None = None  # stores feedback; without it, feedback is refused
    customers: Collection[str] = ()  # tenants' channels
    theirs: Collection[str] = ()  # labels of causes that a tenant mends
    facts_of: Callable[[str], Awaitable[Sequence[Fact]]] = get_no_facts  # facts of an incident's latest look
    in_order: KeyedLocks = field(default_factory=KeyedLocks)  # by thread
    roles: RoleTable = field(default_factory=RoleTable)
    waits: QuotaWaitingList | None = None  # incidents of tenants over their quota
    groups: Mapping[str, Collection[str]] = field(default_factory=dict)  # inventory group → hosts
    writing: "ReportWriter | None" = None
    # Seconds until a running click is acknowledged and continues in the background.
    patience: float = STORE_TIMEOUT_SECONDS

    async def admit_user(self, place: SlackPlace, user: str, *, fresh: bool = False) -> None:
        """Refuse a user or place that is not served. `fresh`: a decision depends on it."""
        if fresh:
            self.people.refresh(place.channel, user)
        if place.channel in self.customers:
            raise policy.ChannelNotServed("mentions")
        policy.require_operator_channel(place, self.bound)
        if await self.people.is_shared(place.channel):
            raise policy.ChannelNotServed("shared")
        policy.require_colleague(await self.people.get_person(user), place.team)

    async def require_permission(self, act: str, user: str, channel: str, origin: Origin | None = None) -> None:
        """Refuse an admitted user without the role for this act.

        Slack is asked only where more than the operator role is needed. The ledger checks votes against the action's
        own request.
        """
        if ACTS[act].by_request or PersonRole.OPERATOR in self.roles.get_roles(act):
            return
        require_role(self.roles, act, await self.get_roles(user, channel, origin))

    async def get_roles(self, user: str, channel: str, origin: Origin | None = None) -> frozenset[PersonRole]:
        """Return the user's roles in an operator channel."""
        found = {PersonRole.OPERATOR}
        if user in await self.list_approvers(channel, origin):
            found.add(PersonRole.APPROVER)
        for role, named in self.roles.named_people:
            groups = [await self.people.list_members(group) for group in named.groups]
            if user in named.users or any(user in members for members in groups):
                found.add(role)
        return frozenset(found)

    async def list_approvers(self, channel: str, origin: Origin | None = None) -> frozenset[str]:
        """Return the approvers' user ids; a tenant's channel may name its own."""
        theirs = policy.find_tenant_channel(origin, self.bound) if origin else None
        row = theirs if theirs and theirs.approvers else self.bound.get(channel)
        members = await self.people.list_members(row.approvers) if row and row.approvers else frozenset()
        return members | (self.approvals.always if self.approvals else frozenset())

    def notify_stored(self, incident: str, *, opened: bool = False) -> None:
        """Wake a worker; for a new incident show the first card."""
        self.tasks.spawn_task("wake", self.wake(incident))
        if opened:
            self.tasks.spawn_task("first_card", self.progress(Progress(incident, "queued", "On it.")))

    async def queue_reply(self, place: Origin, key: str, card: Card) -> None:
        """Queue an answer, posted once per key despite rate limits and crashes.

        Without the store it is posted at once, without a retry.
        """
        try:
            async with guard_store():
                await self.outbox.store_answer(place, key, card)
        except StoreUnreachable:
            self.tasks.spawn_task("say", post_message(self.client, place.channel, place.thread_ts, card))


def render_refusal(no: Refusal) -> Card:
    return notes.render_refusal(str(no), no.instead if isinstance(no, policy.ChannelNotServed) else ())


def require_approvals(handler_context: HandlerContext) -> ApprovalServices:
    """Return the approval services. Raises Refusal where nothing can be approved."""
    if handler_context.approvals is None:
        raise Refusal(APPROVALS_NOT_SET_UP)
    return handler_context.approvals


@asynccontextmanager
async def translate_ledger_errors() -> AsyncIterator[None]:
    try:
        yield
    except Refused as no:
        raise LedgerSays(no) from no
