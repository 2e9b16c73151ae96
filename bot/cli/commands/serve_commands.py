"""`serve`, `worker` and `ticket`."""

from typing import Annotated

import typer

from bot.cli.command_runtime import exit_with_error, print_text, run_async_command
from bot.cli.command_runtime import load_settings_or_exit as settings_of
from bot.cli.options import ConfigOption
from bot.cli.ticket import ticket

PANEL = "The bot"
commands = typer.Typer()


@commands.command(rich_help_panel=PANEL)
def serve(
    config: ConfigOption = None,
    front: Annotated[bool, typer.Option("--front", help="Only listen: workers on the same Redis do the rest.")] = False,
) -> None:
    """The bot: listen to Slack, diagnose, hand off. Stops cleanly on SIGTERM; everything resumes at the next start."""
    settings = settings_of(config)
    from bot.settings import list_missing_for_serve

    if problems := list_missing_for_serve(settings):
        for problem in problems:
            print_text(problem, err=True)
        exit_with_error(f"{len(problems)} setting(s) missing", 2)
    from bot.app.serve import serve as listen
    from bot.app.workers import build_own_command

    worker = build_own_command("worker", "--beside", *(["--config", str(config)] if config else []))
    run_async_command(lambda: listen(settings, worker, front=front))


@commands.command(rich_help_panel=PANEL)
def worker(
    config: ConfigOption = None,
    name: Annotated[
        str, typer.Option("--name", help="What this worker is called among those of its machine; the same after a restart.")
    ] = "worker",
    beside: Annotated[bool, typer.Option("--beside", hidden=True)] = False,
) -> None:
    """Diagnose and repair what front ends on the same Redis took in. Run as many as you like, on any machine."""
    settings = settings_of(config)
    from bot.app.serve import run_worker

    run_async_command(lambda: run_worker(settings, beside=beside, name=name))


commands.add_typer(ticket, rich_help_panel=PANEL)
