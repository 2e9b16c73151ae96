"""The commands that are the bot: serve and worker, and tickets between two of them."""

from typing import Annotated

import typer

from bot.terminal.edge import fail, run, tell
from bot.terminal.edge import settings as settings_of
from bot.terminal.options import Config
from bot.terminal.ticket import ticket

PANEL = "The bot"
commands = typer.Typer()


@commands.command(rich_help_panel=PANEL)
def serve(
    config: Config = None,
    front: Annotated[bool, typer.Option("--front", help="Only listen: workers on the same Redis do the rest.")] = False,
) -> None:
    """The bot: listen to Slack, diagnose, hand off. Stops cleanly on SIGTERM; everything resumes at the next start."""
    settings = settings_of(config)
    from bot.settings import missing_for_serve

    if problems := missing_for_serve(settings):
        for problem in problems:
            tell(problem, err=True)
        fail(f"{len(problems)} setting(s) missing", 2)
    from bot.run.serve import serve as listen
    from bot.run.workers import own_command

    worker = own_command("worker", "--beside", *(["--config", str(config)] if config else []))
    run(lambda: listen(settings, worker, front=front))


@commands.command(rich_help_panel=PANEL)
def worker(
    config: Config = None,
    name: Annotated[
        str, typer.Option("--name", help="What this worker is called among those of its machine; the same after a restart.")
    ] = "worker",
    beside: Annotated[bool, typer.Option("--beside", hidden=True)] = False,
) -> None:
    """Diagnose and repair what front ends on the same Redis took in. Run as many as you like, on any machine."""
    settings = settings_of(config)
    from bot.run.serve import work

    run(lambda: work(settings, beside=beside, name=name))


commands.add_typer(ticket, rich_help_panel=PANEL)
