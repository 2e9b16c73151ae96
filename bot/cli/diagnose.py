"""`rackmedic diagnose`: one diagnosis. Approves nothing, as a terminal proves no identity."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from rich.live import Live
from rich.text import Text

from bot.app.diagnosis_runtime import DiagnosisRuntime
from bot.cli.cluster_access import open_command_runtime, open_stage, refuse_without_inventory, warn_without_inventory
from bot.cli.command_requests import DiagnoseRequest
from bot.cli.command_runtime import print_text
from bot.cli.diagnosis_document import build_diagnosis_document
from bot.cli.diagnosis_output import render_reply_outcome, render_report
from bot.cli.safe_console import SafeConsole, format_json_line, open_console
from bot.refusal import Refusal
from bot.settings import Settings
from graph.context import Progress
from graph.extraction.command_hosts import resolve_hosts_and_groups
from graph.extraction.uploaded_files import build_attachment
from graph.report import Report
from graph.state import InboxItem, IncidentState
from tools.inventory.host_ranges import BadRange

if TYPE_CHECKING:
    from bot.cli.local_thread import ReplyOutcome
    from deploy.sandbox.cluster.access.case_run import CaseRun

MESSAGE_INTERVAL_SECONDS = 60.0  # time between messages, on a case's clock


async def run_diagnose_command(settings: Settings, request: DiagnoseRequest, *, as_json: bool) -> int:
    """Diagnose, answer the replies, print."""
    (refuse_without_inventory if request.hosts else warn_without_inventory)(settings, request.inventory, request.case)
    stage = open_stage(request.case)
    async with open_command_runtime(settings, request.inventory, stage) as world:
        state, report, outcomes = await _run_turns(world, build_first_message(world, request, stage), request, stage, quiet=as_json)
    if as_json:
        replies = {"replies": [outcome.to_json_row() for outcome in outcomes]} if request.replies is not None else {}
        print_text(format_json_line(build_diagnosis_document(state, report) | replies))
    else:
        open_console().print(render_report(state, report))
        for outcome in outcomes:
            open_console().print(render_reply_outcome(outcome))
    return 0


def build_first_message(runtime: DiagnosisRuntime, request: DiagnoseRequest, stage: "CaseRun | None") -> InboxItem:
    """Build the first inbox item; a case adds ticket and attachments."""
    text = request.text or (stage.text if stage else "")
    data = {"hosts": _resolve_host_names(runtime, request.hosts)} if request.hosts else {}
    logs = (*(stage.attachments if stage else ()), *request.logs)
    attachments = tuple(build_attachment(name, content) for name, content in logs)
    return InboxItem(
        id="terminal-1",
        kind="mention",
        incident=_get_incident_id(request.case),
        at=runtime.services.clock.now(),
        text=text,
        attachments=attachments,
        data=data,
    )


def _get_incident_id(case: Path | None) -> str:
    """Return a new id; a case's is fixed, so that its answer is reproducible."""
    if case:
        return f"inc-{sha256(case.read_bytes()).hexdigest()[:6]}"
    from bot.incidents.dispatch.inbox import new_incident_id  # loads Redis' client, which a case does not need

    return new_incident_id()


def _resolve_host_names(runtime: DiagnosisRuntime, ranges: str) -> str:
    inventory = runtime.services.inventory
    try:
        return " ".join(host.name for host in inventory.select_hosts(ranges))
    except BadRange as error:
        read = resolve_hosts_and_groups(ranges, tuple(inventory.hosts), inventory.groups)  # `gpu-001..004`, as people write it
        if read.hosts and not read.unknown:
            return " ".join(read.hosts)
        raise Refusal(f"--hosts: {error}", 2) from error


@dataclass(slots=True)
class LiveProgressLine:
    live: Live | None
    latest: Progress = field(default_factory=lambda: Progress("", "summarise"))

    async def __call__(self, progress: Progress) -> None:
        self.latest = progress
        if self.live:
            self.live.update(_format_progress_line(progress))


def _format_progress_line(progress: Progress) -> Text:
    counts = f" {progress.done}/{progress.total}" if progress.total else ""
    return Text.assemble((f"{progress.stage}{counts} ", "bold cyan"), progress.line, ("  " + " · ".join(progress.hypotheses[:3]), "dim"))


@contextlib.contextmanager
def show_live_progress(*, quiet: bool) -> Iterator[LiveProgressLine]:
    err = SafeConsole(stderr=True)
    if quiet or not err.is_terminal:
        yield LiveProgressLine(None)
        return
    with Live(Text("…"), console=err, transient=True, refresh_per_second=8) as live:
        yield LiveProgressLine(live)


async def _run_turns(
    runtime: DiagnosisRuntime, item: InboxItem, request: DiagnoseRequest, stage: "CaseRun | None", *, quiet: bool
) -> tuple[IncidentState, Report, "list[ReplyOutcome]"]:
    """Load LangGraph, the slowest import, only after all refusals."""
    from bot.cli.local_thread import LocalThread, skip_waiting

    with show_live_progress(quiet=quiet) as watch:
        wait = partial(stage.wait, MESSAGE_INTERVAL_SECONDS) if stage else skip_waiting
        return await LocalThread(runtime, wait, watch).run_conversation(item, request.replies or ())
