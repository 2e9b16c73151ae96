"""Whose turn it is among an incident's fixes: the brakes are read, the wave is decided (`bot.actions.waves`), and what waits is noted for its card."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import structlog

from bot.actions.due import ActionIndex
from bot.actions.waves import Allowance, Queue, queues
from graph.state import Ladder
from tools.clock import Clock
from tools.inventory.hosts import Inventory
from tools.ledger.book import Book
from tools.ledger.record import Record

log = structlog.get_logger()
QUEUE, LET_GO = "queue ", "let go "
"""How the notes of an incident are named, each before the cause's label."""


@dataclass(frozen=True, slots=True)
class Queues:
    """Reads, decides and notes; proposes nothing."""

    book: Book
    index: ActionIndex
    inventory: Inventory
    clock: Clock

    async def late(self, incident: str, ladders: Sequence[Ladder], records: Collection[Record]) -> frozenset[str]:
        """The ids of ladders that are not to be put up now."""
        return frozenset(name for queue in (await self._of(incident, ladders, records)).values() for name in queue.late)

    async def note(self, incident: str, ladders: Sequence[Ladder]) -> list[str]:
        """Note what waits as of now. The actions whose cards tell something else by that."""
        told = await self.index.told(incident)
        news: list[str] = []
        for label, queue in (await self._of(incident, ladders, await self.book.of_incident(incident))).items():
            before = told.get(f"{QUEUE}{label}", "")
            if before != queue.text():
                await self.index.tell(incident, f"{QUEUE}{label}", queue.text())
                news += filter(None, (_newest(before), queue.newest))
        return news

    async def let_go(self, incident: str, label: str, ladders: Sequence[Ladder], by: str) -> None:
        """A human lets the next wave go after what failed so far; it is in the audit log before it counts."""
        queue = (await self._of(incident, ladders, await self.book.of_incident(incident))).get(label, Queue())
        await self.book.let_go(incident, label, queue.failed, by)
        before = (await self.index.told(incident)).get(f"{LET_GO}{label}", "").split()
        await self.index.tell(incident, f"{LET_GO}{label}", " ".join(sorted({*before, *queue.failed})))
        log.info("ladders.let_go", incident=incident, label=label, by=by, failed=list(queue.failed), waits=queue.waits)

    async def _of(self, incident: str, ladders: Sequence[Ladder], records: Collection[Record]) -> dict[str, Queue]:
        groups = {row.group for ladder in ladders if (row := self.inventory.hosts.get(ladder.target))}
        used = {group: await self.book.used(incident, group) for group in sorted(groups)}
        told = await self.index.told(incident)
        let_go = {name.removeprefix(LET_GO): words.split() for name, words in told.items() if name.startswith(LET_GO)}
        return queues(ladders, records, Allowance(self.book.brakes, self.inventory, used), let_go, self.clock.now())


@dataclass(frozen=True, slots=True)
class LateOnes:
    """The ids of an incident's ladders that wait for their turn, as it was noted last."""

    index: ActionIndex

    async def __call__(self, incident: str) -> frozenset[str]:
        told = await self.index.told(incident)
        notes = [json.loads(text) for name, text in told.items() if name.startswith(QUEUE) and text]
        return frozenset(name for note in notes for name in note.get("late", ()))


def behind(told: Mapping[str, str], label: str, approvals: Collection[str]) -> str:
    """What is noted to wait behind these actions of a cause; empty where another card tells of it, or nobody waits."""
    text = told.get(f"{QUEUE}{label}", "")
    return text if _newest(text) in approvals else ""


def _newest(text: str) -> str:
    return str(json.loads(text)["newest"]) if text else ""
