"""Somebody opened the app's Home tab: what waits for them, what is theirs, what is open, what we hold, and the brakes.

And *Ask again to return* of a node that we hold, pressed there or in the incident's thread. The host is looked at first, which takes longer
than Slack waits, so whoever pressed is told afterwards: in the thread by a note of their own, on the Home tab above its list. So are those
who let in what waits for a customer's share, there or below what lists it in a channel.
"""

import asyncio
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import structlog

from bot.cards.approvals import brakes
from bot.cards.blocks import Block, Card
from bot.cards.buttons import OldButton, Press
from bot.cards.customers import waits
from bot.cards.incidents import held, home, notes
from bot.cards.incidents.home import HomeTab, OpenIncident
from bot.cards.personal import fleet
from bot.policy import channels as policy
from bot.policy.channels import Place
from bot.refusal import Refusal
from bot.slack.client import said
from bot.slack.context import StoreAway, Surface, approvals_of, ledger, storing
from bot.slack.incoming.clicker import LONGEST, Voter, voter_of
from bot.slack.incoming.open_work import MOST, all_work, brakes_now, room_now, waiting, waits_shown
from bot.slack.incoming.payloads import Payload
from graph.state import Origin

log = structlog.get_logger()
RECENT = timedelta(days=30)
"""How far back what was found is counted."""
LOOKING = "I look at the node first, and say here what I see."
LET_IN = "The report of {tenant} begins now, whatever their share says."
BEGUN = "That report waits no more: it has begun. `status` lists what waits still."


async def publish(surface: Surface, user: str, team: str, note: str = "") -> None:
    """The App Home tab of somebody: the incidents for the operators, a sentence for everybody else. `note`: what they are to read first."""
    try:
        await admit(surface, user, team)
        view = home.render(await _tab(surface, user, team, note), surface.clock.now())
    except Refusal as no:
        view = home.refused(str(no))
    except StoreAway:
        view = home.refused("My store does not answer, so I cannot say what is open. Look again in a minute.")
    await surface.client.views_publish(user_id=user, view=view)


async def admit(surface: Surface, user: str, team: str) -> None:
    """Refuses whoever may not see incidents."""
    policy.colleague(await surface.people.person(user), team)
    if not await surface.people.in_any(user, policy.operators_channels(surface.bound)):
        raise policy.NotAllowed(policy.NOT_A_MEMBER)


async def _tab(surface: Surface, user: str, team: str, note: str) -> HomeTab:
    incidents = await all_work(surface)
    titles = {label: title for rows in surface.offered.values() for label, title in rows}
    mine, standing = await _repairs(surface, f"{team}:{user}", incidents)
    glance = await _fleet(surface, incidents, titles)
    return HomeTab(incidents, user, titles, mine, await waits_shown(surface), standing, note, glance, await _not_served(surface))


async def _fleet(surface: Surface, incidents: list[OpenIncident], titles: Mapping[str, str]) -> list[Block]:
    """The groups at a glance, and what was found in a month."""
    found = None
    if surface.courses is not None:
        async with storing():
            courses, _ = await surface.courses.since(surface.clock.now() - RECENT)
        found = fleet.causes((row.labels for row in courses), titles)
    oldest = MOST if len(incidents) >= MOST else 0
    return fleet.render(fleet.glance(surface.groups, incidents), found, RECENT.days, oldest)


async def _not_served(surface: Surface) -> dict[str, bool | None]:
    """Channels of the operators that others read (True), or of which Slack does not say it (None)."""

    async def shared(channel: str) -> bool | None:
        try:
            return await surface.people.shared(channel)
        except Refusal:
            return None

    ours = policy.operators_channels(surface.bound)
    found = await asyncio.gather(*(shared(channel) for channel in ours))
    return {channel: by_others for channel, by_others in zip(ours, found, strict=True) if by_others is not False}


async def _repairs(surface: Surface, voter: str, incidents: list[OpenIncident]) -> tuple[list[Block], list[Block]]:
    """What waits for this person, and the brakes; nothing where nothing can be approved."""
    now, room = await brakes_now(surface), await room_now(surface, incidents)
    if now is None or room is None:
        return [], []
    mine = brakes.waiting(await waiting(surface, voter), "No action waits for your decision.")
    return mine, [*brakes.standing(now), *brakes.left(room)]


@dataclass(frozen=True, slots=True)
class AskedBack:
    """A press by somebody who may speak."""

    surface: Surface
    pressed: Press
    origin: Origin
    voter: Voter
    at_home: bool

    async def tell(self, card: Card) -> None:
        """Whoever pressed, and nobody else."""
        if self.at_home:
            await publish(self.surface, self.voter.user, self.voter.team, note=card.text)
            return
        channel, thread = self.origin.channel, self.origin.thread_ts
        await self.surface.client.chat_postEphemeral(channel=channel, user=self.voter.user, thread_ts=thread, **said(card))


async def press(surface: Surface, payload: Payload) -> None:
    """Raises a Refusal where nobody may press it there."""
    pressed, voter = held.read(payload), voter_of(payload)
    approvals_of(surface)
    async with storing():
        origin = await surface.inbox.origin(pressed.incident)
    if origin is None or origin.kind != "slack":
        raise OldButton
    surface.tasks.spawn("return", _ask(AskedBack(surface, pressed, origin, voter, _at_home(payload)), _thread(payload)))


async def _ask(on: AskedBack, thread: tuple[str, str]) -> None:
    try:
        await _admit(on, thread)
        await on.tell(notes.goes_on(LOOKING))
        async with storing(LONGEST), ledger():
            found = await approvals_of(on.surface).decisions.ask_return(on.pressed.incident, on.pressed.item, str(on.voter))
        card = notes.goes_on(f"{found.action.target} shows its fault no more: its return is put up for decision in the incident's thread.")
    except Refusal as no:
        card = notes.refused(str(no))
    except StoreAway:
        card = notes.not_stored(will_retry=False)
    except Exception:
        reference = secrets.token_hex(4)
        log.exception("home.bug", reference=reference, incident=on.pressed.incident)
        card = notes.bug(reference, notes.A_DECISION)
    await on.tell(card)


async def _admit(on: AskedBack, thread: tuple[str, str]) -> None:
    """A press counts in the incident's own thread, and on the Home tab of who may see incidents."""
    if on.voter.team != on.origin.team:
        raise policy.NotAllowed(policy.NOT_OURS)
    await on.surface.admit(Place(on.voter.team, on.origin.channel), on.voter.user, fresh=True)
    await on.surface.allow(f"button.{held.ASK}", on.voter.user, on.origin.channel, on.origin)
    if on.at_home:
        await admit(on.surface, on.voter.user, on.voter.team)
    elif thread != (on.origin.channel, on.origin.thread_ts):
        raise OldButton


async def let_in(surface: Surface, payload: Payload) -> None:
    """What waits of a customer's incident for their share begins at once. Raises a Refusal where nobody may press it there; on the Home tab it is told
    above its list, for Slack shows nothing else there."""
    pressed, voter = waits.read(payload), voter_of(payload)
    channel = "" if _at_home(payload) else str((payload.get("channel") or {}).get("id", ""))
    try:
        words = await _let_in(surface, pressed.incident, voter, channel)
    except Refusal as no:
        if channel:
            raise
        words = str(no)
    if channel:
        thread = (payload.get("container") or {}).get("thread_ts")
        work = surface.client.chat_postEphemeral(channel=channel, user=voter.user, thread_ts=thread, **said(notes.goes_on(words)))
        surface.tasks.spawn("let_in", work)
    else:
        surface.tasks.spawn("let_in", publish(surface, voter.user, voter.team, note=words))


async def _let_in(surface: Surface, incident: str, voter: Voter, channel: str) -> str:
    async with storing():
        origin = await surface.inbox.origin(incident)
    if surface.waits is None or origin is None or not origin.tenant:
        raise OldButton
    if voter.team != (origin.team or str((await surface.client.auth_test())["team_id"])):  # a ticket has no thread yet
        raise policy.NotAllowed(policy.NOT_OURS)
    if not channel:
        await admit(surface, voter.user, voter.team)
    await surface.admit(Place(voter.team, channel or origin.channel), voter.user, fresh=True)
    await surface.allow(f"button.{waits.LET_IN}", voter.user, channel or origin.channel)
    async with storing():
        if not await surface.waits.let_in(origin.tenant, incident):
            raise Refusal(BEGUN)
    log.info("shares.let_in", incident=incident, tenant=origin.tenant, by=str(voter))
    surface.stored(incident)
    return LET_IN.format(tenant=origin.tenant)


def _at_home(payload: Payload) -> bool:
    return str((payload.get("container") or {}).get("type", "")) == "view"


def _thread(payload: Payload) -> tuple[str, str]:
    where = payload.get("container") or {}
    return str((payload.get("channel") or {}).get("id", "")), str(where.get("thread_ts") or where.get("message_ts") or "")
