"""Files of a terminal answer (outputs, charts, report): saved to a folder or printed."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bot.app.diagnosis_runtime import DiagnosisRuntime
from bot.refusal import Refusal
from bot.reports.charts.drawing import Drawing
from bot.reports.drawing_source import DrawingSource, FactsNotKept, load_no_records
from bot.reports.figures import build_bandwidth_expectation
from bot.reports.incident_sources import IncidentSources, use_id_as_name
from bot.reports.page_formats import FORMATS, PageFormat, parse_page_format
from graph.incident_view import IncidentView
from graph.report import AttachedChart, AttachedOutput, Report
from kb.needle_search import split_lines
from kb.redact import show_invisible

if TYPE_CHECKING:
    from bot.cli.local_thread import LocalThread
    from tools.ledger.reader import LedgerReader

NO_LEDGER_REASON = "a terminal decides nothing"
NOT_KEPT_TEXT = "no longer stored"


@dataclass(slots=True)
class AnswerFiles:
    """`folder` None prints the files; `ledger` is None without approvals."""

    world: DiagnosisRuntime
    thread: "LocalThread"
    folder: Path | None = None
    ledger: "LedgerReader | None" = None

    def __post_init__(self) -> None:
        if self.folder is not None:
            self.folder = make_folder(self.folder)

    async def render_lines(self, report: Report, asked: str) -> list[str]:
        """Return the files as text, or the saved paths."""
        output_lines = [line for row in report.shown for line in await self._render_output(row)]
        rows = IncidentView(await self.thread.get_state(""))
        picture_lines = [line for picture in report.pictures if picture.asked for line in await self._render_picture(picture, rows)]
        return [*output_lines, *picture_lines, *(await self._render_page(rows.id, asked) if report.page else [])]

    async def _render_output(self, output: AttachedOutput) -> list[str]:
        text = await self.world.services.evidence.get_text(output.sha256)
        if text is None:
            return [f"{output.name}: {NOT_KEPT_TEXT}"]
        return self._save_file(output.name, text.encode()) or [f"{output.name}:", *(show_invisible(line) for line in split_lines(text))]

    async def _render_picture(self, chart: AttachedChart, incident_view: IncidentView) -> list[str]:
        try:
            drawing = await self._build_drawing_source().build_drawing(chart, incident_view)
        except FactsNotKept:
            return [f"the picture: its numbers are {NOT_KEPT_TEXT}"]
        if self.folder is None:
            return [line.rstrip() for line in drawing.text.split("\n")]
        return [*self._save_file(f"{drawing.name}.png", _draw_png(drawing)), *self._save_file(f"{drawing.name}.txt", drawing.text.encode())]

    async def _render_page(self, incident: str, asked: str) -> list[str]:
        page_format: PageFormat = parse_page_format(asked) if self.folder is not None else "md"
        page = await self._build_incident_sources().build_operator_page(incident)
        content = FORMATS[page_format].write(page)
        return self._save_file(f"{incident}-report.{page_format}", content) or content.decode().rstrip().split("\n")

    def _save_file(self, name: str, content: bytes) -> list[str]:
        if self.folder is None:
            return []
        file = self.folder / Path(name).name
        try:
            file.write_bytes(content)
        except OSError as error:
            raise Refusal(f"{file}: cannot be written: {error.strerror}") from error
        return [f"saved {file} ({len(content):,} bytes)"]

    def _build_drawing_source(self) -> DrawingSource:
        services = self.world.services
        expect_bandwidth = partial(build_bandwidth_expectation, services.inventory, services.skus)
        list_records = self.ledger.list_incident_records if self.ledger else load_no_records
        return DrawingSource(services.evidence, use_id_as_name, services.taxonomy.titles, expect_bandwidth, list_records)

    def _build_incident_sources(self) -> IncidentSources:
        services = self.world.services
        return IncidentSources(
            self.thread.get_state,
            services.evidence,
            services.clock,
            self.ledger,
            NO_LEDGER_REASON,
            self.thread.get_metrics,
            titles=services.taxonomy.titles,
            expected=partial(build_bandwidth_expectation, services.inventory, services.skus),
        )


def make_folder(folder: Path) -> Path:
    """Create the folder if missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refusal(f"--save {folder}: cannot be made: {error.strerror}", 2) from error
    return folder


def _draw_png(drawing: Drawing) -> bytes:
    return drawing.draw("png")
