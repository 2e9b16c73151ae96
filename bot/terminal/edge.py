"""The edge of every command: settings in, an exit code out, one sentence on stderr instead of a traceback. Imports nothing heavy."""

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import typer

from bot.refusal import Refusal

T = TypeVar("T")


def fail(message: str, code: int = 1) -> NoReturn:
    """One sentence on stderr and out."""
    typer.echo(f"rackmedic: {message}", err=True)
    raise typer.Exit(code)


def answer(ask: Callable[[], T]) -> T:
    """Its value; a refusal is its sentence and its exit code."""
    try:
        return ask()
    except Refusal as why:
        fail(str(why), why.code)


def run(work: Callable[[], Coroutine[Any, Any, int]]) -> NoReturn:
    """Run an async command; its value is the exit code, Ctrl-C is 130."""
    import asyncio

    from bot.run.garbage import calm

    calm()
    try:
        code = answer(lambda: asyncio.run(work()))
    except (KeyboardInterrupt, asyncio.CancelledError):  # asyncio passes the latter on where something else cancelled us in the same moment
        typer.echo("interrupted", err=True)
        code = 130
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
