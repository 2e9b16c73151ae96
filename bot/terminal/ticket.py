"""`rackmedic ticket export|import`: a ticket as a file, for sites whose provider is not reached over a network, or not yet."""

import json as json_of
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bot.refusal import Refusal
from bot.terminal.edge import run, tell
from bot.terminal.edge import settings as settings_of
from bot.terminal.options import Config, Inventory, Json

if TYPE_CHECKING:
    from bot.settings import Settings

ticket = typer.Typer(
    name="ticket",
    help="A ticket with its investigation, as a file: from a customer's own RackMedic to their provider's (docs/provider-link.md).",
    no_args_is_help=True,
)
Preview = Annotated[bool, typer.Option("--preview", help="Show what it holds and do nothing else.")]


@ticket.command(
    name="export",
    epilog="Example: rackmedic ticket export inc-1a2b3c - --preview shows every word that would leave; then write it to a file and hand that over.",
)
def export_ticket(
    incident: Annotated[str, typer.Argument(metavar="INCIDENT", help="The incident's id, as its card shows it: inc-1a2b3c.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write it; `-` is stdout.", allow_dash=True)],
    preview: Preview = False,
    inventory: Inventory = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Write what your provider needs of an incident: hypotheses with verdicts, facts, versions, logs as templates, what was tried and said.

    Names of models, data, programs, people, addresses and hosts that are not in question leave as signatures alone.

    The salt of those stays in your Redis. Nothing is sent.
    """
    settings = settings_of(config)
    from bot.terminal.shared import replace_inventory

    settings = replace_inventory(settings, inventory)
    run(lambda: _export(settings, incident, file, preview=preview, as_json=json))


@ticket.command(name="import", epilog="Example: rackmedic ticket import acme-inc-1a2b3c.json --tenant acme")
def import_ticket(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A ticket of `rackmedic ticket export`; `-` reads stdin.", allow_dash=True)],
    tenant: Annotated[str, typer.Option("--tenant", metavar="TENANT", help="Whose it is; needed where the inventory knows several.")] = "",
    preview: Preview = False,
    inventory: Inventory = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Open an incident from a customer's ticket, in the operators' channel of that customer. The same file twice is one incident.

    What it says is evidence of low trust: it says where to look, and your own looks decide.
    """
    settings = settings_of(config)
    from bot.terminal.shared import replace_inventory

    settings = replace_inventory(settings, inventory)
    run(lambda: _import(settings, file, tenant, preview=preview, as_json=json))


async def _export(settings: "Settings", incident: str, file: Path, *, preview: bool, as_json: bool) -> int:
    from bot.provider.document import NothingKnown, ticket_document
    from bot.run.world import WallClock, site_inventory
    from bot.terminal.stored import stored  # brings Redis' client
    from tools.evidence import DirectoryEvidence

    async with stored(settings, "incidents") as store:
        evidence = DirectoryEvidence(settings.evidence_dir)
        try:
            made = await ticket_document(store.redis, evidence, await site_inventory(settings), incident, WallClock())
        except NothingKnown as why:
            raise Refusal(str(why)) from why
    raw, whole = made.document.canonical(), _readable(made.document.canonical())
    if not made.facts_kept:
        tell("could not look at the facts: the outputs of this incident are not kept on this machine", err=True)
    if preview:
        tell(whole)
        return 0
    _write(file, whole)
    row = {"incident": incident, "file": str(file), "bytes": len(raw), "format": made.document.format, **_counts(made.document)}
    if str(file) != "-":
        _say(row, as_json, f"{file}: {made.document.incident}, {_in_words(row)}. Read it before it leaves.")
    return 0


async def _import(settings: "Settings", file: Path, tenant: str, *, preview: bool, as_json: bool) -> int:
    from bot.desk.inbox import Inbox
    from bot.provider.arrivals import Arrivals, tenants_of
    from bot.provider.kept import TicketBook
    from bot.run.world import WallClock, site_inventory
    from bot.terminal.stored import stored
    from graph.exchange.read import BadTicket, read_ticket

    try:
        read = read_ticket(_raw(file))
    except BadTicket as why:
        raise Refusal("\n".join([f"{file} is no ticket that can be read:", *why.problems])) from why
    if read.ignored:
        tell(f"passed over, not known to this version: {', '.join(read.ignored)}", err=True)
    if preview:
        from rich.text import Text

        from bot.terminal.paper import paper

        paper().print(Text(_readable(read.document.canonical())))
        return 0
    inventory = await site_inventory(settings)
    known = tenants_of(inventory)
    if not tenant and len(known) != 1:
        raise Refusal(f"--tenant: say whose ticket it is: {', '.join(known) or 'no host of the inventory belongs to a tenant'}", 2)
    async with stored(settings, "incidents") as store:
        arrivals = Arrivals(Inbox(store.redis, WallClock()), TicketBook(store.redis), inventory, WallClock())
        came = await arrivals.take_in(tenant or known[0], read.document)
    row = {"incident": came.incident, "opened": came.opened, "again": came.again, "ignored": list(read.ignored), **_counts(read.document)}
    said = "was imported before" if came.again else "is opened" if came.opened else "has the news"
    _say(row, as_json, f"{came.incident} {said}: {_in_words(row)}. The bot on this Redis takes it from here.")
    return 0


def _raw(file: Path) -> bytes:
    from graph.exchange.document import MOST_BYTES

    try:
        if str(file) == "-":
            return sys.stdin.buffer.read(MOST_BYTES + 1)
        with file.open("rb") as opened:
            return opened.read(MOST_BYTES + 1)
    except OSError as why:
        raise Refusal(f"{file}: cannot be read: {why.strerror}") from why


def _write(file: Path, whole: str) -> None:
    if str(file) == "-":
        tell(whole)
        return
    try:
        file.write_text(whole + "\n")
    except OSError as why:
        raise Refusal(f"{file}: cannot be written: {why.strerror}") from why


def _readable(raw: bytes) -> str:
    from bot.terminal.paper import json_shown

    return json_shown(json_of.dumps(json_of.loads(raw), indent=1, ensure_ascii=False))


def _counts(document: Any) -> dict[str, int]:
    names = ("hypotheses", "facts", "versions", "logs", "tried", "signatures")
    return {name: len(getattr(document, name)) for name in names}


def _in_words(row: dict[str, Any]) -> str:
    return f"{row['hypotheses']} hypotheses, {row['facts']} facts, {row['logs']} logs, {row['signatures']} names as signatures"


def _say(row: dict[str, Any], as_json: bool, words: str) -> None:
    tell(json_of.dumps({"schema": 1, **row}) if as_json else words)
