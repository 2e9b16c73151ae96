"""The same conversation in a terminal: one diagnosis with a live view on stderr and the report on stdout. Proves no identity, so it approves nothing."""

import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from fakeredis import FakeAsyncRedis
from rich.console import Console
from rich.live import Live
from rich.text import Text

from bot.desk.inbox import new_incident_id
from bot.refusal import Refusal
from bot.run.world import World, open_world
from bot.settings import Settings
from bot.terminal.document import document
from bot.terminal.report import report_text
from graph.incident.turns import IncidentTurns
from graph.memory.checkpoint import RedisSaver
from graph.ports import Progress
from graph.state import Attachment, Incident, Item, Origin, Report
from tools.inventory.ranges import BadRange

if TYPE_CHECKING:
    from deploy.sandbox.cluster.doors.stage import Stage

LARGEST_LOG = 512 << 20


@dataclass(frozen=True, slots=True)
class Question:
    """What was typed: the text, the hosts named by option, and the files that came along."""

    text: str
    hosts: str = ""
    inventory: Path | None = None
    attach: tuple[Path, ...] = ()
    case: Path | None = None


async def diagnose_once(settings: Settings, question: Question, *, as_json: bool) -> int:
    """Diagnose and print; the exit code. Raises Refusal for what cannot be asked."""
    async with _world(settings, question) as (world, ticket_text, attachments):
        text = question.text or ticket_text
        if question.hosts:
            text = f"{text}\nhosts: {_named(world, question.hosts)}"
        item = Item(
            id="terminal-1", kind="mention", incident=_incident(question), at=world.ports.clock.now(), text=text, attachments=attachments
        )
        state, report = await _turn(world, item, quiet=as_json)
    if as_json:
        print(json.dumps(document(state, report), ensure_ascii=False))
    else:
        Console().print(report_text(state, report))
    return 0


@contextlib.asynccontextmanager
async def _world(settings: Settings, question: Question) -> AsyncIterator[tuple[World, str, tuple[Attachment, ...]]]:
    files = tuple(_read(path) for path in question.attach)
    if question.case is None:
        async with open_world(replace_inventory(settings, question.inventory)) as world:
            yield world, "", files
        return
    stage = stage_of(question.case)
    given = tuple(Attachment(name=name, text=text) for name, text in stage.attachments)
    async with open_world(settings, transport=stage.transport, inventory=stage.inventory, clock=stage.clock) as world:
        yield world, stage.text, (*given, *files)


def stage_of(case: Path) -> "Stage":
    """The sandbox is looked for only here, so that the product runs without it."""
    try:
        from deploy.sandbox.cluster.cases.case import BadCase
        from deploy.sandbox.cluster.doors.stage import stage
    except ModuleNotFoundError as why:
        raise Refusal(f"--sandbox needs the sandbox, which is not installed here ({why.name})", 2) from why
    try:
        return stage(case)
    except BadCase as why:
        raise Refusal("\n".join([f"--sandbox: {why.source} is no usable case:", *why.problems]), 2) from why


def replace_inventory(settings: Settings, path: Path | None) -> Settings:
    """Settings with the inventory of the command line, where one was given."""
    return settings.model_copy(update={"inventory": path}) if path else settings


def _read(path: Path) -> Attachment:
    try:
        if path.stat().st_size > LARGEST_LOG:
            raise Refusal(f"--attach {path}: larger than {LARGEST_LOG >> 20} MiB; cut it to the hour of the failure", 2)
        return Attachment(name=path.name, text=path.read_bytes().decode("utf-8", "replace"))
    except OSError as why:
        raise Refusal(f"--attach {path}: {why.strerror}", 2) from why


def _incident(question: Question) -> str:
    """A new id; that of a case is always the same, so that the same case gives the same answer."""
    return f"inc-{sha256(question.case.read_bytes()).hexdigest()[:6]}" if question.case else new_incident_id()


def _named(world: World, ranges: str) -> str:
    try:
        return " ".join(host.name for host in world.ports.inventory.pick(ranges))
    except BadRange as why:
        raise Refusal(f"--hosts: {why}", 2) from why


@dataclass(slots=True)
class Watch:
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
def _watch(quiet: bool) -> Iterator[Watch]:
    err = Console(stderr=True)
    if quiet or not err.is_terminal:
        yield Watch(None)
        return
    with Live(Text("…"), console=err, transient=True, refresh_per_second=8) as live:
        yield Watch(live)


async def _turn(world: World, item: Item, quiet: bool) -> tuple[Incident, Report]:
    with _watch(quiet) as watch:
        turns = IncidentTurns(RedisSaver(FakeAsyncRedis()), replace(world.ports, progress=watch))
        report = await turns.run(item, Origin(kind="terminal"))
    return await turns.state(item.incident), report
