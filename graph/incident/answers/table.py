"""Which handler answers what: by the kind of an inbox item, and of messages by their intent."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from graph.conversation.intents import INTENTS, Intent
from graph.conversation.said import Said
from graph.engine.assess import Assessment
from graph.incident.answers.kinds import BY_KIND, answering, unknown
from graph.incident.case import Case
from graph.incident.concluded import Concluded
from graph.ports import Ports


@dataclass(frozen=True, slots=True)
class Asked:
    """What a handler answers from."""

    case: Case
    now: Assessment
    ports: Ports

    @property
    def said(self) -> Said:
        return self.case.message


Handler = Callable[[Asked], Awaitable[Concluded]]


async def answer(case: Case, now: Assessment, ports: Ports) -> Concluded:
    """The answer to the turn's item."""
    if case.stands:
        return unknown(case)
    if case.kind == "ask":
        return await BY_INTENT.get(case.message.intent, _not_understood)(Asked(case, now, ports))
    return BY_KIND[case.kind](case, now)


async def _not_understood(asked: Asked) -> Concluded:
    """One honest line, and what may have been meant."""
    meant = [f"“{INTENTS[one].form}”" for one in asked.said.suggestions if INTENTS[one].form]
    hint = f" Did you mean {' or '.join(meant)}?" if meant else " Say help for what I understand."
    return Concluded(answering(asked.case, f"I did not understand that, so I did nothing.{hint}"))


BY_INTENT: Final[Mapping[Intent, Handler]] = {Intent.NOT_UNDERSTOOD: _not_understood}
