"""What an incident's pages are made of, read from where it is kept. What cannot be read is said on the page; an incident that nobody knows is refused."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import structlog
from redis.exceptions import RedisError

from bot.cards.customers.reader import reader_of
from bot.cards.customers.view import Known, customer_view, nothing_known
from bot.desk.course import Course
from bot.postmortem.figures import Expected, FigureMatter, drawings_of, drawn, nothing_expected
from bot.postmortem.inside import page_for_operators
from bot.postmortem.material import IncidentMaterial, people_of
from bot.postmortem.page import Page, finished
from bot.postmortem.theirs import page_for_customer
from bot.refusal import Refusal
from graph.rows import IncidentRows
from graph.state import Incident, Origin
from kb.customers.words import CustomerWords
from tools.clock import Clock
from tools.evidence import EvidenceStore
from tools.fact import Fact
from tools.inventory.hosts import Inventory
from tools.ledger.book import Book
from tools.ledger.history import ActionHistory
from tools.ledger.record import Record, Refused
from tools.ledger.states import State

log = structlog.get_logger()
BEGUN = frozenset({State.APPROVED, State.EXECUTING, State.DONE})
NO_FACTS = "The facts behind the diagnosis are not kept any more, or not on this machine: there are no pictures of them."
NO_LEDGER = "The ledger could not be read ({why}): what was tried and who decided is not known here."


class UnknownIncident(Refusal):
    """Nothing is kept of it."""

    def __init__(self, incident: str) -> None:
        super().__init__(f"{incident}: no such incident here, or nothing was looked at yet; its card shows its id")


class NotACustomers(Refusal):
    """It is about no customer, so there is nobody for whom a page would leave the rest out."""

    def __init__(self, incident: str) -> None:
        super().__init__(f"{incident} was reported by no customer, so it has no page for one; leave out --customer for your own")


async def called_by_id(user: str) -> str:
    """Where nobody can be asked what people are called."""
    return user


async def no_course(incident: str) -> Course | None:
    """Not known how it went."""
    return None


@dataclass(frozen=True, slots=True)
class IncidentSources:
    """Where an incident is kept. `ledger` is None where it could not be opened, `no_ledger` says why."""

    state_of: Callable[[str], Awaitable[Incident]]
    evidence: EvidenceStore
    clock: Clock
    ledger: Book | None = None
    no_ledger: str = ""
    course_of: Callable[[str], Awaitable[Course | None]] = no_course
    name_of: Callable[[str], Awaitable[str]] = called_by_id
    titles: Mapping[str, str] = field(default_factory=dict)
    """Of the taxonomy's paths, branches too."""
    expected: Callable[[Sequence[Fact]], Expected] = nothing_expected

    async def for_operators(self, incident: str) -> Page:
        """The whole page, clean. Raises UnknownIncident."""
        rows = await self._rows(incident)
        records, why = await self._records(incident)
        matter = await self._matter(rows, records)
        material = IncidentMaterial(
            rows,
            self.clock.now(),
            records,
            await self._history(rows),
            await self.course_of(incident),
            matter.names,
            self.titles,
            await asyncio.to_thread(lambda: drawn(drawings_of(matter))),
            tuple(filter(None, (*matter.unread, why))),
        )
        return await asyncio.to_thread(lambda: finished(page_for_operators(material)))

    async def matter(self, incident: str) -> FigureMatter:
        """What its pictures are drawn from. Raises UnknownIncident."""
        rows = await self._rows(incident)
        records, _ = await self._records(incident)
        return await self._matter(rows, records)

    async def _matter(self, rows: IncidentRows, records: tuple[Record, ...] | None) -> FigureMatter:
        facts, unread = await self._facts(rows)
        people = people_of(rows, records or ())
        names = dict(zip(people, await asyncio.gather(*(self.name_of(user) for user in people)), strict=True))
        return FigureMatter(rows, facts, records or (), names, self.titles, self.expected, (unread,) if unread else ())

    async def for_customer(self, incident: str, customer: "CustomerSide", *, withdrawn: bool = False) -> Page:
        """What the customer may have, clean. Raises UnknownIncident, NotACustomers."""
        rows = await self._rows(incident)
        origin = rows.origin
        if origin is None or not origin.tenant:
            raise NotACustomers(incident)
        facts, _ = await self._facts(rows)
        records, _ = await self._records(incident)
        reader = reader_of(customer.inventory, customer.words, origin, customer.language_of(origin), customer.known, facts)
        view = customer_view(rows, reader, begun=_begun(records or ()), withdrawn=withdrawn)
        return await asyncio.to_thread(lambda: finished(page_for_customer(view, rows.opened_at, self.clock.now())))

    async def _rows(self, incident: str) -> IncidentRows:
        state = await self.state_of(incident)
        if not state.get("id"):
            raise UnknownIncident(incident)
        return IncidentRows(state)

    async def _facts(self, rows: IncidentRows) -> tuple[Sequence[Fact], str]:
        try:
            return await self.evidence.facts(rows.stored.get("facts", "")), ""
        except KeyError:
            return (), NO_FACTS

    async def _records(self, incident: str) -> tuple[tuple[Record, ...] | None, str]:
        if self.ledger is None:
            return None, NO_LEDGER.format(why=self.no_ledger or "none is set up")
        try:
            return tuple(await self.ledger.of_incident(incident)), ""
        except Refused as why:
            log.warning("postmortem.records_unreadable", incident=incident, why=str(why)[:200])
            return None, NO_LEDGER.format(why=why)

    async def _history(self, rows: IncidentRows) -> ActionHistory:
        if self.ledger is None or rows.opened_at is None:
            return ActionHistory()
        try:
            return await self.ledger.history(rows.id, rows.opened_at)
        except (Refused, RedisError) as why:
            log.warning("postmortem.history_unreadable", incident=rows.id, why=str(why)[:200])
            return ActionHistory(whole=False)


@dataclass(frozen=True, slots=True)
class CustomerSide:
    """What of the site a customer's page needs."""

    inventory: Inventory
    words: CustomerWords
    languages: Mapping[str, str] = field(default_factory=dict)
    """Channel → the language of whoever is in it."""
    known: Known = nothing_known

    def language_of(self, origin: Origin) -> str:
        """In which the customer is written to."""
        return self.languages.get(origin.customer.channel, "en") if origin.customer else "en"


def _begun(records: Sequence[Record]) -> Collection[str]:
    return {row.approval for row in records if row.state in BEGUN}
