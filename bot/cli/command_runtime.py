"""The edge of every command: settings in, an exit code out, one sentence on stderr instead of a traceback. Imports nothing heavy."""

import contextlib
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import typer

from bot.refusal import Refusal

T = TypeVar("T")


def exit_with_error(message: str, code: int = 1) -> NoReturn:
    """One sentence on stderr and out; what of it is a stranger's commands no terminal."""
    print_error(message)
    raise typer.Exit(code)


def print_error(message: str) -> None:
    """One sentence on stderr."""
    print_text(f"rackmedic: {message}", err=True)


def print_text(text: object = "", *, err: bool = False, end: str = "\n", flush: bool = False) -> None:
    """Print: what of it would act upon the terminal, or is not seen, stands there as its code. Everything that commands print goes through here or
    through `bot.cli.safe_console.SafeConsole`."""
    from kb.redact import show_invisible

    print(show_invisible(replace_surrogates(str(text))), end=end, file=sys.stderr if err else sys.stdout, flush=flush)


def write_to_stdout(content: bytes, *, text: bool) -> None:
    """A document on standard output: a text as everything that is printed, a picture or a PDF as it is."""
    if text:
        print_text(content.decode("utf-8", "replace"), end="")
        return
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def replace_surrogates(text: str) -> str:
    """The text with `?` for bytes that were none of UTF-8, which no store, file or model takes."""
    return text.encode("utf-8", "replace").decode()


def call_or_exit(ask: Callable[[], T]) -> T:
    """Its value; a refusal is its sentence and its exit code."""
    try:
        return ask()
    except Refusal as why:
        exit_with_error(str(why), why.code)


CANCEL_RETRY_SECONDS = 1.0
"""Seconds that what was interrupted has for putting things in order before it is told again."""


def run_async_command(work: Callable[[], Coroutine[Any, Any, int]]) -> NoReturn:
    """Run an async command; its value is the exit code, Ctrl-C is 130."""
    import asyncio

    from bot.app.gc_tuning import relax_garbage_collection

    relax_garbage_collection()
    try:
        code = call_or_exit(lambda: asyncio.run(_run_until_interrupted(work)))
    except (KeyboardInterrupt, asyncio.CancelledError):  # asyncio passes the latter on where something else cancelled us in the same moment
        print_text("interrupted", err=True)
        code = 130
    raise typer.Exit(code)


async def _run_until_interrupted(work: Callable[[], Coroutine[Any, Any, int]]) -> int:
    """Ctrl-C cancels until that is heard: before Python 3.12 `asyncio.wait_for` loses a cancellation that comes in the moment its wait ends."""
    import asyncio
    import signal

    loop, task = asyncio.get_running_loop(), asyncio.current_task()

    def stop() -> None:
        if task is not None and not task.done():
            task.cancel()
            loop.call_later(CANCEL_RETRY_SECONDS, stop)

    with contextlib.suppress(ValueError, RuntimeError):  # a thread beside the main one hears no signals
        loop.add_signal_handler(signal.SIGINT, stop)
    return await work()


def load_settings_or_exit(config: Path | None) -> Any:
    """The settings; every problem with them on a line of its own and out."""
    from bot.settings import BadSettings, load_settings

    try:
        return load_settings(config)
    except BadSettings as why:
        for problem in why.problems:
            print_text(problem, err=True)
        exit_with_error(f"{len(why.problems)} problem(s) with the settings", 2)
