"""`rackmedic dry-run`: what a remedy would run, where, with whose rights, and what would stop it now. Reads only; nothing can be approved here."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.text import Text

from bot.cards.approvals.files import known_of
from bot.refusal import Refusal
from bot.run.world import World
from bot.settings import Settings
from bot.terminal.edge import tell
from bot.terminal.paper import indented, paper
from bot.terminal.requests import DryRunRequest
from bot.terminal.shared import looking, refuse_without_inventory, stage_of
from kb.scan import lines_in
from tools.acting.build import ActionWanted, HostSeen, build, catalogue_hash, via_of
from tools.acting.conditions import ConditionSeen, process_start
from tools.acting.deletes import Deletes, would_delete
from tools.acting.dry_run import preview
from tools.acting.identity import boot_id
from tools.action import Action
from tools.inventory.hosts import Host
from tools.remedies import REMEDIES
from tools.remedies.row import BadArgument, Remedy, fill
from tools.transport import Transport, Unreachable

MARKS: Mapping[bool | None, tuple[str, str]] = {True: ("yes", "green"), False: ("no ", "red"), None: ("?  ", "yellow")}


async def dry_run_once(settings: Settings, request: DryRunRequest) -> int:
    """Open the world, try, print; the exit code. Raises Refusal for what cannot be asked."""
    remedy = _known(request.remedy)
    refuse_without_inventory(settings, request.inventory, request.case)
    async with looking(settings, request.inventory, stage_of(request.case)) as world:
        return await rehearse(world, remedy, request)


async def rehearse(world: World, remedy: Remedy, request: DryRunRequest) -> int:
    """Print what would happen; 0 where everything holds that must, else 1. Raises Refusal where the remedy does not fit the host."""
    action, seen = await _seen(remedy, request, world)
    gone = await would_delete(action, world.transport)
    if request.as_json:
        tell(json.dumps({"schema": 1, **_document(remedy, action, seen), **({"deletes": asdict(gone)} if gone else {})}))
    else:
        _print(remedy, action, seen, gone)
    return int(any(row.ok is not True for row in seen))


def _known(name: str) -> Remedy:
    remedy = REMEDIES.get(name)
    if remedy is None or remedy.at == "fleet":
        known = " ".join(row.id for row in REMEDIES.values() if row.at != "fleet")
        raise Refusal(f"there is no remedy {name!r} that could be tried; known: {known}", 2)
    return remedy


async def _seen(remedy: Remedy, request: DryRunRequest, world: World) -> tuple[Action, Sequence[ConditionSeen]]:
    hosts = world.ports.inventory.hosts
    target = hosts.get(request.host)
    if target is None:
        raise Refusal(f"{request.host} is not in the inventory", 2)
    try:
        via = via_of(remedy, target, hosts)
        values = await _values(remedy, request, target, world.transport)
        seen = HostSeen(await boot_id(via.name, world.transport))
        action = build(ActionWanted(remedy.id, values, "dry-run"), target, via, seen, policy="", catalogue=catalogue_hash())
    except BadArgument as why:
        raise Refusal(f"{remedy.id} cannot be tried on {request.host}: {why}", 2) from why
    except Unreachable as why:
        raise Refusal(f"{why.host}: {why.why}") from why
    return action, await preview(action, world.transport, controller=target.controller)


async def _values(remedy: Remedy, request: DryRunRequest, target: Host, transport: Transport) -> dict[str, str]:
    """As they were typed; the start of a process is read where it was not."""
    values = dict(part.partition("=")[::2] for part in request.values)
    if "ticks" in remedy.args and "ticks" not in values and values.get("pid", "").isdigit():
        started = await process_start(values["pid"], target.name, transport)
        values["ticks"] = started.saw if started.ok else ""
    return values


def _document(remedy: Remedy, action: Action, seen: Sequence[ConditionSeen]) -> dict[str, Any]:
    return {
        "remedy": action.remedy,
        "does": fill(remedy.does, {**action.args, "target": action.target}),
        "risk": action.risk,
        "blast": remedy.blast,
        "target": action.target,
        "via": action.via,
        "command": list(action.command),
        "limit_seconds": action.limit_seconds,
        "conditions": [{"says": row.says, "ok": row.ok, "saw": row.saw} for row in seen],
        "proof": list(action.proof),
        "undo": action.undo,
        "back": remedy.back,
        "heavier": remedy.heavier,
        "would": _would(seen),
    }


def _would(seen: Sequence[ConditionSeen]) -> str:
    if stops := [row.says for row in seen if row.ok is False]:
        return f"be refused: not so: {'; '.join(stops)}"
    if blind := [row.says for row in seen if row.ok is None]:
        return f"be looked at again first: could not see whether {'; '.join(blind)}"
    return "start, once people have approved it"


def _print(remedy: Remedy, action: Action, seen: Sequence[ConditionSeen], gone: Deletes | None) -> None:
    console, told = paper(), _document(remedy, action, seen)
    where = action.via if action.via == action.target else f"{action.via}, for {action.target}"
    back = action.undo or remedy.back or "nothing"
    console.print(Text.assemble((f"{action.remedy} on {action.target}", "bold"), f": {told['does']}"))
    for name, said in (
        ("risk", f"{action.risk}; {remedy.blast}"),
        ("runs on", f"{where}, as root by its node kit"),
        ("proved by", ", ".join(action.proof)),
    ):
        console.print(indented(Text.assemble((f"{name}: ", "dim"), said)))
    console.print(indented(Text.assemble(("taken back by: ", "dim"), back)))
    console.print(indented(Text.assemble(("command: ", "dim"), shlex.join(action.command))))
    for name, value in known_of(gone) if gone else ():
        console.print(indented(Text.assemble((f"{name}: ", "dim"), value)))
    for row in seen:
        mark, style = MARKS[row.ok]
        saw = f" (it says {lines_in(row.saw)[0][:120]!r})" if row.ok is not True and row.saw else ""
        console.print(indented(Text.assemble((mark, style), f" {row.says}{saw}")))
    console.print(Text(f"It would {told['would']}."))
