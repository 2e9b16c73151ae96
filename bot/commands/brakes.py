"""The commands of brakes and audit."""

from typing import Annotated

import typer

from bot.terminal.edge import run
from bot.terminal.edge import settings as settings_of
from bot.terminal.options import Config, Json

PANEL = "Brakes and audit"
commands = typer.Typer()


@commands.command(rich_help_panel=PANEL)
def stop(why: Annotated[str, typer.Argument(metavar="WHY", help="Why; it is shown to everybody.")] = "", config: Config = None) -> None:
    """The kill switch: no remedy starts until `rackmedic resume`. What runs goes on and is reported."""
    settings = settings_of(config)
    from bot.terminal.ledger import stop as pull

    run(lambda: pull(settings, why))


@commands.command(rich_help_panel=PANEL)
def resume(
    group: Annotated[str, typer.Option("--breaker", metavar="GROUP", help="Reset this group's breaker instead.")] = "",
    clock: Annotated[bool, typer.Option("--clock", help="Set the ledger's clock back to this machine's instead.")] = False,
    config: Config = None,
) -> None:
    """Take the kill switch off, or reset a group's tripped breaker after looking, or the ledger's clock after a machine ran ahead."""
    settings = settings_of(config)
    from bot.terminal.ledger import resume as let_go
    from bot.terminal.ledger import set_back

    run(lambda: set_back(settings) if clock else let_go(settings, group))


@commands.command(rich_help_panel=PANEL)
def status(config: Config = None, json: Json = False) -> None:
    """The brakes as they stand: kill switch, breakers, what runs, what is in doubt."""
    settings = settings_of(config)
    from bot.terminal.ledger import status as brakes

    run(lambda: brakes(settings, as_json=json))


ledger = typer.Typer(name="ledger", help="The key that signs approvals and the audit log.", no_args_is_help=True)
commands.add_typer(ledger, rich_help_panel=PANEL)


@ledger.command(name="rotate")
def ledger_rotate(config: Config = None, json: Json = False) -> None:
    """Go on with a new key. What waits is superseded and proposed anew, what runs ends. Run it again where it was cut off."""
    settings = settings_of(config)
    from bot.terminal.ledger import rotate

    run(lambda: rotate(settings, as_json=json))


audit = typer.Typer(name="audit", help="The audit log of approvals and actions: verify its chain, or export it.", no_args_is_help=True)
commands.add_typer(audit, rich_help_panel=PANEL)


@audit.command(name="verify")
def audit_verify(
    head: Annotated[
        list[str] | None, typer.Option("--head", metavar="HASH", help="A head from the log or a channel; a chain without it was cut.")
    ] = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Walk the chain. Exit 1 when an entry was altered, removed or cut off."""
    settings = settings_of(config)
    from bot.terminal.ledger import verify

    run(lambda: verify(settings, tuple(head or ()), as_json=json))


@audit.command(name="export")
def audit_export(config: Config = None) -> None:
    """Every entry as JSON lines, oldest first."""
    settings = settings_of(config)
    from bot.terminal.ledger import export

    run(lambda: export(settings))
