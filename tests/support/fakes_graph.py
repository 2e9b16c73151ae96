"""A small world for the graph: a few leaves, a scripted fleet, and an inbox."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from graph.context import GraphContext, Progress
from graph.engine.reference_data import ReferenceData
from graph.model.reasoner import (
    DeclinedAnswer,
    IdeaChoices,
    Ideas,
    IntentChoices,
    IntentGuess,
    ModelSpend,
    Objection,
    PromptMaterial,
    ReadingChoices,
    ReportExtraction,
)
from graph.state import InboxItem, InboxItemKind
from kb.taxonomy.expressions import Expression
from kb.taxonomy.taxonomy import Clue, Leaf, Taxonomy
from tests.support.clock import T0, SetClock
from tests.support.inventories import inventory
from tools.checks.check_types import Check, Command, Format
from tools.evidence import MemoryEvidence
from tools.fact import Fact, Status, Value, build_unobserved_fact
from tools.fleet.answers import AnswerCallback, CheckAnswer, CheckRequest, FleetAnswers
from tools.inventory.inventory import Inventory
from tools.inventory.sku import Sku


def clue(name: str, key: str, when: str, weight: float, *, decisive: bool = False, says: str = "") -> Clue:
    return Clue(name, key, when, weight, says or f"{key} is {{value}} on {{device}}", Expression(when), decisive)


def leaf(label: str, scope: str, *clues: Clue, share: float = 0.01, **more: Any) -> Leaf:
    row: dict[str, Any] = {
        "title": label.rpartition(".")[2].replace("_", " "),
        "description": "",
        "owner": "provider",
        "symptoms": (),
        "words": (),
        "checks": (),
        "confirms": (),
        "remedies": (),
        "suppresses": (),
        "customer_words": "",
        "next_step": f"mend {label}",
        "share_from": "",
        "sources": (),
        **more,
    }
    return Leaf(label=label, scope=scope, evidence=clues, share=share, **row)  # type: ignore[arg-type]  # tests name real scopes


LOST, HOT, OOM, DESYNC, NO_SM = "GPU.BUS.Lost", "GPU.THERMAL.Hot", "SYSTEM_SOFTWARE.MEMORY.Oom", "USER.CODE.Desync", "INTERCONNECT.IB.No_Sm"
SLOW_LINK, RACK = "INTERCONNECT.NVLINK.Slow", "OTHER.INFRA.Rack_Hot"

TAXONOMY = Taxonomy(
    {
        row.label: row
        for row in (
            leaf(
                LOST,
                "gpu",
                clue("xid79", "kernel.xid", "value == 79", 9, decisive=True, says="Xid 79 on {device}"),
                clue("rev_ff", "pcie.rev_ff", "value == true", 9, decisive=True),
                clue("job", "job.error", "value == 'cuda_no_device'", 1),
                clue("answers", "pcie.rev_ff", "value == false", -1),
                symptoms=("no_device",),
                words=("fallen off",),
                suppresses=(DESYNC,),
                owner="vendor",
            ),
            leaf(HOT, "gpu", clue("hot", "gpu.throttle.hw_thermal", "value == true", 9, decisive=True), symptoms=("slow",)),
            leaf(
                OOM,
                "node",
                clue("killed", "kernel.oom_kill", "size(value) > 0", 9, decisive=True, says="the kernel killed {value}"),
                clue("calm", "mem.oom_kills", "value == 0", -1),
                symptoms=("killed",),
                suppresses=(DESYNC,),
            ),
            leaf(DESYNC, "job", clue("said", "job.error", "value == 'collective_desync'", 9, decisive=True), owner="customer"),
            leaf(NO_SM, "cluster", clue("lid", "ib.sm_lid", "value == 0", 9, decisive=True)),
            leaf(
                SLOW_LINK,
                "node",
                clue("bw", "nccl.busbw_max", "expected != null && value < 0.8 * expected", 9, decisive=True),
                clue("replays", "nvlink.replay_errors", "value > 0", 3.5),
                symptoms=("slow",),
                confirms=("nccl1",),
            ),
            leaf(
                RACK,
                "rack",
                clue("hot", "gpu.throttle.hw_thermal", "value == true", 9, decisive=True),
                min_hosts=2,
                suppresses=(HOT,),
            ),
        )
    },
    {"GPU": "GPU", "USER": "The user's side"},
)


def check(name: str, *establishes: str, seconds: float = 2, exclusive: bool = False) -> Check:
    parse = Format(f"{name} text", lambda text: text.startswith(f"{name}:"), lambda text: [reading(line) for line in text.splitlines()])
    return Check(name, f"What does {name} say?", (Command("ask", ("true",)),), (parse,), establishes, seconds, exclusive=exclusive)


def reading(line: str) -> Fact:
    """Parse `dmesg: kernel.xid gpu3 79` into a fact."""
    name, key, device, value = line.split(maxsplit=3)
    return Fact(name.rstrip(":"), key, int(value) if value.isdigit() else value, None if device == "-" else device, line=line)


CHECKS: Mapping[str, Check] = {
    row.id: row
    for row in (
        check("smi", "gpu.throttle.hw_thermal", "gpu.count", seconds=3),
        check("dmesg", "kernel.xid", "kernel.oom_kill", seconds=3),
        check("lspci", "pcie.rev_ff"),
        check("ibstat", "ib.sm_lid", "ib.state"),
        check("mem", "mem.oom_kills", seconds=1),
        check("nvlink", "nvlink.replay_errors"),
        check("joblog", "job.error"),
        check("nccl1", "nccl.busbw_max", seconds=40, exclusive=True),
    )
}


def expected(host: str, key: str, device: str | None) -> Value:
    return {"gpu.count": 8, "nccl.busbw_max": 400.0}.get(key)


def lens(taxonomy: Taxonomy = TAXONOMY, racks: Mapping[str, str] | None = None) -> ReferenceData:
    return ReferenceData(taxonomy, CHECKS, expected, lambda host, kind: (racks or {}).get(host, ""))


def fact(host: str, name: str, key: str, value: Value, device: str | None = None, **more: Any) -> Fact:
    return Fact(name, key, value, device, host=host, time=T0 - timedelta(minutes=9), line=f"{key} {value} {device or ''}".strip(), **more)


def healthy(*hosts: str) -> list[Fact]:
    """Return facts of healthy hosts, with every check done."""
    return [
        row
        for host in hosts
        for row in (
            *(fact(host, "smi", "gpu.throttle.hw_thermal", False, f"gpu{n}") for n in range(4)),
            fact(host, "smi", "gpu.count", 8),
            Fact("dmesg", "kernel.xid", status=Status.ABSENT, host=host),
            *(fact(host, "lspci", "pcie.rev_ff", False, f"gpu{n}") for n in range(4)),
            fact(host, "ibstat", "ib.sm_lid", 1, "mlx5_0"),
            fact(host, "mem", "mem.oom_kills", 0),
            fact(host, "nvlink", "nvlink.replay_errors", 0, "gpu0"),
            Fact("joblog", "job.error", status=Status.ABSENT, host=host),
        )
    ]


def instead(facts: Sequence[Fact], *new: Fact) -> list[Fact]:
    """Replace facts with the same host, key and device by `new`."""
    gone = {(row.host, row.key, row.device) for row in new} | {
        (row.host, row.key, None) for row in new if row.key.startswith(("kernel.", "job."))
    }
    return [row for row in facts if (row.host, row.key, row.device) not in gone] + list(new)


@dataclass
class FakeFleet:
    """Answer `facts` by host and check; unobserved where `dark` gives a reason. Records requests."""

    facts: list[Fact] = field(default_factory=list)
    dark: dict[str, str] = field(default_factory=dict)  # `host` or `host/check` and why it is unobserved
    asked: list[CheckRequest] = field(default_factory=list)
    fresh: list[bool] = field(default_factory=list)
    clock: str = "virtual"
    checks: Mapping[str, Check] = field(default_factory=lambda: CHECKS)
    crash: int = 0  # number of runs that crash the process before one succeeds
    slow: tuple[str, ...] = ()  # `host/check` whose answers wait for `go`
    go: asyncio.Event = field(default_factory=asyncio.Event)
    before: Callable[[int], None] = field(default=lambda looks: None)  # called before each run with its number, from 1

    def invalidate_before(self, hosts: Iterable[str], since: datetime) -> None: ...

    async def run_checks(
        self, incident: str, asks: Sequence[CheckRequest], on_answer: AnswerCallback | None = None, *, fresh: bool = False
    ) -> FleetAnswers:
        self.asked += asks
        self.fresh.append(fresh)
        self.before(len(self.fresh))
        if self.crash:
            self.crash -= 1
            raise Killed
        answers = []
        for ask in sorted(asks, key=lambda ask: f"{ask.host}/{ask.check}" in self.slow):
            if f"{ask.host}/{ask.check}" in self.slow:
                await self.go.wait()
            answers.append(self._answer(ask))
            told = on_answer(answers[-1]) if on_answer else None
            if told is not None:
                await told
            await asyncio.sleep(0)
        seconds = sum(answer.seconds for answer in answers)
        return FleetAnswers(tuple(answers), seconds, max((answer.seconds for answer in answers), default=0.0))

    def _answer(self, ask: CheckRequest) -> CheckAnswer:
        seconds = self.checks[ask.check].seconds
        why = self.dark.get(ask.host) or self.dark.get(f"{ask.host}/{ask.check}")
        if why:
            status = Status.UNREACHABLE if ask.host in self.dark else Status.TIMEOUT
            return CheckAnswer(ask.host, ask.check, (build_unobserved_fact(ask.check, status, why, ask.host),), seconds, why)
        return CheckAnswer(ask.host, ask.check, tuple(row for row in self.facts if (row.host, row.check) == (ask.host, ask.check)), seconds)


class Killed(BaseException):
    """The process is killed; nothing catches this."""


@dataclass(frozen=True)
class Past:
    label: str
    score: float
    title: str = ""
    lesson: str = ""
    learnt: str = ""
    on: str = ""


@dataclass
class FakeHistory:
    past: list[Past] = field(default_factory=list)

    async def find_similar(self, text: str, k: int = 2, tenant: str | None = None) -> list[Past]:
        return self.past[:k]


GARBAGE = DeclinedAnswer("garbage")


@dataclass
class FakeModel:
    """Give scripted answers, otherwise decline. Records calls."""

    guess: ReportExtraction | DeclinedAnswer = GARBAGE  # extraction before any check
    found: ReportExtraction | DeclinedAnswer = GARBAGE  # extraction after a check
    thinks: Ideas | DeclinedAnswer = GARBAGE
    later: Ideas | DeclinedAnswer | None = None  # ideas when asked again; None repeats `thinks`
    objects: tuple[Objection, ...] | DeclinedAnswer = GARBAGE
    wants: IntentGuess | DeclinedAnswer = GARBAGE
    calls: list[str] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)  # findings of each call, in order
    earlier: Sequence[str] = ()
    claims: tuple[str, ...] = ()  # claims of the last call

    async def extract_report(self, incident: str, material: PromptMaterial, choices: ReadingChoices) -> ReportExtraction | DeclinedAnswer:
        self.calls.append("read")
        self.shown.append(f"{material.logs}\n{material.findings}".strip())
        return self.found if material.findings else self.guess

    async def propose_ideas(
        self, incident: str, material: PromptMaterial, findings: Sequence[str], choices: IdeaChoices
    ) -> Ideas | DeclinedAnswer:
        self.calls.append("explore")
        self.shown.append("\n".join((*findings, material.logs)))
        self.earlier = choices.earlier
        again = self.later is not None and self.calls.count("explore") > 1
        return self.later if again and self.later is not None else self.thinks

    async def critique_claims(
        self, incident: str, claims: Sequence[str], findings: Sequence[str]
    ) -> tuple[Objection, ...] | DeclinedAnswer:
        self.calls.append("critique")
        self.claims = tuple(claims)
        return self.objects[: len(claims)] if isinstance(self.objects, tuple) else self.objects

    async def classify_intent(self, incident: str, text: str, choices: IntentChoices) -> IntentGuess | DeclinedAnswer:
        self.calls.append("intent")
        self.shown.append(text)
        return self.wants

    def get_spend(self, incident: str) -> ModelSpend:
        return ModelSpend(len(self.calls), 100 * len(self.calls), 10 * len(self.calls), 0.001 * len(self.calls))


@dataclass
class World:
    """A turn's dependencies."""

    fleet: FakeFleet = field(default_factory=FakeFleet)
    history: FakeHistory = field(default_factory=FakeHistory)
    model: FakeModel | None = None
    evidence: MemoryEvidence = field(default_factory=MemoryEvidence)
    inbox: list[InboxItem] = field(default_factory=list)
    late: dict[int, InboxItem] = field(default_factory=dict)  # number of answers after which an item arrives
    progress: list[Progress] = field(default_factory=list)
    clock: SetClock = field(default_factory=SetClock)
    hosts: str = "n[1-4]"
    taxonomy: Taxonomy = TAXONOMY

    @property
    def inventory(self) -> Inventory:
        return inventory(defaults={"sku": "small"}, groups={"g": {"hosts": self.hosts}}, channels=[])

    async def _peek(self, incident: str) -> Sequence[InboxItem]:
        answers = sum(row.stage == "execute" for row in self.progress)
        return [*self.inbox, *(item for after, item in self.late.items() if answers >= after)]

    async def _watch(self, progress: Progress) -> None:
        self.progress.append(progress)

    def ports(self) -> GraphContext:
        return GraphContext(
            fleet=self.fleet,  # type: ignore[arg-type]  # the part of Fleet that the graph uses
            inventory=self.inventory,
            taxonomy=self.taxonomy,
            history=self.history,
            evidence=self.evidence,
            clock=self.clock,
            tell_every=0.01 if self.fleet.slow else 3.0,
            skus={"small": Sku("small", "a small machine", ("H100*",), 8, expect={"gpu.count": 8, "nccl.busbw_max": 400.0})},
            model=self.model,
            progress=self._watch,
            peek=self._peek,
        )


def item(text: str = "", kind: InboxItemKind = "mention", id: str = "", **more: Any) -> InboxItem:  # noqa: A002  # the row's own word
    return InboxItem(id=id or f"{kind}-1", kind=kind, incident="inc-1", at=T0, user="U1", text=text, **more)


Outcome = Literal["diagnosed", "no_fault", "abstained"]
