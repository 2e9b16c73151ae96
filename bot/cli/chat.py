"""`rackmedic chat`: a thread in a terminal.

It approves nothing, as a terminal proves no identity, except over a simulated cluster.
"""

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

from bot.app.diagnosis_runtime import DiagnosisRuntime
from bot.cli.cluster_access import open_command_runtime, open_stage, warn_without_inventory
from bot.cli.command_requests import DiagnoseRequest, read_logs
from bot.cli.command_runtime import print_error, print_text, replace_surrogates
from bot.cli.diagnose import MESSAGE_INTERVAL_SECONDS, build_first_message, show_live_progress
from bot.cli.diagnosis_document import build_diagnosis_document
from bot.cli.diagnosis_output import render_reply_outcome, render_report
from bot.cli.piped_input import read_piped_lines
from bot.cli.replies import MAX_REPLY_CHARS, ThreadReply
from bot.cli.safe_console import format_json_line, indent_renderable, open_console
from bot.refusal import Refusal
from bot.settings import Settings
from graph.extraction.uploaded_files import build_attachment
from graph.state import InboxItem

if TYPE_CHECKING:
    from bot.cli.answer_files import AnswerFiles
    from bot.cli.local_thread import LocalThread, ReplyOutcome
    from bot.cli.simulated_approvals import ApprovalSession
    from deploy.sandbox.cluster.access.case_run import CaseRun

SLASH_COMMANDS: Mapping[str, str] = {
    "/attach FILE": "hand in a log",
    "/help": "what can be said",
    "/quit": "end; so does Ctrl-D",
}
SIMULATION_COMMANDS: Mapping[str, str] = {
    "@NAME TEXT": "say it as olga, priya, anton …",
    "@priya approve 1": "decide the action at [1]",
    "@priya reject 1 WHY": "the same, against it",
    "/wait 30m": "let the case's clock go on",
}
HELP_HINT = "Ask or tell as in Slack: what about gpu-003? · why? · look again · show dmesg of gpu-003 · it works again."
NO_APPROVALS_NOTICE = (
    "You cannot approve here: a terminal proves no identity. Approve in the incident's thread in Slack; `rackmedic chat --sandbox CASE` "
    "and `make demo` play it on a simulated cluster."
)
SIMULATION_NOTICE = "Simulated: no machine is real, and people are played by name. Fixes come with a number: @priya approve 1."


async def run_chat(settings: Settings, request: DiagnoseRequest, by: str, *, as_json: bool = False, save: Path | None = None) -> int:
    """Diagnose, then answer each line. `save`: folder for files."""
    stage = open_stage(request.case)
    warn_without_inventory(settings, request.inventory, request.case)
    async with open_command_runtime(settings, request.inventory, stage) as world:
        item = build_first_message(world, request, stage)
        async with _open_chat_session(settings, world, stage, item, by, as_json=as_json, save=save) as talk:
            await talk.print_diagnosis(item)
            print_text(f"\n{HELP_HINT}\n{SIMULATION_NOTICE if talk.decides else NO_APPROVALS_NOTICE} /help tells more.", err=True)
            async for line in read_typed_lines(talk.list_completions):
                if not await talk.handle_line(line):
                    break
            if as_json:
                print_text(format_json_line(await talk.build_document()))
    return 0


@contextlib.asynccontextmanager
async def _open_chat_session(
    settings: Settings, runtime: DiagnosisRuntime, stage: "CaseRun | None", item: InboxItem, by: str, *, as_json: bool, save: Path | None
) -> "AsyncIterator[ChatSession]":
    from bot.cli.answer_files import AnswerFiles
    from bot.cli.local_thread import LocalThread, skip_waiting  # LangGraph, the slowest import

    if stage is None:
        thread = LocalThread(runtime, skip_waiting)
        yield ChatSession(thread, AnswerFiles(runtime, thread, save), by, as_json)
        return
    from bot.app.logs import set_up_logs
    from bot.cli.simulated_approvals import open_approval_session

    set_up_logs("error", "console")  # the thread shows what the action runtime would log
    async with open_approval_session(settings, runtime, stage, item.incident, partial(stage.wait, MESSAGE_INTERVAL_SECONDS)) as decides:
        yield ChatSession(decides.thread, AnswerFiles(runtime, decides.thread, save, decides.ledger), by, as_json, decides)


async def read_typed_lines(offers: Callable[[], list[str]]) -> AsyncIterator[str]:
    """Yield non-empty lines, typed or piped."""
    if not sys.stdin.isatty():
        async for line in read_piped_lines():
            if line.strip():
                yield replace_surrogates(line.strip())
        return
    session: PromptSession[str] = PromptSession(completer=WordCompleter(offers, sentence=True))
    while True:
        try:
            line = replace_surrogates(await session.prompt_async("you> ")).strip()
        except EOFError:
            return
        if line:
            yield line


@dataclass(slots=True)
class ChatSession:
    """A printed conversation. `decides` is set over a simulated case."""

    thread: "LocalThread"
    files: "AnswerFiles"
    by: str
    as_json: bool = False
    decides: "ApprovalSession | None" = None
    _first: dict[str, Any] = field(default_factory=dict)
    _told: "list[ReplyOutcome]" = field(default_factory=list)

    async def print_diagnosis(self, item: InboxItem) -> None:
        with self._show_progress():
            state, report = await self.thread.run_first_turn(item)
        self._first = build_diagnosis_document(state, report)
        self._print_content(render_report(state, report, decided="is proposed for approval, one after the other" if self.decides else ""))
        await self._run_open_decisions()

    async def handle_line(self, line: str) -> bool:
        """Answer a line; return False to end the conversation."""
        word, _, rest = line.partition(" ")
        if word == "/quit":
            return False
        try:
            if word == "/help":
                print_text(self._format_help(), err=True)
            elif word == "/attach":
                await self._send_message(f"here is {Path(rest.strip()).name}", self.by, read_logs([Path(rest.strip())], word))
            elif word == "/wait" and self.decides:
                await self._advance_clock(self.decides, rest)
            elif word.startswith("/") and word.count("/") == 1:
                print_error(f"{word[:80]} is none of {', '.join(SLASH_COMMANDS)}{', /wait 30m' if self.decides else ''}")
            else:
                await self._handle_message(line)
        except Refusal as error:
            print_error(str(error))
        return True

    def list_completions(self) -> list[str]:
        words = [word.split()[0] for word in SLASH_COMMANDS]
        if self.decides is None:
            return words
        numbers = range(1, len(self.decides.cards.shown) + 1)
        votes = [f"@{name} {verdict} {n}" for n in numbers for name in self.decides.people.may for verdict in ("approve", "reject")]
        return [*words, "/wait 30m", *votes]

    async def build_document(self) -> dict[str, Any]:
        decisions = await self.decides.list_decisions() if self.decides else []
        return self._first | {"replies": [row.to_json_row() for row in self._told], "decisions": decisions}

    async def _handle_message(self, line: str) -> None:
        """Count a decision; send the rest to the thread."""
        from bot.cli.simulated_approvals import parse_decision, parse_speaker

        speaker, text = parse_speaker(line)
        if decision := parse_decision(text):
            if self.decides is None:
                raise Refusal(NO_APPROVALS_NOTICE)
            await self.decides.cast_vote(decision, speaker or self.by)
            self._print_cards()
        elif self.decides and speaker in self.decides.people.known:
            await self._send_message(text, speaker)
        else:
            await self._send_message(line, self.by)

    async def _send_message(self, text: str, by: str, logs: tuple[tuple[str, str], ...] = ()) -> None:
        if len(text) > MAX_REPLY_CHARS:
            raise Refusal(f"a message has at most {MAX_REPLY_CHARS} characters; hand in a log with /attach FILE", 2)
        files = tuple(build_attachment(name, content) for name, content in logs)
        with self._show_progress():
            reply = await self.thread.send_reply(ThreadReply(by=by, text=text), files)
        self._told += reply
        for row in reply:
            shown_reply = replace(row, cards=()) if self.decides else row  # approval cards are printed separately
            self._print_content(render_reply_outcome(shown_reply, quoted=not sys.stdin.isatty()))  # a typed line is still visible above
            await self._deliver_files(row)
        await self._run_open_decisions()

    async def _deliver_files(self, told: "ReplyOutcome") -> None:
        if told.brings is not None and (self.files.folder is not None or not self.as_json):
            for line in await self.files.render_lines(told.brings, told.reply.text):
                self._print_content(indent_renderable(Text(line)))

    @contextlib.contextmanager
    def _show_progress(self) -> Iterator[None]:
        with show_live_progress(quiet=self.as_json) as watch:
            self.thread.watch = watch
            yield

    async def _advance_clock(self, decides: "ApprovalSession", span: str) -> None:
        from bot.cli.simulated_approvals import parse_duration

        await decides.advance_clock(parse_duration(span))
        self._print_cards()

    async def _run_open_decisions(self) -> None:
        if self.decides:
            await self.decides.run_until_idle()
            self._print_cards()

    def _print_cards(self) -> None:
        if self.decides:
            for line in self.decides.cards.drain_lines():
                self._print_content(Text(line))

    def _print_content(self, content: Any) -> None:
        if not self.as_json:
            open_console().print(content)

    def _format_help(self) -> str:
        rows = {**SLASH_COMMANDS, **SIMULATION_COMMANDS} if self.decides else SLASH_COMMANDS
        return "\n".join(
            [
                HELP_HINT,
                *(f"  {name:20} {description}" for name, description in rows.items()),
                SIMULATION_NOTICE if self.decides else NO_APPROVALS_NOTICE,
            ]
        )
