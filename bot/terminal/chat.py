"""The conversation of a thread, line by line in a terminal: the same graph as in Slack. Proves no identity, so it approves nothing."""

import sys
from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import WordCompleter

from bot.refusal import Refusal
from bot.settings import Settings
from bot.terminal.diagnose import BETWEEN, first_message, watched
from bot.terminal.paper import paper
from bot.terminal.replies import LONGEST, ThreadReply
from bot.terminal.report import report_text, told_text
from bot.terminal.requests import DiagnoseRequest, read_logs
from bot.terminal.shared import looking, note_without_inventory, stage_of
from graph.reading.files import handed_in

if TYPE_CHECKING:
    from bot.terminal.conversation import PlayedThread

WORDS: Mapping[str, str] = {
    "/attach FILE": "hand in a log",
    "/help": "what can be said",
    "/quit": "end; so does Ctrl-D",
}
"""What begins with a slash, and what it does. Everything else is said in the thread."""
HELP = "Ask or tell as in Slack: what about gpu-003? · why? · look again · show dmesg of gpu-003 · it works again."
NOT_HERE = "Nothing is approved here: a terminal proves nobody's identity. `make demo` has the buttons."


async def chat(settings: Settings, request: DiagnoseRequest, by: str) -> int:
    """Diagnose what the request says, then answer each line until there are no more. Raises Refusal for what cannot be asked."""
    stage = stage_of(request.case)
    note_without_inventory(settings, request.inventory, request.case)
    async with looking(settings, request.inventory, stage) as world:
        from bot.terminal.conversation import PlayedThread, no_wait  # LangGraph, the heaviest import of all

        wait = partial(stage.wait, BETWEEN) if stage else no_wait
        with watched(quiet=False) as watch:
            thread = PlayedThread(world, wait, watch)
            paper().print(report_text(*await thread.begin(first_message(world, request, stage))))
        typer.echo(f"\n{HELP}\n{NOT_HERE} /help tells more.", err=True)
        async for line in lines():
            if not await _answered(thread, line, by):
                break
    return 0


async def lines() -> AsyncIterator[str]:
    """What is typed, with history and completion; or each line of what is piped in. What is empty is left out."""
    if not sys.stdin.isatty():
        for line in sys.stdin:
            if line.strip():
                yield line.strip()
        return
    session: PromptSession[str] = PromptSession(completer=WordCompleter([word.split()[0] for word in WORDS], sentence=True))
    while True:
        try:
            line = (await session.prompt_async("you> ")).strip()
        except EOFError:
            return
        if line:
            yield line


async def _answered(thread: "PlayedThread", line: str, by: str) -> bool:
    """Answer a line; False ends the conversation. What cannot be used is said and nothing is lost."""
    word, _, rest = line.partition(" ")
    if word == "/quit":
        return False
    try:
        if word == "/help":
            typer.echo("\n".join([HELP, *(f"  {name:14} {does}" for name, does in WORDS.items()), NOT_HERE]), err=True)
        elif word == "/attach":
            await _say(thread, f"here is {Path(rest.strip()).name}", by, read_logs([Path(rest.strip())]))
        elif word.startswith("/") and word.count("/") == 1:
            typer.echo(f"rackmedic: {word} is none of {', '.join(WORDS)}", err=True)
        else:
            await _say(thread, line, by)
    except Refusal as why:
        typer.echo(f"rackmedic: {why}", err=True)
    return True


async def _say(thread: "PlayedThread", text: str, by: str, logs: tuple[tuple[str, str], ...] = ()) -> None:
    if len(text) > LONGEST:
        raise Refusal(f"a message has at most {LONGEST} characters; hand in a log with /attach FILE", 2)
    files = tuple(handed_in(name, said) for name, said in logs)
    with watched(quiet=False) as watch:
        thread.watch = watch
        told = await thread.say(ThreadReply(by=by, text=text), files)
    for row in told:
        paper().print(told_text(row, quoted=not sys.stdin.isatty()))  # who typed it sees it above
