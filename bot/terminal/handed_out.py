"""What an answer in a terminal's conversation brings beside its words: outputs, pictures and the report, written into a folder where one was named, else
printed, as far as a terminal can show them. Where it is is said."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bot.pictures.drawing import Drawing
from bot.postmortem.drawings import DrawnFrom, FactsGone
from bot.postmortem.figures import reached
from bot.postmortem.formats import FORMATS, PageFormat, format_asked
from bot.postmortem.gather import IncidentSources, called_by_id
from bot.refusal import Refusal
from bot.run.world import World
from graph.report import Report, ShownOutput, ShownPicture
from graph.rows import IncidentRows
from kb.redact import visible
from kb.scan import lines_in

if TYPE_CHECKING:
    from bot.terminal.conversation import PlayedThread
    from tools.ledger.book import Book

NO_LEDGER = "a terminal decides nothing"
GONE = "not kept any more"


@dataclass(slots=True)
class HandedOut:
    """`folder`: where files go; None prints them. `ledger` is None where nothing can be decided."""

    world: World
    thread: "PlayedThread"
    folder: Path | None = None
    ledger: "Book | None" = None

    def __post_init__(self) -> None:
        if self.folder is not None:
            self.folder = usable(self.folder)

    async def lines(self, report: Report, asked: str) -> list[str]:
        """What to print of it: the things themselves, or where they were written. Raises Refusal where they cannot be written."""
        shown = [line for row in report.shown for line in await self._output(row)]
        rows = IncidentRows(await self.thread.state_of(""))
        drawn = [line for wanted in report.pictures if wanted.asked for line in await self._picture(wanted, rows)]
        return [*shown, *drawn, *(await self._page(rows.id, asked) if report.page else [])]

    async def _output(self, row: ShownOutput) -> list[str]:
        text = await self.world.ports.evidence.get(row.sha256)
        if text is None:
            return [f"{row.name}: {GONE}"]
        return self._put(row.name, text.encode()) or [f"{row.name}:", *(visible(line) for line in lines_in(text))]

    async def _picture(self, wanted: ShownPicture, rows: IncidentRows) -> list[str]:
        """In a folder the picture and its rows; else the rows."""
        try:
            drawing = await self._drawn_from().drawing(wanted, rows)
        except FactsGone:
            return [f"the picture: its numbers are {GONE}"]
        if self.folder is None:
            return [line.rstrip() for line in drawing.text.split("\n")]
        return [*self._put(f"{drawing.name}.png", _png(drawing)), *self._put(f"{drawing.name}.txt", drawing.text.encode())]

    async def _page(self, incident: str, asked: str) -> list[str]:
        """As a PDF, or in the format that was asked for; on paper that only takes text as Markdown."""
        written: PageFormat = format_asked(asked) if self.folder is not None else "md"
        page = await self._sources().for_operators(incident)
        content = FORMATS[written].write(page)
        return self._put(f"{incident}-report.{written}", content) or content.decode().rstrip().split("\n")

    def _put(self, name: str, content: bytes) -> list[str]:
        """Written, and where; nothing where there is no folder."""
        if self.folder is None:
            return []
        file = self.folder / Path(name).name
        try:
            file.write_bytes(content)
        except OSError as why:
            raise Refusal(f"{file}: cannot be written: {why.strerror}") from why
        return [f"saved {file} ({len(content):,} bytes)"]

    def _drawn_from(self) -> DrawnFrom:
        ports = self.world.ports
        made = DrawnFrom(ports.evidence, called_by_id, ports.taxonomy.titles, partial(reached, ports.inventory, ports.skus))
        return made if self.ledger is None else DrawnFrom(made.evidence, made.name_of, made.titles, made.expected, self.ledger.of_incident)

    def _sources(self) -> IncidentSources:
        ports = self.world.ports
        return IncidentSources(
            self.thread.state_of,
            ports.evidence,
            ports.clock,
            self.ledger,
            NO_LEDGER,
            self.thread.course_of,
            titles=ports.taxonomy.titles,
            expected=partial(reached, ports.inventory, ports.skus),
        )


def usable(folder: Path) -> Path:
    """The folder, made where it is not there. Raises Refusal."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as why:
        raise Refusal(f"--save {folder}: cannot be made: {why.strerror}", 2) from why
    return folder


def _png(drawing: Drawing) -> bytes:
    return drawing.draw("png")
