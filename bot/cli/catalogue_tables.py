"""Catalogues as tables and JSON."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from pydantic import SecretStr
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bot.cli.command_runtime import print_text
from bot.cli.safe_console import build_text_table, clip_cell, format_json_line, indent_renderable, open_table_console
from bot.refusal import Refusal
from bot.settings import ENV_PREFIX, Settings
from kb.redact import redact
from kb.taxonomy.taxonomy import Taxonomy
from tools.action import Condition
from tools.checks import CHECKS
from tools.checks.check_types import Check
from tools.execution.drain_status import SLURM_DRAINED
from tools.fact import Fact
from tools.remedies import REMEDIES
from tools.remedies.remedy import ARGUMENT_KINDS, Remedy

CatalogueRows = Sequence[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class CatalogueLayout:
    """How a catalogue is listed; `COMMAND NAME` shows one row in full."""

    command: str
    noun: str
    columns: Mapping[str, str]  # field → heading; the id is first


LAYOUTS: Mapping[str, CatalogueLayout] = {
    "Checks": CatalogueLayout("checks", "check", {"id": "check", "asks": "question", "seconds": "seconds", "exclusive": "needs idle GPUs"}),
    "Remedies": CatalogueLayout("remedies", "remedy", {"id": "remedy", "does": "what it does", "risk": "risk", "proof": "verified by"}),
    "Causes": CatalogueLayout("taxonomy", "cause", {"id": "label", "title": "cause", "owner": "owner"}),
    "Settings": CatalogueLayout("settings", "setting", {"id": "setting", "what": "what it is for", "default": "default", "set": "set to"}),
}

MAX_CELL_CHARS = 240  # of a listed cell; the details have all of it

UNBROKEN_FIELDS = frozenset({"command", "commands", "sources"})  # printed without line breaks, to be copied


def print_catalogue(title: str, rows: CatalogueRows, as_json: bool, name: str = "", descriptions: Mapping[str, str] | None = None) -> None:
    """Print all rows as a table, or the row called `name` in full; as `{schema, items}` with `as_json`. Raises Refusal.

    Args:
        title: Heading, and the key of the catalogue's layout.
        rows: Rows with an `id`.
        as_json: Print JSON.
        name: Id of the only row to print.
        descriptions: Text by id, shown with the details of a row.
    """
    shown_rows = [_find_row(title, rows, name)] if name else rows
    if as_json:
        print_text(json.dumps({"schema": 1, "items": list(shown_rows)}, default=str))
    elif name:
        _print_details(open_table_console(), shown_rows[0], (descriptions or {}).get(shown_rows[0]["id"], ""))
    else:
        _print_table(title, rows)


def _find_row(title: str, rows: CatalogueRows, name: str) -> dict[str, Any]:
    """Return a row by its id, in any case; of settings also without the prefix. Raises Refusal."""
    by_id = {str(row["id"]).strip().casefold(): row for row in rows}
    wanted_name = name.strip().casefold()
    for candidate in (wanted_name, f"{ENV_PREFIX}{wanted_name}".casefold()):
        if candidate in by_id:
            return by_id[candidate]
    suggestions = [str(by_id[close_match]["id"]) for close_match in get_close_matches(wanted_name[:MAX_CELL_CHARS], by_id, n=3)]
    layout = LAYOUTS[title]
    more = f"near it: {', '.join(suggestions)}" if suggestions else f"`rackmedic {layout.command}` lists all"
    raise Refusal(f"there is no {layout.noun} {name!r:.80}; {more}", 2)


def _print_table(title: str, rows: CatalogueRows) -> None:
    layout = LAYOUTS.get(title) or CatalogueLayout("", "", {field: field for field in rows[0]})
    columns = {field: head for field, head in layout.columns.items() if field == "id" or any(_format_cell(row[field]) for row in rows)}
    cells = [[str(row["id"]), *(clip_cell(_format_cell(row[field]), MAX_CELL_CHARS) for field in columns if field != "id")] for row in rows]
    console = open_table_console()
    console.print(build_text_table(tuple(columns.values()), cells, title=f"{title} ({len(rows)})"))
    if layout.command:
        console.print(Text(f"\nrackmedic {layout.command} NAME shows one in full.", style="dim"))


def _print_details(console: Console, row: Mapping[str, Any], description: str = "") -> None:
    console.print(Text(str(row["id"]), style="bold cyan"))
    if description:
        console.print(indent_renderable(Text(description)))
    for field, value in row.items():
        if field != "id":
            _print_field(console, field, value, 1)


def _print_field(console: Console, field: str, value: Any, depth: int) -> None:
    """Print a field; nested rows are indented below it."""
    label = field.replace("_", " ")
    if value in (None, "", [], (), {}):
        return
    if isinstance(value, dict):
        console.print(Text(f"{'  ' * depth}{label}:", style="dim"))
        for key, inner in value.items():
            _print_field(console, str(key), inner, depth + 1)
        return
    items = list(map(str, value)) if isinstance(value, list | tuple) else [_format_value(value)]
    if field in UNBROKEN_FIELDS or (isinstance(value, list | tuple) and any(" " in item for item in items)):
        console.print(Text(f"{'  ' * depth}{label}:", style="dim"))
        for item in items:
            _print_item(console, item, depth + 1, whole=field in UNBROKEN_FIELDS)
    else:
        console.print(Padding(Text.assemble((f"{label}: ", "dim"), ", ".join(items)), (0, 0, 0, 2 * depth), expand=False))


def _format_value(value: Any) -> str:
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)


def _print_item(console: Console, text: str, depth: int, *, whole: bool) -> None:
    pad = "  " * depth
    if whole:
        console.print(Text(pad + text.replace("\n", f"\n{pad}")), soft_wrap=True)
        return
    grid = Table.grid(padding=(0, 1))
    grid.add_row("-", Text(text, overflow="fold"))
    console.print(Padding(grid, (0, 0, 0, 2 * depth), expand=False))


def _format_cell(value: Any) -> str:
    match value:
        case None | "" | [] | () | False:
            return ""
        case True:
            return "yes"
        case list() | tuple():
            return " ".join(map(str, value))
        case _:
            return str(value)


def build_check_rows(checks: Mapping[str, Check] = CHECKS) -> CatalogueRows:
    return [
        {
            "id": check.id,
            "asks": check.asks,
            "commands": [" ".join(command.argv) for command in check.commands],
            "establishes": list(check.establishes),
            "scope": check.scope,
            "seconds": check.seconds,
            "exclusive": check.exclusive,
            "privileged": any(command.privileged for command in check.commands),
            "timeout_seconds": check.timeout,
            "cap_bytes": check.cap,
        }
        for check in checks.values()
    ]


def build_remedy_rows() -> Sequence[dict[str, Any]]:
    return [_build_remedy_row(remedy) for remedy in REMEDIES.values()]


def _build_remedy_row(remedy: Remedy) -> dict[str, Any]:
    return {
        "id": remedy.id,
        "does": remedy.does,
        "risk": remedy.risk,
        "at": remedy.at,
        "args": [f"{name}: {ARGUMENT_KINDS[kind].says}" for name, kind in remedy.args.items()],
        "command": " ".join(remedy.command),
        "conditions": [
            _format_condition(condition) for condition in (*remedy.conditions, *([SLURM_DRAINED] if "drained" in remedy.needs else []))
        ],
        "completion": _format_completion(remedy),
        "proof": list(remedy.proof),
        "undo": remedy.undo,
        "back": remedy.back,
        "then": remedy.then,
        "heavier": remedy.heavier,
        "harder": dict(remedy.harder),
        "covers": list(remedy.covers),
        "blast": remedy.blast,
        "refusals": [f"{words}: {meaning}" for words, meaning in remedy.refusals.items()],
        "only": remedy.only,
        "ways": {scheduler: _build_remedy_row(way) for scheduler, way in remedy.ways.items()},
    }


def _format_condition(condition: Condition) -> str:
    source_note = "" if condition.kind == "node" else " (asked of the scheduler, where there is one)"
    return condition.says + source_note


def _format_completion(remedy: Remedy) -> str:
    if remedy.completion.kind == "new_boot":
        return f"the host is back with another boot id within {remedy.completion.seconds} s"
    return f"the command ends with status 0 within {remedy.limit_seconds} s"


def build_taxonomy_rows(taxonomy: Taxonomy) -> CatalogueRows:
    return [
        {
            "id": leaf.label,
            "title": leaf.title,
            "scope": leaf.scope,
            "owner": leaf.owner,
            "symptoms": list(leaf.symptoms),
            "decided_by": [clue.key for clue in leaf.evidence if clue.decisive],
            "only_words": leaf.only_words,
            "checks": list(leaf.checks),
            "confirms": list(leaf.confirms),
            "remedies": list(leaf.remedies),
            "sources": list(leaf.sources),
        }
        for leaf in taxonomy.leaves.values()
    ]


def build_setting_rows(settings: Settings | None = None) -> CatalogueRows:
    """Return one row per setting; secrets are never shown."""
    return [
        {
            "id": ENV_PREFIX + name.upper(),
            "default": "" if isinstance(field.default, SecretStr) else field.default,
            "set": _format_setting_value(getattr(settings, name)) if settings and name in settings.model_fields_set else "",
            "what": field.description,
        }
        for name, field in Settings.model_fields.items()
    ]


def _format_setting_value(value: Any) -> str:
    if isinstance(value, SecretStr):
        return "a secret" if value.get_secret_value() else ""
    return redact(",".join(value) if isinstance(value, tuple) else str(value))


def parse_check_output(check: Check, text: str) -> tuple[Fact, ...]:
    facts = check.parse_output(text)
    return tuple(check.settle(facts) if check.settle else facts)


def find_unread_reason(facts: Sequence[Fact]) -> str:
    """Return why no fact was read, if so."""
    return next((fact.line for fact in facts), "it has no fact") if all(fact.status.blind for fact in facts) else ""


def format_fact_line(fact: Fact) -> str:
    return format_json_line(build_fact_row(fact))


def build_fact_row(fact: Fact) -> dict[str, Any]:
    """Return a JSON row, with the reason if unobserved, else the source line."""
    row: dict[str, Any] = {name: getattr(fact, name) for name in ("check", "key", "device", "value", "unit")}
    row |= {"status": fact.status.value, "reason" if fact.status.blind else "line": fact.line}
    row |= {"attrs": dict(fact.attrs)} if fact.attrs else {}
    row |= {"time": fact.time.isoformat()} if fact.time else {}
    return row | ({"stale": True} if fact.stale else {})
