"""What every command needs to start and to end: options, settings, output and exit codes. It imports nothing heavy."""

import contextlib
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import typer

from bot.refusal import Refusal

ConfigOption = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="YAML file of settings; RACKMEDIC_* variables override it.")
]
InventoryOption = Annotated[
    Path | None,
    typer.Option(
        "--inventory", "-i", metavar="FILE", help="Inventory: a YAML file, slurm:, kubernetes: or ansible:FILE; default: the setting."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on stdout; everything else goes to stderr.")]
SandboxOption = Annotated[
    Path | None, typer.Option("--sandbox", metavar="FILE", help="Use the simulated cluster of this case file instead of real hosts.")
]
HostsOption = Annotated[str, typer.Option("--hosts", metavar="HOSTS", help="Hosts to look at: gpu-[001-004], group names, commas.")]
AttachOption = Annotated[list[Path] | None, typer.Option("--attach", metavar="FILE", help="A log file to read too; may be repeated.")]


T = TypeVar("T")
CANCEL_RETRY_SECONDS = 1.0  # until an interrupted command that still runs is cancelled again


def exit_with_error(message: str, code: int = 1) -> NoReturn:
    print_error(message)
    raise typer.Exit(code)


def print_error(message: str) -> None:
    print_text(f"rackmedic: {message}", err=True)


def print_text(text: object = "", *, err: bool = False, end: str = "\n", flush: bool = False) -> None:
    """Print a text, with invisible characters as codes.

    All output goes through this function or `bot.cli.safe_console.SafeConsole`.
    """
    from kb.redact import show_invisible

    print(show_invisible(replace_surrogates(str(text))), end=end, file=sys.stderr if err else sys.stdout, flush=flush)


def write_to_stdout(content: bytes, *, text: bool) -> None:
    """Write a file to stdout. `text`: invisible characters become codes; a picture or PDF is written as it is."""
    if text:
        print_text(content.decode("utf-8", "replace"), end="")
        return
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def replace_surrogates(text: str) -> str:
    """Replace invalid UTF-8 by `?`: stores, files and models reject it."""
    return text.encode("utf-8", "replace").decode()


def call_or_exit(call: Callable[[], T]) -> T:
    """Return what the function returns. Print a Refusal and exit with its code."""
    try:
        return call()
    except Refusal as error:
        exit_with_error(str(error), error.code)


def run_async_command(command: Callable[[], Coroutine[Any, Any, int]]) -> NoReturn:
    """Run a command and exit with its result, or with 130 on Ctrl-C."""
    import asyncio

    from bot.app.gc_tuning import relax_garbage_collection

    relax_garbage_collection()
    try:
        code = call_or_exit(lambda: asyncio.run(_run_until_interrupted(command)))
    except (KeyboardInterrupt, asyncio.CancelledError):  # CancelledError: something else cancelled the task at the same moment
        print_text("interrupted", err=True)
        code = 130
    raise typer.Exit(code)


async def _run_until_interrupted(command: Callable[[], Coroutine[Any, Any, int]]) -> int:
    """Run the command. Ctrl-C cancels it repeatedly: before Python 3.12 `asyncio.wait_for` may lose a cancellation."""
    import asyncio
    import signal

    loop, task = asyncio.get_running_loop(), asyncio.current_task()

    def stop() -> None:
        if task is not None and not task.done():
            task.cancel()
            loop.call_later(CANCEL_RETRY_SECONDS, stop)

    with contextlib.suppress(ValueError, RuntimeError):  # only the main thread can install signal handlers
        loop.add_signal_handler(signal.SIGINT, stop)
    return await command()


def load_settings_or_exit(config: Path | None) -> Any:
    """Return the settings. Print every problem of wrong settings and exit."""
    from bot.settings import BadSettings, load_settings

    try:
        return load_settings(config)
    except BadSettings as error:
        for problem in error.problems:
            print_text(problem, err=True)
        exit_with_error(f"{len(error.problems)} problem(s) with the settings", 2)
