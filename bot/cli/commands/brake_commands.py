"""Commands of brakes, ledger key and audit log."""

from typing import Annotated

import typer

from bot.cli.command_runtime import load_settings_or_exit as settings_of
from bot.cli.command_runtime import run_async_command
from bot.cli.options import ConfigOption, JsonOption

PANEL = "Brakes and audit"
commands = typer.Typer()


@commands.command(rich_help_panel=PANEL)
def stop(
    why: Annotated[str, typer.Argument(metavar="WHY", help="Why; it is shown to everybody.")] = "", config: ConfigOption = None
) -> None:
    """The kill switch: no remedy starts until `rackmedic resume`. What runs goes on and is reported."""
    settings = settings_of(config)
    from bot.cli.ledger import engage_kill_switch as pull

    run_async_command(lambda: pull(settings, why))


@commands.command(rich_help_panel=PANEL)
def resume(
    group: Annotated[str, typer.Option("--breaker", metavar="GROUP", help="Reset this group's breaker instead.")] = "",
    clock: Annotated[bool, typer.Option("--clock", help="Set the ledger's clock back to this machine's instead.")] = False,
    config: ConfigOption = None,
) -> None:
    """Take the kill switch off, or reset a group's tripped breaker after looking, or the ledger's clock after a machine ran ahead."""
    settings = settings_of(config)
    from bot.cli.ledger import release_brake as let_go
    from bot.cli.ledger import rewind_ledger_clock

    run_async_command(lambda: rewind_ledger_clock(settings) if clock else let_go(settings, group))


@commands.command(rich_help_panel=PANEL)
def status(config: ConfigOption = None, json: JsonOption = False) -> None:
    """The brakes as they stand: kill switch, breakers, what runs, what is in doubt."""
    settings = settings_of(config)
    from bot.cli.ledger import print_brake_status as brakes

    run_async_command(lambda: brakes(settings, as_json=json))


ledger = typer.Typer(name="ledger", help="The key that signs approvals and the audit log.", no_args_is_help=True)
commands.add_typer(ledger, rich_help_panel=PANEL)


@ledger.command(name="rotate")
def ledger_rotate(config: ConfigOption = None, json: JsonOption = False) -> None:
    """Go on with a new key. What waits is superseded and proposed anew, what runs ends. Run it again where it was cut off."""
    settings = settings_of(config)
    from bot.cli.ledger import run_key_rotation

    run_async_command(lambda: run_key_rotation(settings, as_json=json))


audit = typer.Typer(name="audit", help="The audit log of approvals and actions: verify its chain, or export it.", no_args_is_help=True)
commands.add_typer(audit, rich_help_panel=PANEL)


@audit.command(name="verify")
def audit_verify(
    head: Annotated[
        list[str] | None, typer.Option("--head", metavar="HASH", help="A head from the log or a channel; a chain without it was cut.")
    ] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Walk the chain. Exit 1 when an entry was altered, removed or cut off."""
    settings = settings_of(config)
    from bot.cli.ledger import verify_audit_log

    run_async_command(lambda: verify_audit_log(settings, tuple(head or ()), as_json=json))


@audit.command(name="export")
def audit_export(config: ConfigOption = None) -> None:
    """Every entry as JSON lines, oldest first."""
    settings = settings_of(config)
    from bot.cli.ledger import export_audit_log

    run_async_command(lambda: export_audit_log(settings))
