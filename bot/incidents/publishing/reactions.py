"""The status reaction on the message that called us; one of ours at a time.

Best effort: errors are logged; without the scope this process stops trying.
"""

from dataclasses import dataclass, field
from datetime import timedelta

import structlog
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from bot.incidents.cards.incident_status import STATUS_SIGNS, StatusSign
from bot.slack.client import SLACK_ERRORS
from bot.slack.posted_messages import PostedCards
from bot.tasks import BackgroundTasks
from graph.state import Origin

log = structlog.get_logger()
LOCK_WAIT = timedelta(seconds=15)  # how long one reaction waits for another
ALREADY_DONE_ERRORS = frozenset({"already_reacted", "no_reaction"})


@dataclass
class StatusReactions:
    """Callable by any process at any time."""

    client: AsyncWebClient
    cards: PostedCards
    tasks: BackgroundTasks
    _off: bool = field(default=False)

    def schedule_reaction(self, origin: Origin, incident: str, sign: StatusSign, turn: str) -> None:
        """Replace our reaction by this sign, unless its turn is over by then."""
        self.tasks.spawn_task("sign", self._show_reaction(origin, incident, sign, turn))

    async def _show_reaction(self, origin: Origin, incident: str, sign: StatusSign, turn: str) -> None:
        """Record the reaction before setting it, so that a crash leaves no second one."""
        wanted = STATUS_SIGNS[sign].reaction
        if self._off or not origin.thread_ts or await self.cards.get(incident, "sign") == wanted:
            return
        async with self.cards.hold_lock(incident, "sign", wait=LOCK_WAIT) as alone:
            if not alone or await self.cards.get(incident, "living_turn") != turn:
                return
            there = (await self.cards.get(incident, "sign")).split()
            await self.cards.set(incident, "sign", " ".join(dict.fromkeys((*there, wanted))))
            try:
                for name in there:
                    if name != wanted:
                        await self._call_slack("remove", origin, name)
                await self._call_slack("add", origin, wanted)
            except SLACK_ERRORS as error:
                self._handle_error(incident, error)
                return
            await self.cards.set(incident, "sign", wanted)

    async def _call_slack(self, what: str, origin: Origin, name: str) -> None:
        ask = self.client.reactions_add if what == "add" else self.client.reactions_remove
        try:
            await ask(channel=origin.channel, timestamp=origin.thread_ts, name=name)
        except SlackApiError as error:
            if error.response["error"] not in ALREADY_DONE_ERRORS:
                raise

    def _handle_error(self, incident: str, trouble: Exception) -> None:
        self._off = isinstance(trouble, SlackApiError) and trouble.response["error"] == "missing_scope"
        rest = "; add reactions:write to the app and install it again" if self._off else ""
        log.warning("reactions.not_shown", incident=incident, error=f"{str(trouble)[:200]}{rest}")
