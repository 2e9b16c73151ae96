"""A thread about a simulated cluster: its diagnosis, and the answer to each message, parsed as in Slack."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, cast

from langgraph.checkpoint.memory import InMemorySaver

from deploy.sandbox.cluster.access.case_run import CaseRun, build_case_run
from deploy.sandbox.cluster.cases.case import SimulatedCase
from deploy.sandbox.cluster.cases.reader import parse_case
from graph.context import GraphContext, Progress, discard_progress
from graph.dialogue.intents import Intent
from graph.dialogue.read import parse_message
from graph.dialogue.said import ParsedMessage
from graph.incident.incident_graph import IncidentGraph, build_incident_graph, run_turn
from graph.incident.visibility import build_vocabulary
from graph.incident_view import IncidentView
from graph.report import Report
from graph.state import Attachment, InboxItem, InboxItemKind, IncidentState, Origin, Remediation
from kb.history.incidents import load_seeds
from kb.history.index import PastIncidentIndex
from kb.taxonomy.loader import load_taxonomy
from tools.checks import CHECKS
from tools.evidence import MemoryEvidence
from tools.fact import Fact
from tools.fleet.fleet import Fleet
from tools.inventory.sku import load_skus

HERE = Origin(kind="slack", team="T1", channel="", thread_ts="1.0", user="U1")
FAULT = {"id": "G07", "node": "gpu-003", "gpu": 5, "t": -420}  # a GPU fell off the bus


def case_of(*faults: dict[str, Any], nodes: Sequence[str] = ("gpu-001", "gpu-002", "gpu-003", "gpu-004"), **more: Any) -> SimulatedCase:
    """Return a case with these faults and the standard ticket."""
    ticket = {"text": "job 4711 hangs on gpu-[001-004]"}
    return parse_case({"nodes": list(nodes), "faults": list(faults), "ticket": ticket, **more}, default_id="talk")


@cache
def seed_history() -> PastIncidentIndex:
    """Return the shipped incidents, indexed once per worker. Tests that add lessons build their own."""
    return PastIncidentIndex(load_seeds())


@dataclass
class Talk:
    """One incident. Messages are `minutes` apart."""

    stage: CaseRun
    ports: GraphContext
    minutes: float = 1.0
    ran: list[tuple[str, str]] = field(default_factory=list)  # (host, check) pairs run in the latest turn
    graph: IncidentGraph = field(default_factory=lambda: build_incident_graph(InMemorySaver()))
    turns: int = 0
    origin: Origin = HERE

    @classmethod
    async def about(cls, *faults: dict[str, Any], **more: Any) -> "Talk":
        """Return a diagnosed thread; default fault: a GPU fell off the bus."""
        return await cls.of(case_of(*(faults or (FAULT,)), **more))

    @classmethod
    async def of(cls, case: SimulatedCase) -> "Talk":
        """Return a diagnosed thread of the case. Each worker diagnoses a case once; a test gets a copy."""
        key = repr(case)
        talk = _DIAGNOSED.pop(key, None)
        if talk is None:
            talk = cls.over(build_case_run(case, controller="slurm-controller"))
            await talk.reports(talk.stage.text)
        _DIAGNOSED[key] = talk  # most recently used last
        if len(_DIAGNOSED) > MAX_DIAGNOSED:
            del _DIAGNOSED[next(iter(_DIAGNOSED))]
        return talk.copied()

    @classmethod
    def over(cls, stage: CaseRun, origin: Origin = HERE) -> "Talk":
        """Return a thread without messages."""
        evidence, skus = MemoryEvidence(), load_skus()
        fleet = Fleet(stage.transport, stage.inventory, CHECKS, evidence, stage.clock, skus)
        ports = GraphContext(fleet, stage.inventory, load_taxonomy(), seed_history(), evidence, stage.clock, skus=skus)
        talk = cls(stage, ports, origin=origin)
        talk.ports = replace(talk.ports, progress=talk._watch)
        return talk

    def copied(self) -> "Talk":
        """Copy everything a turn changes: cluster, clock, the fleet's cache, evidence and checkpoints."""
        shared = (self.ports.taxonomy, self.ports.history, self.ports.skus, self.ports.inventory, self.ports.fleet.checks)
        memo: dict[int, Any] = {id(value): value for value in shared}
        saver = cast(InMemorySaver, self.graph.checkpointer)
        kept = copy.deepcopy((saver.storage, saver.writes, saver.blobs), memo)
        again = InMemorySaver()
        again.storage, again.writes, again.blobs = kept
        stage, ports, ran = copy.deepcopy((self.stage, replace(self.ports, progress=discard_progress, recent={}), self.ran), memo)
        talk = replace(self, stage=stage, ports=ports, ran=ran, graph=build_incident_graph(again))
        talk.ports = replace(ports, progress=talk._watch, recent=dict(self.ports.recent))
        return talk

    async def reports(self, text: str, *given: Attachment) -> Report:
        """Post the first message with attachments."""
        at = self.stage.clock.now()
        return await self._turn(InboxItem(id="first", kind="mention", incident="inc-1", at=at, user="U1", text=text, attachments=given))

    async def says(self, text: str, user: str = "U1") -> str:
        ports = self.ports
        names = build_vocabulary(ports.inventory, ports.taxonomy, ports.fleet.checks, HERE)
        return (await self.means(parse_message(text, names, ports.clock.now()), user)).reply

    async def asks(self, intent: Intent, text: str = "", user: str = "U1", **named: Any) -> str:
        """Return the answer to a message with this intent."""
        return (await self.means(ParsedMessage(intent=intent, text=text, **named), user)).reply

    async def means(self, message: ParsedMessage, user: str = "U1", **more: Any) -> Report:
        """Return the report on a parsed message; `more` extends the item's data."""
        self.stage.wait(60 * self.minutes)
        self.turns += 1
        number, at = f"said-{self.turns}", self.stage.clock.now()
        return await self._turn(
            InboxItem(
                id=number, kind=message.kind, incident="inc-1", at=at, user=user, text=message.text, data=message.build_item_data() | more
            )
        )

    async def presses(self, kind: InboxItemKind, user: str = "U1", **data: Any) -> Report:
        """Return the report on a click or form."""
        self.turns += 1
        at = self.stage.clock.now()
        return await self._turn(InboxItem(id=f"pressed-{self.turns}", kind=kind, incident="inc-1", at=at, user=user, data=data))

    async def rows(self) -> IncidentView:
        state = await self.graph.aget_state({"configurable": {"thread_id": "inc-1"}})
        return IncidentView(cast(IncidentState, state.values))

    async def facts(self) -> list[Fact]:
        """Return the facts of the latest turn."""
        return await self.ports.evidence.get_facts((await self.rows()).stored.get("facts", ""))

    async def put_up(self) -> list[Remediation]:
        """Return the remediations waiting for approval."""
        return [row for row in (await self.rows()).remediations if row.is_open and row.waiting_for == "approval"]

    async def _watch(self, progress: Progress) -> None:
        self.ran += [progress.ran] if progress.ran else []

    async def _turn(self, item: InboxItem) -> Report:
        self.ran.clear()
        return await run_turn(self.graph, self.ports, item, self.origin)


MAX_DIAGNOSED = 6  # threads kept, about 10 MB each
_DIAGNOSED: dict[str, Talk] = {}  # by case: the thread after its first turn; tests only get copies
