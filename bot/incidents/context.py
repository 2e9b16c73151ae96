"""What all Slack handlers share: clients, permission checks, and the errors that users see."""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from slack_sdk.web.async_client import AsyncWebClient

from bot.cards.blocks import Card
from bot.incidents.cards import notes
from bot.incidents.dispatch.inbox import Inbox
from bot.incidents.publishing.answer_outbox import AnswerOutbox
from bot.policy import channels as policy
from bot.policy.channels import SlackPlace
from bot.policy.roles import ACTS, PersonRole, RoleTable, require_role
from bot.refusal import Refusal
from bot.remediation.approval_decisions import ApprovalServices
from bot.slack.client import post_message
from bot.slack.people import People
from bot.store.unreachable import StoreUnreachable, guard_store
from bot.tasks import BackgroundTasks
from graph.context import Progress
from graph.state import IncidentState, Origin
from tools.clock import Clock
from tools.inventory.inventory import ChannelRow
from tools.ledger.refusals import Refused

APPROVALS_NOT_SET_UP = "Approvals are not set up here, so nothing can run. Run `rackmedic doctor` to find out why."


class LedgerSays(Refusal):
    """The ledger's refusal, shown to the person who clicked."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(str(refused))


@dataclass(frozen=True, slots=True)
class HandlerContext:
    """What handlers of every feature share."""

    client: AsyncWebClient
    inbox: Inbox
    wake: Callable[[str], Awaitable[None]]
    publish_progress: Callable[[Progress], Awaitable[None]]
    load_state: Callable[[str], Awaitable[IncidentState]]
    people: People
    channel_bindings: Mapping[str, ChannelRow]
    clock: Clock
    tasks: BackgroundTasks
    outbox: AnswerOutbox
    approvals: ApprovalServices | None = None  # without it, no remedy can be approved or run
    roles: RoleTable = field(default_factory=RoleTable)
    tenant_channels: Collection[str] = ()

    async def admit_user(self, place: SlackPlace, user: str, *, fresh: bool = False) -> None:
        """Raise Refusal if the user or the place is not served. `fresh`: ask Slack anew, because a decision depends on it."""
        if fresh:
            self.people.refresh(place.channel, user)
        if place.channel in self.tenant_channels:
            raise policy.ChannelNotServed("mentions")
        policy.require_operator_channel(place, self.channel_bindings)
        if await self.people.is_shared(place.channel):
            raise policy.ChannelNotServed("shared")
        policy.require_colleague(await self.people.get_person(user), place.team)

    async def require_permission(self, act: str, user: str, channel: str, origin: Origin | None = None) -> None:
        """Raise Refusal if an admitted user lacks the role for this act.

        Slack is asked only if the act needs more than the operator role. The ledger checks votes itself, against the terms
        of the action.
        """
        if ACTS[act].by_request or PersonRole.OPERATOR in self.roles.get_roles(act):
            return
        require_role(self.roles, act, await self.get_roles(user, channel, origin))

    async def get_roles(self, user: str, channel: str, origin: Origin | None = None) -> frozenset[PersonRole]:
        """Return the user's roles in an operator channel."""
        roles = {PersonRole.OPERATOR}
        if user in await self.list_approvers(channel, origin):
            roles.add(PersonRole.APPROVER)
        for role, holders in self.roles.named_people:
            groups = [await self.people.list_members(group) for group in holders.groups]
            if user in holders.users or any(user in members for members in groups):
                roles.add(role)
        return frozenset(roles)

    async def list_approvers(self, channel: str, origin: Origin | None = None) -> frozenset[str]:
        """Return the approvers' user ids. A tenant's channel may have approvers of its own."""
        binding = self.channel_bindings.get(channel)
        tenant_binding = policy.find_tenant_channel(origin, self.channel_bindings) if origin else None
        if tenant_binding and tenant_binding.approvers:
            binding = tenant_binding
        members = await self.people.list_members(binding.approvers) if binding and binding.approvers else frozenset()
        return members | (self.approvals.always_approvers if self.approvals else frozenset())

    def notify_stored(self, incident: str, *, opened: bool = False) -> None:
        """Wake a worker after an item was stored. `opened`: the incident is new, so show its first card."""
        self.tasks.spawn_task("wake", self.wake(incident))
        if opened:
            self.tasks.spawn_task("first_card", self.publish_progress(Progress(incident, "queued", "On it.")))

    async def queue_reply(self, place: Origin, key: str, card: Card) -> None:
        """Queue an answer that is posted once for each key, despite rate limits and crashes.

        If the store does not answer, post it at once and do not retry.
        """
        try:
            async with guard_store():
                await self.outbox.store_answer(place, key, card)
        except StoreUnreachable:
            self.tasks.spawn_task("say", post_message(self.client, place.channel, place.thread_ts, card))


def render_refusal(refusal: Refusal) -> Card:
    return notes.render_refusal(str(refusal), refusal.instead if isinstance(refusal, policy.ChannelNotServed) else ())


def require_approvals(context: HandlerContext) -> ApprovalServices:
    """Return the approval services. Raises Refusal if approvals are not set up."""
    if context.approvals is None:
        raise Refusal(APPROVALS_NOT_SET_UP)
    return context.approvals


@asynccontextmanager
async def translate_ledger_errors() -> AsyncIterator[None]:
    try:
        yield
    except Refused as error:
        raise LedgerSays(error) from error
