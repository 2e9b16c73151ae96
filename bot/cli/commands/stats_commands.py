"""`stats` and `bench`."""

from typing import Annotated

import typer

from bot.cli.bench import bench
from bot.cli.command_runtime import ConfigOption, JsonOption, load_settings_or_exit, run_async_command

PANEL = "Measure"
commands = typer.Typer()


@commands.command(rich_help_panel=PANEL, epilog="Example: rackmedic stats --days 30")
def stats(
    days: Annotated[int, typer.Option("--days", min=1, help="Count incidents opened in the last N days.")] = 90,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Summarize incidents: count, time to diagnosis and recovery, accuracy, feedback.

    Accuracy compares diagnoses with the causes that people closed incidents with.
    """
    settings = load_settings_or_exit(config)
    from bot.cli.stats import print_stats

    run_async_command(lambda: print_stats(settings, days, as_json=json))


commands.add_typer(bench, rich_help_panel=PANEL)
