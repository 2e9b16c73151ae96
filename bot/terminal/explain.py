"""`rackmedic explain`: why an incident's diagnosis came to what it says, as a tree, a picture or JSON; and whether every contract over it holds."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bot.refusal import Refusal
from bot.terminal.edge import hand_out, tell
from bot.terminal.paper import json_line
from graph.reasoning.contracts import Verified
from graph.reasoning.nodes import ReasonGraph
from graph.reasoning.told import in_lines, verdict

if TYPE_CHECKING:
    from bot.settings import Settings
    from graph.ports import Ports
    from graph.state import Incident

SVG = "-"
NOTHING = "{}: nothing was diagnosed yet, or its reasoning is not kept any more"


@dataclass(frozen=True, slots=True)
class ExplainRequest:
    """What was typed. Raises Refusal where nothing is named or two ways of printing are."""

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
    """Read it, check it if asked, print it; 1 where a contract is broken. Raises Refusal."""
    graph, titles, came = await (_played(settings, request) if request.case else _stored(settings, request))
    if request.svg:
        from bot.pictures.reasons import picture

        _write(request.svg, picture(graph, titles))
    elif request.as_json:
        checked = {} if came is None else {"verified": _row(came)}
        tell(json_line(graph.document() | checked))
    else:
        tell("\n".join(in_lines(graph, titles)) or "Nothing stood on the table: nothing abnormal was seen.")
        if came is not None:
            tell("\n".join(("", *verdict(came))))
    return 1 if came is not None and came.broken else 0


def _row(came: Verified) -> dict[str, object]:
    broken = [{"contract": row.contract, "promise": row.promise, "says": row.says} for row in came.broken]
    return {"held": came.held, "broken": broken, "unchecked": list(came.unchecked)}


async def _stored(settings: "Settings", request: ExplainRequest) -> tuple[ReasonGraph, dict[str, str], Verified | None]:
    """Of an incident of `rackmedic serve`: nothing is asked of any host."""
    from bot.run.world import open_world
    from bot.terminal.stored import stored
    from graph.stored import StoredIncidents

    async with stored(settings, "incidents") as store:
        state = await StoredIncidents(store.redis).state(request.incident)
        async with open_world(settings, lasting=True, front=True) as world:
            return await _of(state, world.ports, request)


async def _played(settings: "Settings", request: ExplainRequest) -> tuple[ReasonGraph, dict[str, str], Verified | None]:
    """Of a case of the sandbox, diagnosed now."""
    from bot.terminal.conversation import PlayedThread, no_wait
    from bot.terminal.diagnose import first_message, watched
    from bot.terminal.requests import DiagnoseRequest
    from bot.terminal.shared import looking, stage_of

    asked, stage = DiagnoseRequest("", case=request.case), stage_of(request.case)
    async with looking(settings, None, stage) as world:
        with watched(quiet=request.as_json) as watch:
            state, _, _ = await PlayedThread(world, no_wait, watch).play(first_message(world, asked, stage), ())
        return await _of(state, world.ports, request)


async def _of(state: "Incident", ports: "Ports", request: ExplainRequest) -> tuple[ReasonGraph, dict[str, str], Verified | None]:
    from graph.incident.thinking.checked import kept_reasoning, verified

    name = request.incident or state.get("id", "")
    graph = await kept_reasoning(state, ports.evidence)
    if graph is None:
        raise Refusal(NOTHING.format(name))
    return graph, ports.taxonomy.titles, await verified(graph, ports) if request.verify else None


def _write(out: Path, content: bytes) -> None:
    if str(out) == SVG:
        hand_out(content, text=True)
        return
    try:
        out.write_bytes(content)
    except OSError as why:
        raise Refusal(f"--svg {out}: cannot be written: {why.strerror}") from why
    tell(f"{out}: the reasoning as a picture, {len(content):,} bytes.")
