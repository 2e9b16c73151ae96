"""`rackmedic ticket export|import`: tickets as files, for sites without a network link."""

import json as json_of
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bot.cli.command_runtime import ConfigOption, InventoryOption, JsonOption, load_settings_or_exit, print_text, run_async_command
from bot.refusal import Refusal

if TYPE_CHECKING:
    from bot.settings import Settings

ticket = typer.Typer(
    name="ticket",
    help="Exchange tickets as files between a customer's RackMedic and their provider's (docs/provider-link.md).",
    epilog="Example: rackmedic ticket export inc-1a2b3c - --preview",
    no_args_is_help=True,
)
PreviewOption = Annotated[bool, typer.Option("--preview", help="Show the content and do nothing else.")]


@ticket.command(name="export", epilog="Example: rackmedic ticket export inc-1a2b3c - --preview")
def export_ticket(
    incident: Annotated[str, typer.Argument(metavar="INCIDENT", help="The incident's id, as its card shows it: inc-1a2b3c.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to write; `-` is stdout.", allow_dash=True)],
    preview: PreviewOption = False,
    inventory: InventoryOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Write an incident as a ticket file for your provider. Nothing is sent.

    The file holds hypotheses with verdicts, facts, versions, logs as templates, and what was tried and said.

    Names of models, data, programs, people, addresses and hosts that are not in question are replaced by signatures.

    The salt of the signatures stays in your Redis.
    """
    settings = load_settings_or_exit(config)
    from bot.cli.cluster_access import replace_inventory

    settings = replace_inventory(settings, inventory)
    run_async_command(lambda: _run_export(settings, incident, file, preview=preview, as_json=json))


@ticket.command(name="import", epilog="Example: rackmedic ticket import acme-inc-1a2b3c.json --tenant acme")
def import_ticket(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A ticket of `rackmedic ticket export`; `-` reads stdin.", allow_dash=True)],
    tenant: Annotated[
        str, typer.Option("--tenant", metavar="TENANT", help="Customer the ticket is from; needed if the inventory has several.")
    ] = "",
    preview: PreviewOption = False,
    inventory: InventoryOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Open an incident from a customer's ticket, in the operators' channel of that customer.

    Importing the same file again opens no second incident.

    The ticket is evidence of low trust: it says where to look, and your own checks decide.
    """
    settings = load_settings_or_exit(config)
    from bot.cli.cluster_access import replace_inventory

    settings = replace_inventory(settings, inventory)
    run_async_command(lambda: _run_import(settings, file, tenant, preview=preview, as_json=json))


async def _run_export(settings: "Settings", incident: str, file: Path, *, preview: bool, as_json: bool) -> int:
    from bot.app.diagnosis_runtime import WallClock, load_site_inventory
    from bot.cli.persistent_store import open_persistent_store  # loads Redis' client
    from bot.provider.ticket_documents import IncidentNotFound, build_incident_ticket
    from tools.evidence import DirectoryEvidence

    async with open_persistent_store(settings, "incidents") as store:
        evidence = DirectoryEvidence(settings.evidence_dir)
        try:
            built_ticket = await build_incident_ticket(store.redis, evidence, await load_site_inventory(settings), incident, WallClock())
        except IncidentNotFound as error:
            raise Refusal(str(error)) from error
    document = built_ticket.document
    raw = document.to_canonical_bytes()
    readable = _format_readable(raw)
    if not built_ticket.facts_kept:
        print_text("could not check the facts: the outputs of this incident are not stored on this machine", err=True)
    if preview:
        print_text(readable)
        return 0
    _write_ticket(file, readable)
    row = {"incident": incident, "file": str(file), "bytes": len(raw), "format": document.format, **_count_parts(document)}
    if str(file) != "-":
        _print_result(row, as_json, f"{file}: {document.incident}, {_format_counts(row)}. Read it before it leaves.")
    return 0


async def _run_import(settings: "Settings", file: Path, tenant: str, *, preview: bool, as_json: bool) -> int:
    from bot.app.diagnosis_runtime import WallClock, load_site_inventory
    from bot.cli.persistent_store import open_persistent_store
    from bot.incidents.dispatch.inbox import Inbox
    from bot.provider.ticket_documents import TicketStore
    from bot.provider.ticket_importer import TicketImporter, list_tenants
    from graph.ticket_export.received_ticket import BadTicket, parse_ticket

    try:
        parsed = parse_ticket(_read_raw_ticket(file))
    except BadTicket as error:
        raise Refusal("\n".join([f"{file} is no ticket that can be read:", *error.problems])) from error
    if parsed.ignored:
        print_text(f"skipped, not known to this version: {', '.join(parsed.ignored)}", err=True)
    if preview:
        from rich.text import Text

        from bot.cli.safe_console import open_console

        open_console().print(Text(_format_readable(parsed.document.to_canonical_bytes())))
        return 0
    inventory = await load_site_inventory(settings)
    tenants = list_tenants(inventory)
    if not tenant and len(tenants) != 1:
        raise Refusal(f"--tenant: say whose ticket it is: {', '.join(tenants) or 'no host of the inventory belongs to a tenant'}", 2)
    async with open_persistent_store(settings, "incidents") as store:
        importer = TicketImporter(Inbox(store.redis, WallClock()), TicketStore(store.redis), inventory, WallClock())
        imported = await importer.import_ticket(tenant or tenants[0], parsed.document)
    row = {
        "incident": imported.incident,
        "opened": imported.opened,
        "again": imported.again,
        "ignored": list(parsed.ignored),
        **_count_parts(parsed.document),
    }
    state_text = "is opened" if imported.opened else "has the news"
    if imported.again:
        state_text = "was imported before"
    _print_result(row, as_json, f"{imported.incident} {state_text}: {_format_counts(row)}. The bot on this Redis takes it from here.")
    return 0


def _read_raw_ticket(file: Path) -> bytes:
    from graph.ticket_export.document import MAX_DOCUMENT_BYTES

    try:
        if str(file) == "-":
            return sys.stdin.buffer.read(MAX_DOCUMENT_BYTES + 1)
        with file.open("rb") as opened:
            return opened.read(MAX_DOCUMENT_BYTES + 1)
    except OSError as error:
        raise Refusal(f"{file}: cannot be read: {error.strerror}") from error


def _write_ticket(file: Path, text: str) -> None:
    if str(file) == "-":
        print_text(text)
        return
    try:
        file.write_text(text + "\n")
    except OSError as error:
        raise Refusal(f"{file}: cannot be written: {error.strerror}") from error


def _format_readable(raw: bytes) -> str:
    from bot.cli.safe_console import escape_json_text

    return escape_json_text(json_of.dumps(json_of.loads(raw), indent=1, ensure_ascii=False))


def _count_parts(document: Any) -> dict[str, int]:
    names = ("hypotheses", "facts", "versions", "logs", "tried", "signatures")
    return {name: len(getattr(document, name)) for name in names}


def _format_counts(row: dict[str, Any]) -> str:
    return f"{row['hypotheses']} hypotheses, {row['facts']} facts, {row['logs']} logs, {row['signatures']} names as signatures"


def _print_result(row: dict[str, Any], as_json: bool, text: str) -> None:
    print_text(json_of.dumps({"schema": 1, **row}) if as_json else text)
