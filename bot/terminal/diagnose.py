"""The same conversation in a terminal: one diagnosis with a live view on stderr and the report on stdout. Proves no identity, so it approves nothing."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from rich.live import Live
from rich.text import Text

from bot.refusal import Refusal
from bot.run.world import World
from bot.settings import Settings
from bot.terminal.document import document
from bot.terminal.edge import tell
from bot.terminal.paper import Paper, json_line, paper
from bot.terminal.report import report_text, told_text
from bot.terminal.requests import DiagnoseRequest
from bot.terminal.shared import looking, note_without_inventory, refuse_without_inventory, stage_of
from graph.ports import Progress
from graph.reading.files import handed_in
from graph.reading.groups import hosts_named
from graph.report import Report
from graph.state import Incident, Item
from tools.inventory.ranges import BadRange

if TYPE_CHECKING:
    from bot.terminal.conversation import ToldReply
    from deploy.sandbox.cluster.doors.stage import Stage

BETWEEN = 60.0
"""Seconds between two messages of a case, on its clock."""


async def diagnose_once(settings: Settings, request: DiagnoseRequest, *, as_json: bool) -> int:
    """Diagnose and print, and what became of each reply where some are given; the exit code. Raises Refusal for what cannot be asked."""
    (refuse_without_inventory if request.hosts else note_without_inventory)(settings, request.inventory, request.case)
    stage = stage_of(request.case)
    async with looking(settings, request.inventory, stage) as world:
        state, report, told = await _turns(world, first_message(world, request, stage), request, stage, quiet=as_json)
    if as_json:
        replies = {"replies": [row.row() for row in told]} if request.replies is not None else {}
        tell(json_line(document(state, report) | replies))
    else:
        paper().print(report_text(state, report))
        for row in told:
            paper().print(told_text(row))
    return 0


def first_message(world: World, request: DiagnoseRequest, stage: "Stage | None") -> Item:
    """What was typed as the message it would be in Slack; a case brings its ticket and the files attached to it."""
    text = request.text or (stage.text if stage else "")
    data = {"hosts": _named(world, request.hosts)} if request.hosts else {}
    logs = (*(stage.attachments if stage else ()), *request.logs)
    attachments = tuple(handed_in(name, said) for name, said in logs)
    return Item(
        id="terminal-1",
        kind="mention",
        incident=_incident(request.case),
        at=world.ports.clock.now(),
        text=text,
        attachments=attachments,
        data=data,
    )


def _incident(case: Path | None) -> str:
    """A new id; that of a case is always the same, so that the same case gives the same answer."""
    if case:
        return f"inc-{sha256(case.read_bytes()).hexdigest()[:6]}"
    from bot.desk.inbox import new_incident_id  # brings Redis' client, which a case does without

    return new_incident_id()


def _named(world: World, ranges: str) -> str:
    inventory = world.ports.inventory
    try:
        return " ".join(host.name for host in inventory.pick(ranges))
    except BadRange as why:
        read = hosts_named(ranges, tuple(inventory.hosts), inventory.groups)  # `gpu-001..004`, as people write it
        if read.hosts and not read.unknown:
            return " ".join(read.hosts)
        raise Refusal(f"--hosts: {why}", 2) from why


@dataclass(slots=True)
class LiveLine:
    """What the live line shows: the stage, how many checks have answered, the open hypotheses."""

    live: Live | None
    latest: Progress = field(default_factory=lambda: Progress("", "summarise"))

    async def __call__(self, progress: Progress) -> None:
        self.latest = progress
        if self.live:
            self.live.update(_line(progress))


def _line(progress: Progress) -> Text:
    done = f" {progress.done}/{progress.total}" if progress.total else ""
    return Text.assemble((f"{progress.stage}{done} ", "bold cyan"), progress.line, ("  " + " · ".join(progress.hypotheses[:3]), "dim"))


@contextlib.contextmanager
def watched(*, quiet: bool) -> Iterator[LiveLine]:
    """A live line on stderr where somebody sits there."""
    err = Paper(stderr=True)
    if quiet or not err.is_terminal:
        yield LiveLine(None)
        return
    with Live(Text("…"), console=err, transient=True, refresh_per_second=8) as live:
        yield LiveLine(live)


async def _turns(
    world: World, item: Item, request: DiagnoseRequest, stage: "Stage | None", *, quiet: bool
) -> tuple[Incident, Report, "list[ToldReply]"]:
    """LangGraph, the heaviest import of all, waits until nothing can be refused any more."""
    from bot.terminal.conversation import PlayedThread, no_wait

    with watched(quiet=quiet) as watch:
        wait = partial(stage.wait, BETWEEN) if stage else no_wait
        return await PlayedThread(world, wait, watch).play(item, request.replies or ())
