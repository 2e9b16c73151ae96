"""The `rackmedic` command. No heavy imports, so that `--help` is fast."""

import contextlib
from collections.abc import Iterator
from importlib import metadata
from shutil import get_terminal_size
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from bot.cli.commands import brake_commands, diagnose_commands, kb_commands, serve_commands, setup_commands, stats_commands

MIN_RICH_HELP_COLUMNS = 60  # narrower boxes would cut option names, so help is plain text


@contextlib.contextmanager
def _sanitize_usage_errors() -> Iterator[None]:
    """Clean usage errors, which quote typed words."""
    try:
        yield
    except Exception as error:
        if callable(format_message := getattr(error, "format_message", None)):
            from bot.cli.command_runtime import replace_surrogates
            from kb.redact import show_invisible

            shown_message = show_invisible(replace_surrogates(format_message()))
            error.format_message = lambda: shown_message  # type: ignore[attr-defined]  # typer's own exceptions have it, under no name that is exported
        raise


class CommandGroup(TyperGroup):
    def make_context(self, *args: Any, **more: Any) -> Any:
        with _sanitize_usage_errors():
            return super().make_context(*args, **more)

    def invoke(self, ctx: Any) -> Any:
        with _sanitize_usage_errors():
            return super().invoke(ctx)


app = typer.Typer(
    name="rackmedic",
    cls=CommandGroup,
    rich_markup_mode=None if get_terminal_size().columns < MIN_RICH_HELP_COLUMNS else "rich",
    epilog="Example: rackmedic diagnose --help. Remedies run only after people approve them in Slack.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rackmedic {metadata.version('rackmedic')}")
        raise typer.Exit


@app.callback()
def rackmedic(
    _: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")] = False,
) -> None:
    """Find out why GPU training broke: check the nodes and name the cause with the lines that prove it."""


for group in (setup_commands, serve_commands, diagnose_commands, kb_commands, brake_commands, stats_commands):
    app.add_typer(group.commands)


def main() -> None:
    app()


if __name__ == "__main__":
    main()
