"""The commands that measure: stats and bench."""

from typing import Annotated

import typer

from bot.terminal.edge import run
from bot.terminal.edge import settings as settings_of
from bot.terminal.measures.bench import bench
from bot.terminal.options import Config, Json

PANEL = "Measure"
commands = typer.Typer()


@commands.command(rich_help_panel=PANEL)
def stats(
    days: Annotated[int, typer.Option("--days", min=1, help="Incidents opened in so many days.")] = 90,
    config: Config = None,
    json: Json = False,
) -> None:
    """How incidents went: how many, how soon diagnosed and mended, how often right by what humans closed them with, what people thought."""
    settings = settings_of(config)
    from bot.terminal.stats import show_stats

    run(lambda: show_stats(settings, days, as_json=json))


commands.add_typer(bench, rich_help_panel=PANEL)
