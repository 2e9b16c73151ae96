"""The review dialog over a terminal or piped input."""

import sys

import click

from bot.cli.command_runtime import print_text
from bot.cli.kb.review_command import ReviewDialog


def open_terminal_dialog() -> ReviewDialog:
    return ReviewDialog(print_text, _ask_line, lambda text: click.edit(text, extension=".yaml"))


def _ask_line(prompt: str) -> str | None:
    print_text(prompt, end="", err=True, flush=True)
    line = sys.stdin.readline()
    if not line:
        print_text(err=True)
    return line.rstrip("\n") if line else None
