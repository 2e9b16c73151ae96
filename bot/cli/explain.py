"""`rackmedic explain`: the reasoning behind a diagnosis, optionally verified against its contracts."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bot.cli.command_runtime import print_text, write_to_stdout
from bot.cli.safe_console import format_json_line
from bot.refusal import Refusal
from graph.provenance.invariants import VerificationResult
from graph.provenance.reason_graph import ReasonGraph
from graph.provenance.tree_rendering import render_tree, render_verification

if TYPE_CHECKING:
    from bot.settings import Settings
    from graph.context import GraphContext
    from graph.state import IncidentState

STDOUT_PATH = "-"
NO_REASONING_TEXT = "{}: nothing was diagnosed yet, or its reasoning is no longer stored"


@dataclass(frozen=True, slots=True)
class ExplainRequest:
    """Arguments of `explain`."""

    incident: str
    case: Path | None = None
    svg: Path | None = None
    verify: bool = False
    as_json: bool = False

    def __post_init__(self) -> None:
        if bool(self.incident) == bool(self.case):
            raise Refusal("name an incident, as its card shows it: rackmedic explain inc-1a2b3c; or try a case with --sandbox CASE.yaml", 2)
        if self.svg and (self.as_json or self.verify):
            raise Refusal("--svg draws; --json and --verify print: choose one", 2)
        if self.case and not self.case.is_file():
            raise Refusal(f"--sandbox {self.case}: there is no such file", 2)


async def explain_incident(settings: "Settings", request: ExplainRequest) -> int:
    """Print the reasoning; return 1 if a contract is broken."""
    graph, titles, reasoning_text = await (_diagnose_case(settings, request) if request.case else _load_stored_reasoning(settings, request))
    if request.svg:
        from bot.reports.charts.provenance import render_provenance_chart

        _write_svg(request.svg, render_provenance_chart(graph, titles))
    elif request.as_json:
        checked = {} if reasoning_text is None else {"verified": _build_verification_row(reasoning_text)}
        print_text(format_json_line(graph.to_json_document() | checked))
    else:
        print_text("\n".join(render_tree(graph, titles)) or "Nothing stood on the table: nothing abnormal was seen.")
        if reasoning_text is not None:
            print_text("\n".join(("", *render_verification(reasoning_text))))
    return 1 if reasoning_text is not None and reasoning_text.broken else 0


def _build_verification_row(came: VerificationResult) -> dict[str, object]:
    broken = [{"contract": row.contract, "promise": row.promise, "says": row.says} for row in came.broken]
    return {"held": came.held, "broken": broken, "unchecked": list(came.unchecked)}


async def _load_stored_reasoning(
    settings: "Settings", request: ExplainRequest
) -> tuple[ReasonGraph, dict[str, str], VerificationResult | None]:
    from bot.app.diagnosis_runtime import open_diagnosis_runtime
    from bot.cli.persistent_store import open_persistent_store
    from graph.state_reader import IncidentStateReader

    async with open_persistent_store(settings, "incidents") as store:
        state = await IncidentStateReader(store.redis).load_state(request.incident)
        async with open_diagnosis_runtime(settings, lasting=True, front=True) as world:
            return await _load_reasoning(state, world.services.build_graph_context(), request)


async def _diagnose_case(settings: "Settings", request: ExplainRequest) -> tuple[ReasonGraph, dict[str, str], VerificationResult | None]:
    from bot.cli.cluster_access import open_command_runtime, open_stage
    from bot.cli.command_requests import DiagnoseRequest
    from bot.cli.diagnose import build_first_message, show_live_progress
    from bot.cli.local_thread import LocalThread, skip_waiting

    diagnose_request, stage = DiagnoseRequest("", case=request.case), open_stage(request.case)
    async with open_command_runtime(settings, None, stage) as world:
        with show_live_progress(quiet=request.as_json) as watch:
            state, _, _ = await LocalThread(world, skip_waiting, watch).run_conversation(
                build_first_message(world, diagnose_request, stage), ()
            )
        return await _load_reasoning(state, world.services.build_graph_context(), request)


async def _load_reasoning(
    state: "IncidentState", graph_context: "GraphContext", request: ExplainRequest
) -> tuple[ReasonGraph, dict[str, str], VerificationResult | None]:
    from graph.incident.reasoning_check import load_reasoning, verify_stored_reasoning

    name = request.incident or state.get("id", "")
    graph = await load_reasoning(state, graph_context.evidence)
    if graph is None:
        raise Refusal(NO_REASONING_TEXT.format(name))
    return graph, graph_context.taxonomy.titles, await verify_stored_reasoning(graph, graph_context) if request.verify else None


def _write_svg(out: Path, content: bytes) -> None:
    if str(out) == STDOUT_PATH:
        write_to_stdout(content, text=True)
        return
    try:
        out.write_bytes(content)
    except OSError as error:
        raise Refusal(f"--svg {out}: cannot be written: {error.strerror}") from error
    print_text(f"{out}: the reasoning as a picture, {len(content):,} bytes.")
