"""`/rackmedic help`, `status`, and the brakes by hand: anybody of the operators may `stop`; only an approver lets go again.
In a direct message the same words are answered for whoever writes it, and nothing is opened, decided or looked at.
"""

from bot.cards.approvals import brakes
from bot.cards.blocks import Block, Card, card
from bot.cards.customers.phrases import phrase
from bot.cards.incidents import home
from bot.cards.personal import direct as words
from bot.policy import channels as policy
from bot.policy.channels import Place
from bot.refusal import Refusal
from bot.slack.context import Surface, approvals_of, ledger, storing
from bot.slack.incoming import grammar
from bot.slack.incoming.home import admit
from bot.slack.incoming.open_work import brakes_now, open_incidents, waiting, waits_shown
from bot.slack.incoming.payloads import Payload
from graph.state import Origin

NO_SUCH_BREAKER = "No breaker of that group is open. `/rackmedic status` lists those that are."
UNKNOWN_COMMAND = (
    "I know `/rackmedic status`, `/rackmedic stop [why]`, `/rackmedic resume` and `/rackmedic help`. "
    "To begin a diagnosis, mention me in the incident channel."
)


async def command(surface: Surface, payload: Payload) -> Card:
    """`/rackmedic …`: what to show to whoever typed it."""
    word, _, rest = grammar.people_see(str(payload.get("text") or "")).strip().partition(" ")
    match word.lower(), rest.strip():
        case ("" | "help", _):
            return home.phrases(grammar.help_rows())
        case ("stop", why):
            return await _stop(surface, payload, why)
        case ("resume", group):
            return await _resume(surface, payload, group)
        case ("status", ""):
            return await _status(surface, payload)
        case _:
            raise Refusal(UNKNOWN_COMMAND)


async def answer_direct_message(surface: Surface, team: str, user: str, wish: words.Wish) -> Card:
    """Return the answer to a direct message. A stranger is refused as everywhere."""
    who = await surface.people.person(user)
    ours = who.human and who.team == team
    if theirs := await _customers_channels(surface, user, ours=ours):
        return words.over_there(phrase("direct", surface.bound[theirs[0]].language), theirs)
    if not ours:
        raise policy.NotServed("im")
    channels = policy.operators_channels(surface.bound)[: policy.MOST_NAMED]
    match wish:
        case "help":
            return words.asked_help(channels)
        case "status":
            await admit(surface, user, team)
            return await _mine(surface, user)
        case "approvals":
            await admit(surface, user, team)
            return words.approvals(brakes.waiting(await waiting(surface, f"{team}:{user}"), "No action waits for your decision."))
        case _:
            return words.elsewhere(policy.WHY_NOT["im"], channels)


async def _customers_channels(surface: Surface, user: str, *, ours: bool) -> list[str]:
    """The channels in which a customer's person is served; none of somebody who is in a channel of the operators."""
    if not surface.customers or (ours and await surface.people.in_any(user, policy.operators_channels(surface.bound))):
        return []
    return [channel for channel in surface.customers if await surface.people.in_any(user, (channel,))]


async def _mine(surface: Surface, user: str) -> Card:
    """Open incidents of this person, and those in channels that they are in."""
    rows = await open_incidents(surface)
    may = {channel for channel in {row.channel for row in rows} if channel and await surface.people.in_any(user, (channel,))}
    mine = [row for row in rows if user in row.owners | {row.opened_by}]
    others = [row for row in rows if row not in mine and row.channel in may]
    return words.status(mine, others, surface.clock.now(), await waits_shown(surface, buttons=False))


async def _status(surface: Surface, payload: Payload) -> Card:
    await surface.admit(Place(str(payload["team_id"]), str(payload["channel_id"])), str(payload["user_id"]))
    await surface.allow("command.status", str(payload["user_id"]), str(payload["channel_id"]))
    listed = home.listing(await open_incidents(surface), surface.clock.now(), await waits_shown(surface))
    return card("Open incidents", [*listed, *await _repairs(surface)])


async def _stop(surface: Surface, payload: Payload, why: str) -> Card:
    """No remedy starts from now on. Everybody in the operators' channels is told who did it."""
    who, user = await _who(surface, payload, "stop")
    async with storing(), ledger():
        await approvals_of(surface).book.stop(who, why)
    return await _tell(surface, payload, brakes.stopped(await surface.people.name(user), why))


async def _resume(surface: Surface, payload: Payload, group: str) -> Card:
    """Let repairs go on; with a group's name, reset its breaker."""
    who, user = await _who(surface, payload, "resume")
    book = approvals_of(surface).book
    async with storing(), ledger():
        if group and group not in (await book.status()).breakers:
            raise Refusal(NO_SUCH_BREAKER)
        await (book.reset_breaker(group, who) if group else book.resume(who))
    return await _tell(surface, payload, brakes.resumed(await surface.people.name(user), group))


async def _repairs(surface: Surface) -> list[Block]:
    """How the brakes stand, and what waits for a decision."""
    now = await brakes_now(surface)
    if now is None:
        return []
    return [*brakes.standing(now), *brakes.waiting(await waiting(surface), "No action waits for a decision.")]


async def _who(surface: Surface, payload: Payload, word: str) -> tuple[str, str]:
    """(`TEAM:USER`, user) of whoever typed this word, if they may."""
    team, user, channel = (str(payload[name]) for name in ("team_id", "user_id", "channel_id"))
    await surface.admit(Place(team, channel), user, fresh=True)
    await surface.allow(f"command.{word}", user, channel)
    return f"{team}:{user}", user


async def _tell(surface: Surface, payload: Payload, note: Card) -> Card:
    for channel in policy.operators_channels(surface.bound):
        key = f"{channel} brakes {payload.get('trigger_id') or surface.clock.now().isoformat()}"
        await surface.say(Origin(kind="slack", team=str(payload["team_id"]), channel=channel), key, note)
    return note
