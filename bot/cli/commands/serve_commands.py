"""`serve`, `worker` and `ticket`."""

from typing import Annotated

import typer

from bot.cli.command_runtime import ConfigOption, exit_with_error, load_settings_or_exit, print_text, run_async_command
from bot.cli.ticket import ticket

PANEL = "The bot"
commands = typer.Typer()


@commands.command(rich_help_panel=PANEL, epilog="Example: rackmedic serve --config /etc/rackmedic/rackmedic.yaml")
def serve(
    config: ConfigOption = None,
    front: Annotated[bool, typer.Option("--front", help="Only listen; workers on the same Redis do the rest.")] = False,
) -> None:
    """Run the bot: listen to Slack, diagnose, hand off.

    SIGTERM stops it cleanly; the next start resumes everything.
    """
    settings = load_settings_or_exit(config)
    from bot.settings import list_missing_for_serve

    if problems := list_missing_for_serve(settings):
        for problem in problems:
            print_text(problem, err=True)
        exit_with_error(f"{len(problems)} setting(s) missing", 2)
    from bot.app.serve import serve as run_server
    from bot.app.workers import build_own_command

    worker = build_own_command("worker", "--beside", *(["--config", str(config)] if config else []))
    run_async_command(lambda: run_server(settings, worker, front=front))


@commands.command(rich_help_panel=PANEL, epilog="Example: rackmedic worker --name worker-2")
def worker(
    config: ConfigOption = None,
    name: Annotated[str, typer.Option("--name", help="Name of this worker, unique on its machine; keep it over restarts.")] = "worker",
    beside: Annotated[bool, typer.Option("--beside", hidden=True)] = False,
) -> None:
    """Diagnose and repair what front ends on the same Redis received.

    Run any number of workers, on any machine.
    """
    settings = load_settings_or_exit(config)
    from bot.app.serve import run_worker

    run_async_command(lambda: run_worker(settings, beside=beside, name=name))


commands.add_typer(ticket, rich_help_panel=PANEL)
