"""Somebody opened the app's Home tab: what waits for them, what is theirs, what is open, what we hold, and the brakes.

And *Ask again to return* of a node that we hold, pressed there or in the incident's thread. The host is looked at first, which takes longer
than Slack waits, so whoever pressed is told afterwards: in the thread by a note of their own, on the Home tab above its list.
"""

import secrets
from dataclasses import dataclass

import structlog

from bot.cards.approvals import brakes
from bot.cards.blocks import Block, Card
from bot.cards.buttons import OldButton, Press
from bot.cards.incidents import held, home, notes
from bot.cards.incidents.home import HomeTab, OpenIncident
from bot.policy import channels as policy
from bot.policy.channels import Place
from bot.refusal import Refusal
from bot.slack.client import said
from bot.slack.context import StoreAway, Surface, approvals_of, ledger, storing
from bot.slack.incoming.clicker import LONGEST, Voter, voter_of
from bot.slack.incoming.open_work import all_work, brakes_now, room_now, waiting
from bot.slack.incoming.payloads import Payload
from graph.state import Origin

log = structlog.get_logger()
LOOKING = "I look at the node first, and say here what I see."


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
    return HomeTab(incidents, user, titles, mine, standing, note)


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
    at_home = str((payload.get("container") or {}).get("type", "")) == "view"
    surface.tasks.spawn("return", _ask(AskedBack(surface, pressed, origin, voter, at_home), _thread(payload)))


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
    await on.surface.allow(f"button.{held.ASK}", on.voter.user, on.origin.channel)
    if on.at_home:
        await admit(on.surface, on.voter.user, on.voter.team)
    elif thread != (on.origin.channel, on.origin.thread_ts):
        raise OldButton


def _thread(payload: Payload) -> tuple[str, str]:
    where = payload.get("container") or {}
    return str((payload.get("channel") or {}).get("id", "")), str(where.get("thread_ts") or where.get("message_ts") or "")
