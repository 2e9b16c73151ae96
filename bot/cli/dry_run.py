"""`rackmedic dry-run`: what a remedy would run and what blocks it. Read-only; approves nothing."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.text import Text

from bot.app.diagnosis_runtime import DiagnosisRuntime
from bot.cli.cluster_access import open_command_runtime, open_stage, refuse_without_inventory
from bot.cli.command_requests import DryRunRequest
from bot.cli.command_runtime import print_text
from bot.cli.safe_console import indent_renderable, open_console
from bot.refusal import Refusal
from bot.remediation.cards.side_effects import build_file_rows
from bot.settings import Settings
from kb.needle_search import split_lines
from tools.action import Action
from tools.execution.build import ActionRequest, HostIdentity, build_action, compute_catalogue_hash, find_execution_host
from tools.execution.conditions import ConditionResult, read_process_start
from tools.execution.delete_preview import DeletePreview, preview_delete
from tools.execution.dry_run import preview_conditions
from tools.execution.identity import read_boot_id
from tools.inventory.inventory import Host
from tools.remedies import REMEDIES
from tools.remedies.remedy import BadArgument, Remedy, fill_slots
from tools.transport import Transport, Unreachable

CONDITION_MARKS: Mapping[bool | None, tuple[str, str]] = {True: ("yes", "green"), False: ("no ", "red"), None: ("?  ", "yellow")}


async def run_dry_run_command(settings: Settings, request: DryRunRequest) -> int:
    remedy = _get_remedy(request.remedy)
    refuse_without_inventory(settings, request.inventory, request.case)
    async with open_command_runtime(settings, request.inventory, open_stage(request.case)) as world:
        return await preview_remedy(world, remedy, request)


async def preview_remedy(runtime: DiagnosisRuntime, remedy: Remedy, request: DryRunRequest) -> int:
    """Print the preview; return 0 if all conditions hold."""
    action, condition_results = await _preview_action(remedy, request, runtime)
    deletion = await preview_delete(action, runtime.transport)
    if request.as_json:
        document = {"schema": 1, **_build_preview_document(remedy, action, condition_results)}
        if deletion:
            document["deletes"] = asdict(deletion)
        print_text(json.dumps(document))
    else:
        _print_preview(remedy, action, condition_results, deletion)
    return int(any(condition_result.ok is not True for condition_result in condition_results))


def _get_remedy(name: str) -> Remedy:
    remedy = REMEDIES.get(name)
    if remedy is None or remedy.at == "fleet":
        known_remedies = " ".join(row.id for row in REMEDIES.values() if row.at != "fleet")
        raise Refusal(f"there is no remedy {name!r} that could be tried; known: {known_remedies}", 2)
    return remedy


async def _preview_action(remedy: Remedy, request: DryRunRequest, runtime: DiagnosisRuntime) -> tuple[Action, Sequence[ConditionResult]]:
    hosts = runtime.services.inventory.hosts
    target = hosts.get(request.host)
    if target is None:
        raise Refusal(f"{request.host} is not in the inventory", 2)
    try:
        via = find_execution_host(remedy, target, hosts)
        values = await _collect_arguments(remedy, request, target, runtime.transport)
        condition_results = HostIdentity(await read_boot_id(via.name, runtime.transport))
        action = build_action(
            ActionRequest(remedy.id, values, "dry-run"), target, via, condition_results, policy="", catalogue=compute_catalogue_hash()
        )
    except BadArgument as error:
        raise Refusal(f"{remedy.id} cannot be tried on {request.host}: {error}", 2) from error
    except Unreachable as error:
        raise Refusal(f"{error.host}: {error.why}") from error
    return action, await preview_conditions(action, runtime.transport, controller=target.controller)


async def _collect_arguments(remedy: Remedy, request: DryRunRequest, target: Host, transport: Transport) -> dict[str, str]:
    """Parse the arguments; a missing process start (`ticks`) is read from the host."""
    values = dict(part.partition("=")[::2] for part in request.values)
    if "ticks" in remedy.args and "ticks" not in values and values.get("pid", "").isdigit():
        started = await read_process_start(values["pid"], target.name, transport)
        values["ticks"] = started.saw if started.ok else ""
    return values


def _build_preview_document(remedy: Remedy, action: Action, results: Sequence[ConditionResult]) -> dict[str, Any]:
    return {
        "remedy": action.remedy,
        "does": fill_slots(remedy.does, {**action.args, "target": action.target}),
        "risk": action.risk,
        "blast": remedy.blast,
        "target": action.target,
        "via": action.via,
        "command": list(action.command),
        "limit_seconds": action.limit_seconds,
        "conditions": [{"says": result.says, "ok": result.ok, "saw": result.saw} for result in results],
        "proof": list(action.proof),
        "undo": action.undo,
        "back": remedy.back,
        "heavier": remedy.heavier,
        "would": _format_verdict(results),
    }


def _format_verdict(results: Sequence[ConditionResult]) -> str:
    if stops := [result.says for result in results if result.ok is False]:
        return f"be refused: not so: {'; '.join(stops)}"
    if unobserved := [result.says for result in results if result.ok is None]:
        return f"be looked at again first: could not see whether {'; '.join(unobserved)}"
    return "start, once people have approved it"


def _print_preview(remedy: Remedy, action: Action, results: Sequence[ConditionResult], gone: DeletePreview | None) -> None:
    console, document = open_console(), _build_preview_document(remedy, action, results)
    place = action.via if action.via == action.target else f"{action.via}, for {action.target}"
    back = action.undo or remedy.back or "nothing"
    console.print(Text.assemble((f"{action.remedy} on {action.target}", "bold"), f": {document['does']}"))
    for name, row_text in (
        ("risk", f"{action.risk}; {remedy.blast}"),
        ("runs on", f"{place}, as root by its node kit"),
        ("proved by", ", ".join(action.proof)),
    ):
        console.print(indent_renderable(Text.assemble((f"{name}: ", "dim"), row_text)))
    console.print(indent_renderable(Text.assemble(("taken back by: ", "dim"), back)))
    console.print(indent_renderable(Text.assemble(("command: ", "dim"), shlex.join(action.command))))
    for name, value in build_file_rows(gone) if gone else ():
        console.print(indent_renderable(Text.assemble((f"{name}: ", "dim"), value)))
    for result in results:
        mark, style = CONDITION_MARKS[result.ok]
        saw = f" (it says {split_lines(result.saw)[0][:120]!r})" if result.ok is not True and result.saw else ""
        console.print(indent_renderable(Text.assemble((mark, style), f" {result.says}{saw}")))
    console.print(Text(f"It would {document['would']}."))
