"""The commands that show what RackMedic knows: its catalogues."""

import typer

from bot.terminal.edge import answer
from bot.terminal.edge import settings as settings_of
from bot.terminal.options import Config, Json

PANEL = "What RackMedic knows"
commands = typer.Typer()


@commands.command(rich_help_panel=PANEL)
def checks(config: Config = None, json: Json = False) -> None:
    """The catalogue of checks, a site's own included: what each asks, how, and what it establishes."""
    settings = settings_of(config)
    from bot.run.site import site_checks
    from bot.terminal.catalogues import check_rows, show

    show("Checks", check_rows(answer(lambda: site_checks(settings))), json)


@commands.command(rich_help_panel=PANEL)
def remedies(json: Json = False) -> None:
    """Every remedy: what it does, its risk, what must be true, what proves it. None of them runs without approval."""
    from bot.terminal.catalogues import remedy_rows, show

    show("Remedies", remedy_rows(), json)


@commands.command(rich_help_panel=PANEL)
def taxonomy(config: Config = None, json: Json = False) -> None:
    """Every label RackMedic can claim, and what decides it."""
    kb_dir = settings_of(config).kb_dir
    from bot.run.site import site_taxonomy
    from bot.terminal.catalogues import show, taxonomy_rows

    show("Taxonomy", taxonomy_rows(answer(lambda: site_taxonomy(kb_dir))), json)
