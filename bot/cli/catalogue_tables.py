"""Catalogues as tables and JSON."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import SecretStr
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bot.cli.command_runtime import print_text
from bot.cli.safe_console import format_json_line, indent_renderable, open_console
from bot.settings import ENV_PREFIX, Settings
from kb.redact import redact
from kb.taxonomy.taxonomy import Taxonomy
from tools.action import Condition
from tools.checks import CHECKS
from tools.checks.check import Check
from tools.execution.drain_status import SLURM_DRAINED
from tools.fact import Fact
from tools.remedies import REMEDIES
from tools.remedies.remedy import ARGUMENT_KINDS, Remedy

CatalogueRows = Sequence[dict[str, Any]]


# shown columns of wide catalogues; the second describes the row
TABLE_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "Checks": ("id", "asks", "commands", "seconds", "exclusive"),
    "Remedies": ("id", "does", "risk", "conditions", "proof", "blast"),
    "Taxonomy": ("id", "title", "owner", "decided_by"),
    "Settings": ("id", "what", "default", "set"),
}

# shown in addition if each row is a paragraph
EXTRA_COLUMNS: Mapping[str, tuple[str, ...]] = {"Remedies": ("heavier", "undo", "back")}

MAX_VALUE_CHARS = 200  # some commands embed a whole program; `--json` has it

MIN_TABLE_TERMINAL_COLUMNS = 140  # narrower terminals get paragraphs


def print_catalogue(title: str, rows: CatalogueRows, as_json: bool) -> None:
    """Print `{schema, items}` as JSON, or a table."""
    if as_json:
        print_text(json.dumps({"schema": 1, "items": list(rows)}, default=str))
        return
    console = open_console()
    if title in TABLE_COLUMNS and console.width < MIN_TABLE_TERMINAL_COLUMNS:
        _print_paragraphs(console, title, rows)
        return
    table = Table(title=f"{title} ({len(rows)})", title_justify="left", header_style="bold", row_styles=("", "dim"))
    columns = TABLE_COLUMNS.get(title, tuple(rows[0]))
    for name in columns:
        table.add_column(name.replace("_", " "), overflow="fold", no_wrap=name == "id")
    for row in rows:
        table.add_row(*(Text(_format_cell(row[name])) for name in columns))
    console.print(table)


def _print_paragraphs(console: Console, title: str, rows: CatalogueRows) -> None:
    _, what, *more = (*TABLE_COLUMNS[title], *EXTRA_COLUMNS.get(title, ()))
    console.print(Text(f"{title} ({len(rows)})", style="bold"))
    for row in rows:
        console.print()
        console.print(Text(str(row["id"]), style="bold cyan"))
        console.print(indent_renderable(Text(_format_cell(row[what]))))
        for name in more:
            if said := _format_list(row[name]):
                console.print(indent_renderable(Text.assemble((f"{name.replace('_', ' ')}: ", "dim"), said)))


def _format_list(value: Any) -> str:
    return "; ".join(map(_shorten_value, value)) if isinstance(value, list | tuple) else _format_cell(value)


def _shorten_value(value: Any) -> str:
    text = str(value)
    return text if len(text) <= MAX_VALUE_CHARS else f"{text[:MAX_VALUE_CHARS].rsplit(' ', 1)[0]} …"


def _format_cell(value: Any) -> str:
    match value:
        case None | "" | [] | False:
            return ""
        case True:
            return "yes"
        case list() | tuple():
            return " ".join(map(_shorten_value, value))
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
    where = "" if condition.kind == "node" else " (asked of the scheduler, where there is one)"
    return condition.says + where


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
