"""A terminal, or whatever is piped in, as somebody to go through a build with."""

import sys

import click

from bot.terminal.builds.reviewing import Talk
from bot.terminal.edge import tell


def terminal_talk() -> Talk:
    return Talk(tell, _asked, lambda text: click.edit(text, extension=".yaml"))


def _asked(prompt: str) -> str | None:
    tell(prompt, end="", err=True, flush=True)
    line = sys.stdin.readline()
    if not line:
        tell(err=True)
    return line.rstrip("\n") if line else None
