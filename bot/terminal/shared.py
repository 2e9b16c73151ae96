"""What commands share: where their settings come from, and one sentence instead of a traceback."""

from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

Config = Annotated[Path | None, typer.Option("--config", help="YAML file of settings; RACKMEDIC_* variables win over it.")]


def fail(message: str, code: int = 1) -> NoReturn:
    """One sentence on stderr and out."""
    typer.echo(f"rackmedic: {message}", err=True)
    raise typer.Exit(code)


def settings(config: Path | None) -> Any:
    """The settings; every problem with them on a line of its own and out."""
    from bot.settings import BadSettings, load

    try:
        return load(config)
    except BadSettings as why:
        for problem in why.problems:
            typer.echo(problem, err=True)
        fail(f"{len(why.problems)} problem(s) with the settings", 2)
