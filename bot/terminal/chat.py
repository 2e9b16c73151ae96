"""The conversation of a thread, line by line in a terminal: the same graph as in Slack. A terminal proves nobody's identity, so it approves nothing, except
over the simulated cluster of a case, where people are played by name."""

import contextlib
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import WordCompleter
from rich.text import Text

from bot.refusal import Refusal
from bot.run.world import World
from bot.settings import Settings
from bot.terminal.diagnose import BETWEEN, first_message, watched
from bot.terminal.document import document
from bot.terminal.edge import complain, letters, tell
from bot.terminal.paper import indented, json_line, paper
from bot.terminal.piped import piped_lines
from bot.terminal.replies import LONGEST, ThreadReply
from bot.terminal.report import report_text, told_text
from bot.terminal.requests import DiagnoseRequest, read_logs
from bot.terminal.shared import looking, note_without_inventory, stage_of
from graph.reading.files import handed_in
from graph.state import Item

if TYPE_CHECKING:
    from bot.terminal.approving import Approving
    from bot.terminal.conversation import PlayedThread, ToldReply
    from bot.terminal.handed_out import HandedOut
    from deploy.sandbox.cluster.doors.stage import Stage

WORDS: Mapping[str, str] = {
    "/attach FILE": "hand in a log",
    "/help": "what can be said",
    "/quit": "end; so does Ctrl-D",
}
"""What begins with a slash, and what it does. Everything else is said in the thread."""
PLAYED: Mapping[str, str] = {
    "@NAME TEXT": "say it as olga, priya, anton …",
    "@priya approve 1": "decide what stands at [1]",
    "@priya reject 1 WHY": "the same, against it",
    "/wait 30m": "let the case's clock go on",
}
"""What there is beside, over a simulated cluster."""
HELP = "Ask or tell as in Slack: what about gpu-003? · why? · look again · show dmesg of gpu-003 · it works again."
NOT_HERE = (
    "Nothing is approved here: a terminal proves nobody's identity. Approve in the incident's thread in Slack; `rackmedic chat --sandbox CASE` "
    "and `make demo` play it on a simulated cluster."
)
HERE = "Simulated: no machine is real, and people are played by name. Fixes come with a number: @priya approve 1."


async def chat(settings: Settings, request: DiagnoseRequest, by: str, *, as_json: bool = False, save: Path | None = None) -> int:
    """Diagnose what the request says, then answer each line until there are no more. `save`: the folder for files. Raises Refusal for what
    cannot be asked."""
    stage = stage_of(request.case)
    note_without_inventory(settings, request.inventory, request.case)
    async with looking(settings, request.inventory, stage) as world:
        item = first_message(world, request, stage)
        async with _opened(settings, world, stage, item, by, as_json=as_json, save=save) as talk:
            await talk.begin(item)
            tell(f"\n{HELP}\n{HERE if talk.decides else NOT_HERE} /help tells more.", err=True)
            async for line in lines(talk.offers):
                if not await talk.answered(line):
                    break
            if as_json:
                tell(json_line(await talk.document()))
    return 0


@contextlib.asynccontextmanager
async def _opened(
    settings: Settings, world: World, stage: "Stage | None", item: Item, by: str, *, as_json: bool, save: Path | None
) -> "AsyncIterator[TerminalTalk]":
    """A thread alone, or over a case one with the acting half under it."""
    from bot.terminal.conversation import PlayedThread, no_wait  # LangGraph, the heaviest import of all
    from bot.terminal.handed_out import HandedOut

    if stage is None:
        thread = PlayedThread(world, no_wait)
        yield TerminalTalk(thread, HandedOut(world, thread, save), by, as_json)
        return
    from bot.run.logs import set_up_logs
    from bot.terminal.approving import approving

    set_up_logs("error", "console")  # the acting half tells its log what it does; here it is told in the thread
    async with approving(settings, world, stage, item.incident, partial(stage.wait, BETWEEN)) as decides:
        yield TerminalTalk(decides.thread, HandedOut(world, decides.thread, save, decides.acting.ledger), by, as_json, decides)


async def lines(offers: Callable[[], list[str]]) -> AsyncIterator[str]:
    """What is typed, with history and completion; or each line of what is piped in. What is empty is left out."""
    if not sys.stdin.isatty():
        async for line in piped_lines():
            if line.strip():
                yield letters(line.strip())
        return
    session: PromptSession[str] = PromptSession(completer=WordCompleter(offers, sentence=True))
    while True:
        try:
            line = letters(await session.prompt_async("you> ")).strip()
        except EOFError:
            return
        if line:
            yield line


@dataclass(slots=True)
class TerminalTalk:
    """A conversation as it is printed. `decides`: over a case, where fixes can be decided."""

    thread: "PlayedThread"
    files: "HandedOut"
    by: str
    as_json: bool = False
    decides: "Approving | None" = None
    _first: dict[str, Any] = field(default_factory=dict)
    _told: "list[ToldReply]" = field(default_factory=list)

    async def begin(self, item: Item) -> None:
        """The diagnosis."""
        with self._watched():
            state, report = await self.thread.begin(item)
        self._first = document(state, report)
        self._print(report_text(state, report, decided="is put up for decision, one after the other" if self.decides else ""))
        await self._settled()

    async def answered(self, line: str) -> bool:
        """Answer a line; False ends the conversation. What cannot be used is said and nothing is lost."""
        word, _, rest = line.partition(" ")
        if word == "/quit":
            return False
        try:
            if word == "/help":
                tell(self._help(), err=True)
            elif word == "/attach":
                await self._say(f"here is {Path(rest.strip()).name}", self.by, read_logs([Path(rest.strip())], word))
            elif word == "/wait" and self.decides:
                await self._waited(self.decides, rest)
            elif word.startswith("/") and word.count("/") == 1:
                complain(f"{word[:80]} is none of {', '.join(WORDS)}{', /wait 30m' if self.decides else ''}")
            else:
                await self._said(line)
        except Refusal as why:
            complain(str(why))
        return True

    def offers(self) -> list[str]:
        """What completes what is typed."""
        words = [word.split()[0] for word in WORDS]
        if self.decides is None:
            return words
        numbers = range(1, len(self.decides.cards.shown) + 1)
        votes = [f"@{name} {verdict} {n}" for n in numbers for name in self.decides.people.may for verdict in ("approve", "reject")]
        return [*words, "/wait 30m", *votes]

    async def document(self) -> dict[str, Any]:
        """Everything, for scripts: the diagnosis, what was said, what was decided."""
        decisions = await self.decides.rows() if self.decides else []
        return self._first | {"replies": [row.row() for row in self._told], "decisions": decisions}

    async def _said(self, line: str) -> None:
        """A decision is counted; everything else is said in the thread."""
        from bot.terminal.approving import read_decision, read_speaker

        who, text = read_speaker(line)
        if decision := read_decision(text):
            if self.decides is None:
                raise Refusal(NOT_HERE)
            await self.decides.decide(decision, who or self.by)
            self._cards()
        elif self.decides and who in self.decides.people.known:
            await self._say(text, who)
        else:
            await self._say(line, self.by)

    async def _say(self, text: str, by: str, logs: tuple[tuple[str, str], ...] = ()) -> None:
        if len(text) > LONGEST:
            raise Refusal(f"a message has at most {LONGEST} characters; hand in a log with /attach FILE", 2)
        files = tuple(handed_in(name, said) for name, said in logs)
        with self._watched():
            told = await self.thread.say(ThreadReply(by=by, text=text), files)
        self._told += told
        for row in told:
            shown = replace(row, cards=()) if self.decides else row  # where cards are shown they speak for themselves
            self._print(told_text(shown, quoted=not sys.stdin.isatty()))  # who typed it sees it above
            await self._hand_out(row)
        await self._settled()

    async def _hand_out(self, told: "ToldReply") -> None:
        """The files of an answer; with --json only where they were to be written."""
        if told.brings is not None and (self.files.folder is not None or not self.as_json):
            for line in await self.files.lines(told.brings, told.reply.text):
                self._print(indented(Text(line)))

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        """A live line while it looks, and none while somebody types."""
        with watched(quiet=self.as_json) as watch:
            self.thread.watch = watch
            yield

    async def _waited(self, decides: "Approving", span: str) -> None:
        from bot.terminal.approving import read_span

        await decides.pass_time(read_span(span))
        self._cards()

    async def _settled(self) -> None:
        """What the turn put up for decision, and what became of what was decided."""
        if self.decides:
            await self.decides.settle()
            self._cards()

    def _cards(self) -> None:
        if self.decides:
            for line in self.decides.cards.told():
                self._print(Text(line))

    def _print(self, content: Any) -> None:
        """On stdout; with --json that is kept for the document."""
        if not self.as_json:
            paper().print(content)

    def _help(self) -> str:
        rows = {**WORDS, **(PLAYED if self.decides else {})}
        return "\n".join([HELP, *(f"  {name:20} {does}" for name, does in rows.items()), HERE if self.decides else NOT_HERE])
