"""The sign under the message that called us, so that a channel reads as a board: exactly one of ours at a time.

A sign is worth no failure: what Slack refuses is written down, and where the app lacks the scope nobody asks again in this process.
"""

from dataclasses import dataclass, field
from datetime import timedelta

import structlog
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from bot.cards.incidents.standing import SIGNS, Sign
from bot.slack.client import SLACK_TROUBLE
from bot.slack.outgoing.posts import PostedCards
from bot.tasks import Background
from graph.state import Origin

log = structlog.get_logger()
PATIENCE = timedelta(seconds=15)
"""How long one sign waits for another."""
DONE = frozenset({"already_reacted", "no_reaction"})
"""It is so already."""


@dataclass
class Reactions:
    """`soon` may be called at any time, by any process; nobody waits for it."""

    client: AsyncWebClient
    cards: PostedCards
    tasks: Background
    _off: bool = field(default=False)

    def soon(self, origin: Origin, incident: str, sign: Sign, turn: str) -> None:
        """Put this sign there in place of ours, unless the turn that it is about is over by then."""
        self.tasks.spawn("sign", self._show(origin, incident, sign, turn))

    async def _show(self, origin: Origin, incident: str, sign: Sign, turn: str) -> None:
        """What is noted first is what may be there, so a crash leaves no second sign behind."""
        wanted = SIGNS[sign].reaction
        if self._off or not origin.thread_ts or await self.cards.get(incident, "sign") == wanted:
            return
        async with self.cards.alone(incident, "sign", wait=PATIENCE) as alone:
            if not alone or await self.cards.get(incident, "living_turn") != turn:
                return
            there = (await self.cards.get(incident, "sign")).split()
            await self.cards.set(incident, "sign", " ".join(dict.fromkeys((*there, wanted))))
            try:
                for name in there:
                    if name != wanted:
                        await self._asked("remove", origin, name)
                await self._asked("add", origin, wanted)
            except SLACK_TROUBLE as trouble:
                self._refused(incident, trouble)
                return
            await self.cards.set(incident, "sign", wanted)

    async def _asked(self, what: str, origin: Origin, name: str) -> None:
        ask = self.client.reactions_add if what == "add" else self.client.reactions_remove
        try:
            await ask(channel=origin.channel, timestamp=origin.thread_ts, name=name)
        except SlackApiError as no:
            if no.response["error"] not in DONE:
                raise

    def _refused(self, incident: str, trouble: Exception) -> None:
        self._off = isinstance(trouble, SlackApiError) and trouble.response["error"] == "missing_scope"
        rest = "; add reactions:write to the app and install it again" if self._off else ""
        log.warning("reactions.not_shown", incident=incident, error=f"{str(trouble)[:200]}{rest}")
