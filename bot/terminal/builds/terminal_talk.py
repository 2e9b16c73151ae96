"""A terminal, or whatever is piped in, as somebody to go through a build with."""

import sys

import click

from bot.terminal.builds.reviewing import Talk


def terminal_talk() -> Talk:
    return Talk(print, _asked, lambda text: click.edit(text, extension=".yaml"))


def _asked(prompt: str) -> str | None:
    print(prompt, end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if not line:
        print(file=sys.stderr)
    return line.rstrip("\n") if line else None
