"""Commands of brakes, ledger key and audit log."""

from typing import Annotated

import typer

from bot.cli.command_runtime import ConfigOption, JsonOption, load_settings_or_exit, run_async_command

PANEL = "Brakes and audit"
commands = typer.Typer()


@commands.command(rich_help_panel=PANEL, epilog="Example: rackmedic stop 'network maintenance in hall 2'")
def stop(why: Annotated[str, typer.Argument(metavar="WHY", help="Reason, shown to everyone.")] = "", config: ConfigOption = None) -> None:
    """Engage the kill switch: no remedy starts until `rackmedic resume`.

    Remedies that run already continue, and their outcome is reported.
    """
    settings = load_settings_or_exit(config)
    from bot.cli.ledger import engage_kill_switch

    run_async_command(lambda: engage_kill_switch(settings, why))


@commands.command(rich_help_panel=PANEL, epilog="Example: rackmedic resume --breaker train")
def resume(
    group: Annotated[str, typer.Option("--breaker", metavar="GROUP", help="Reset the breaker of this group instead.")] = "",
    clock: Annotated[bool, typer.Option("--clock", help="Set the ledger's clock back to this machine's clock instead.")] = False,
    config: ConfigOption = None,
) -> None:
    """Release the kill switch, or reset a breaker or the ledger's clock.

    Look at the hosts before you reset a tripped breaker. --clock is for a machine whose clock ran ahead.
    """
    settings = load_settings_or_exit(config)
    from bot.cli.ledger import release_brake, rewind_ledger_clock

    run_async_command(lambda: rewind_ledger_clock(settings) if clock else release_brake(settings, group))


@commands.command(rich_help_panel=PANEL, epilog="Example: rackmedic status")
def status(config: ConfigOption = None, json: JsonOption = False) -> None:
    """Show the brakes: kill switch, breakers, and actions that run or are in doubt."""
    settings = load_settings_or_exit(config)
    from bot.cli.ledger import print_brake_status

    run_async_command(lambda: print_brake_status(settings, as_json=json))


ledger = typer.Typer(
    name="ledger",
    help="Replace the key that signs approvals and the audit log.",
    epilog="Example: rackmedic ledger rotate",
    no_args_is_help=True,
)
commands.add_typer(ledger, rich_help_panel=PANEL)


@ledger.command(name="rotate", epilog="Example: rackmedic ledger rotate")
def ledger_rotate(config: ConfigOption = None, json: JsonOption = False) -> None:
    """Replace the signing key by a new one.

    Actions that have not started are superseded and proposed again; all others end as they would have.

    After an interruption, run it again.
    """
    settings = load_settings_or_exit(config)
    from bot.cli.ledger import run_key_rotation

    run_async_command(lambda: run_key_rotation(settings, as_json=json))


audit = typer.Typer(
    name="audit",
    help="Verify or export the audit log of approvals and actions.",
    epilog="Example: rackmedic audit verify",
    no_args_is_help=True,
)
commands.add_typer(audit, rich_help_panel=PANEL)


@audit.command(name="verify", epilog="Example: rackmedic audit verify")
def audit_verify(
    head: Annotated[
        list[str] | None,
        typer.Option("--head", metavar="HASH", help="A chain head from the log or a channel; a chain without it was cut off."),
    ] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Verify the chain of the audit log.

    Exit 1 when an entry was altered, removed or cut off.
    """
    settings = load_settings_or_exit(config)
    from bot.cli.ledger import verify_audit_log

    run_async_command(lambda: verify_audit_log(settings, tuple(head or ()), as_json=json))


@audit.command(name="export", epilog="Example: rackmedic audit export > audit.jsonl")
def audit_export(config: ConfigOption = None) -> None:
    """Print every entry of the audit log as JSON lines, oldest first."""
    settings = load_settings_or_exit(config)
    from bot.cli.ledger import export_audit_log

    run_async_command(lambda: export_audit_log(settings))
