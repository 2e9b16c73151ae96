"""Somebody opened the app's Home tab: what is open, what waits for this person, and the brakes."""

from bot.cards.approvals import brakes
from bot.cards.blocks import Block, header
from bot.cards.incidents import home
from bot.policy import channels as policy
from bot.refusal import Refusal
from bot.slack.context import StoreAway, Surface
from bot.slack.incoming.open_work import brakes_now, open_incidents, waiting


async def publish(surface: Surface, user: str, team: str) -> None:
    """The App Home tab of somebody: the incidents for the operators, a sentence for everybody else."""
    try:
        policy.colleague(await surface.people.person(user), team)
        if not await surface.people.in_any(user, policy.operators_channels(surface.bound)):
            raise policy.NotAllowed(policy.NOT_A_MEMBER)
        view = home.render(await open_incidents(surface), surface.clock.now(), await _repairs(surface, f"{team}:{user}"))
    except Refusal as no:
        view = home.refused(str(no))
    except StoreAway:
        view = home.refused("My store does not answer, so I cannot say what is open. Look again in a minute.")
    await surface.client.views_publish(user_id=user, view=view)


async def _repairs(surface: Surface, voter: str) -> list[Block]:
    """What waits for this person, and the brakes; nothing where nothing can be approved."""
    now = await brakes_now(surface)
    if now is None:
        return []
    mine = brakes.waiting(await waiting(surface, voter), "No action waits for your decision.")
    return [header("Waiting for me"), *mine, *brakes.standing(now)]
