"""Results allowed for a turn with a bug in a node: the truth, an abstention, or a named broken contract; never a false
claim. Hosts answer as scripted, and each output is stored.
"""

import asyncio
from dataclasses import dataclass, replace
from typing import Any

from graph.model.reasoner import Objection, ReportExtraction, RequestedCheck
from graph.report import Report
from tests.graph.test_flow import Desk, world
from tests.support.fakes_graph import LOST, OOM, FakeModel, World, fact, item
from tools.fact import Fact

LOST_ON_N2 = fact("n2", "dmesg", "kernel.xid", 79, "gpu3")
KILLED_ON_N3 = fact("n3", "dmesg", "kernel.oom_kill", "python3")
Causes = frozenset[tuple[str, tuple[str, ...]]]
TRUE: Causes = frozenset({(LOST, ("n2",)), (OOM, ("n3",))})  # the true causes when both faults are present


async def with_outputs(told: World) -> World:
    """Store each fact's output under its digest."""
    lines: dict[tuple[str, str], list[str]] = {}
    for row in told.fleet.facts:
        lines.setdefault((row.host, row.check), [f"what {row.check} printed on {row.host}"]).append(row.line)
    kept = {look: await told.evidence.put_text("inc-1", "\n".join(rows)) for look, rows in lines.items()}
    told.fleet.facts = [replace(row, sha256=kept[row.host, row.check]) for row in told.fleet.facts]
    return told


@dataclass(frozen=True, slots=True)
class Came:
    """A story's end. `how`: `true`, `abstained`, or `broken: CONTRACT …`; anything else is a false claim."""

    how: str
    report: Report

    @property
    def safe(self) -> bool:
        return self.how != "lied"


def came(report: Report, true: Causes) -> Came:
    """Classify a report."""
    if report.broken:
        return Came(f"broken: {report.broken[0].partition(':')[0]}", report)
    if report.outcome == "abstained":
        return Came("abstained", report)
    said = {(row.label, row.hosts) for row in report.root_causes}
    healthy = report.outcome == "no_fault" and not true
    return Came("true" if healthy or (said and said == true) else "lied", report)


async def _both(model: FakeModel | None = None, *, hidden: bool = False) -> Came:
    sick: list[Fact] = [LOST_ON_N2, KILLED_ON_N3]
    told = await with_outputs(world(*sick, model=model))
    if hidden:
        told.fleet.dark = {"n2/dmesg": "sudo: a password is required", "n3/dmesg": "sudo: a password is required"}
    return came(await Desk(told).turn(item("jobs fail on n2 and n3")), frozenset() if hidden else TRUE)


async def _mended() -> Came:
    """Find a fault in one turn and repair it before the next."""
    told = await with_outputs(world(LOST_ON_N2))
    desk = Desk(told)
    await desk.turn(item("a GPU has fallen off on n2"))
    told.fleet.facts = world().fleet.facts
    await with_outputs(told)
    return came(await desk.turn(item("recheck", "recheck", id="again-1")), frozenset())


def _thinks(**more: Any) -> FakeModel:
    repeated = (RequestedCheck("smi", (), repeat=True),)
    return FakeModel(guess=ReportExtraction(causes=((OOM, 0.9),)), found=ReportExtraction(causes=((OOM, 0.9),), checks=repeated), **more)


STORIES = {
    "two faults on two hosts": lambda: _both(),
    "the looks that would tell are refused": lambda: _both(hidden=True),
    "a model reads and judges": lambda: _both(_thinks(objects=(Objection("holds"), Objection("holds")))),
    "a model reads where nothing can be seen": lambda: _both(_thinks(), hidden=True),
    "mended before the next look": lambda: _mended(),
}


def tell(story: str) -> Came:
    return asyncio.run(STORIES[story]())
