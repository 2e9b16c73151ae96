"""Data of incident pages. Unreadable parts are noted on the page."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import structlog
from redis.exceptions import RedisError

from bot.incidents.dispatch.metrics import IncidentMetrics
from bot.refusal import Refusal
from bot.reports.figures import ExpectedBandwidthLookup, FigureInputs, build_empty_expectation, draw_figures, list_drawings
from bot.reports.operator_report import render_operator_page
from bot.reports.page import Page, sanitize_page
from bot.reports.report_data import IncidentReportData, list_people
from bot.reports.tenant_report import render_tenant_page
from bot.tenants.cards.view import SlotValueLookup, build_tenant_view, build_tenant_view_context, get_no_slot_values
from graph.incident_view import IncidentView
from graph.state import IncidentState, Origin
from kb.customers.cause_words import CustomerWords
from tools.clock import Clock
from tools.evidence import EvidenceStore
from tools.fact import Fact
from tools.inventory.inventory import Inventory
from tools.ledger.audit import ActionHistory
from tools.ledger.reader import LedgerReader
from tools.ledger.record import ActionRecord, Refused
from tools.ledger.states import State

log = structlog.get_logger()
APPROVED_STATES = frozenset({State.APPROVED, State.EXECUTING, State.DONE})
NO_FACTS_TEXT = "The facts behind the diagnosis are no longer stored, or not on this machine: there are no pictures of them."
NO_LEDGER_TEXT = "The ledger could not be read ({why}): what was tried and who decided is not known here."


class UnknownIncident(Refusal):
    """Nothing of it is stored."""

    def __init__(self, incident: str) -> None:
        super().__init__(f"{incident}: no such incident here, or it was not checked yet; its card shows its id")


class NotTenantIncident(Refusal):
    """It belongs to no customer, so there is no customer's page of it."""

    def __init__(self, incident: str) -> None:
        super().__init__(f"{incident} was reported by no customer, so it has no page for one; leave out --customer for your own")


async def use_id_as_name(user: str) -> str:
    return user


async def load_no_metrics(incident: str) -> IncidentMetrics | None:
    return None


@dataclass(frozen=True, slots=True)
class IncidentSources:
    """`ledger` is None if it could not be opened; `no_ledger` says why."""

    state_of: Callable[[str], Awaitable[IncidentState]]
    evidence: EvidenceStore
    clock: Clock
    ledger: LedgerReader | None = None
    no_ledger: str = ""
    course_of: Callable[[str], Awaitable[IncidentMetrics | None]] = load_no_metrics
    name_of: Callable[[str], Awaitable[str]] = use_id_as_name
    titles: Mapping[str, str] = field(default_factory=dict)  # titles of taxonomy leaves and branches
    expected: Callable[[Sequence[Fact]], ExpectedBandwidthLookup] = build_empty_expectation

    async def build_operator_page(self, incident: str) -> Page:
        """Build the sanitized operator page. Raises UnknownIncident."""
        rows = await self._load_rows(incident)
        records, problem = await self._load_records(incident)
        matter = await self._collect_figure_inputs(rows, records)
        material = IncidentReportData(
            rows,
            self.clock.now(),
            records,
            await self._load_history(rows),
            await self.course_of(incident),
            matter.names,
            self.titles,
            await asyncio.to_thread(lambda: draw_figures(list_drawings(matter))),
            tuple(filter(None, (*matter.unread, problem))),
        )
        return await asyncio.to_thread(lambda: sanitize_page(render_operator_page(material)))

    async def load_figure_inputs(self, incident: str) -> FigureInputs:
        """Load the charts' data. Raises UnknownIncident."""
        rows = await self._load_rows(incident)
        records, _ = await self._load_records(incident)
        return await self._collect_figure_inputs(rows, records)

    async def _collect_figure_inputs(self, incident_view: IncidentView, records: tuple[ActionRecord, ...] | None) -> FigureInputs:
        facts, unread = await self._load_facts(incident_view)
        people = list_people(incident_view, records or ())
        names = dict(zip(people, await asyncio.gather(*(self.name_of(user) for user in people)), strict=True))
        return FigureInputs(incident_view, facts, records or (), names, self.titles, self.expected, (unread,) if unread else ())

    async def build_tenant_page(self, incident: str, customer: "TenantReportContext", *, withdrawn: bool = False) -> Page:
        """Build the sanitized tenant page. Raises UnknownIncident, NotTenantIncident."""
        rows = await self._load_rows(incident)
        origin = rows.origin
        if origin is None or not origin.tenant:
            raise NotTenantIncident(incident)
        facts, _ = await self._load_facts(rows)
        records, _ = await self._load_records(incident)
        reader = build_tenant_view_context(customer.inventory, customer.words, origin, customer.get_language(origin), customer.known, facts)
        view = build_tenant_view(rows, reader, begun=_list_approved(records or ()), withdrawn=withdrawn)
        return await asyncio.to_thread(lambda: sanitize_page(render_tenant_page(view, rows.opened_at, self.clock.now())))

    async def _load_rows(self, incident: str) -> IncidentView:
        state = await self.state_of(incident)
        if not state.get("id"):
            raise UnknownIncident(incident)
        return IncidentView(state)

    async def _load_facts(self, incident_view: IncidentView) -> tuple[Sequence[Fact], str]:
        try:
            return await self.evidence.get_facts(incident_view.stored.get("facts", "")), ""
        except KeyError:
            return (), NO_FACTS_TEXT

    async def _load_records(self, incident: str) -> tuple[tuple[ActionRecord, ...] | None, str]:
        if self.ledger is None:
            return None, NO_LEDGER_TEXT.format(why=self.no_ledger or "none is set up")
        try:
            return tuple(await self.ledger.list_incident_records(incident)), ""
        except Refused as error:
            log.warning("postmortem.records_unreadable", incident=incident, why=str(error)[:200])
            return None, NO_LEDGER_TEXT.format(why=error)

    async def _load_history(self, incident_view: IncidentView) -> ActionHistory:
        if self.ledger is None or incident_view.opened_at is None:
            return ActionHistory()
        try:
            return await self.ledger.get_history(incident_view.id, incident_view.opened_at)
        except (Refused, RedisError) as error:
            log.warning("postmortem.history_unreadable", incident=incident_view.id, why=str(error)[:200])
            return ActionHistory(whole=False)


@dataclass(frozen=True, slots=True)
class TenantReportContext:
    inventory: Inventory
    words: CustomerWords
    languages: Mapping[str, str] = field(default_factory=dict)  # channel → language
    known: SlotValueLookup = get_no_slot_values

    def get_language(self, origin: Origin) -> str:
        return self.languages.get(origin.customer.channel, "en") if origin.customer else "en"


def _list_approved(records: Sequence[ActionRecord]) -> Collection[str]:
    return {row.approval for row in records if row.state in APPROVED_STATES}
