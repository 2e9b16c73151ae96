"""`stats` and `bench`."""

from typing import Annotated

import typer

from bot.cli.bench import bench
from bot.cli.command_runtime import load_settings_or_exit as settings_of
from bot.cli.command_runtime import run_async_command
from bot.cli.options import ConfigOption, JsonOption

PANEL = "Measure"
commands = typer.Typer()


@commands.command(rich_help_panel=PANEL)
def stats(
    days: Annotated[int, typer.Option("--days", min=1, help="Incidents opened in so many days.")] = 90,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """How incidents went: how many, how soon diagnosed and mended, how often right by what humans closed them with, what people thought."""
    settings = settings_of(config)
    from bot.cli.stats import print_stats

    run_async_command(lambda: print_stats(settings, days, as_json=json))


commands.add_typer(bench, rich_help_panel=PANEL)
