"""`rackmedic picture`: one chart as file or text."""

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bot.cli.command_requests import parse_picture_format
from bot.cli.command_runtime import print_text
from bot.cli.safe_console import format_json_line
from bot.refusal import Refusal
from bot.reports.charts.drawing import Drawing
from bot.reports.drawing_source import PICTURES, PictureName, build_single_drawing

if TYPE_CHECKING:
    from bot.settings import Settings

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class PictureRequest:
    """Arguments of `picture`. Raises Refusal."""

    incident: str
    kind: str
    key: str = ""
    out: Path | None = None
    as_json: bool = False

    def __post_init__(self) -> None:
        if self.picture_name is None:
            raise Refusal(f"--kind {self.kind!r:.40}: there is {', '.join(PICTURES)}", 2)
        if self.key and self.picture_name != "heatmap":
            raise Refusal(f"--key goes with --kind heatmap; {self.picture_name} is of the whole incident", 2)
        if self.out is not None:
            parse_picture_format(self.out, "a picture")

    @property
    def picture_name(self) -> PictureName | None:
        return next((name for name in PICTURES if name == self.kind), None)


async def run_picture_command(settings: "Settings", request: PictureRequest) -> int:
    """Write or print the chart. Raises Refusal."""
    from bot.app.logs import set_up_logs
    from bot.cli.incident_report import open_incident_sources
    from bot.cli.persistent_store import open_persistent_store

    set_up_logs(settings.log_level, settings.log_format)
    async with open_persistent_store(settings, "incidents") as store, open_incident_sources(settings, store) as sources:
        matter = await sources.load_figure_inputs(request.incident)
    assert request.picture_name is not None  # checked by PictureRequest
    if matter.unread and request.picture_name in ("heatmap", "bandwidth"):
        raise Refusal(f"{request.incident}: {' '.join(matter.unread)}")
    drawing = build_single_drawing(request.picture_name, request.key, matter)
    size = await asyncio.to_thread(write_picture_file, drawing, request)
    print_picture(drawing, request, size, terminal=sys.stdout.isatty())
    return 0


def write_picture_file(drawing: Drawing, request: PictureRequest) -> int:
    """Return the bytes written."""
    if request.out is None:
        return 0
    content = drawing.draw(parse_picture_format(request.out, "a picture"))
    try:
        request.out.write_bytes(content)
    except OSError as error:
        raise Refusal(f"--out {request.out}: cannot be written: {error.strerror}") from error
    return len(content)


def print_picture(drawing: Drawing, request: PictureRequest, size: int, *, terminal: bool = False) -> None:
    """Print the rows. `size`: bytes of the file."""
    if request.as_json:
        print_text(format_json_line(build_picture_document(drawing, request, size)))
        return
    if request.out is None or terminal:
        print_text(drawing.text, end="")
    if request.out is not None:
        kind = parse_picture_format(request.out, "a picture").upper()
        print_text(f"{request.out}: {kind}, {size:,} bytes: {drawing.words} Read it before it leaves.")


def build_picture_document(drawing: Drawing, request: PictureRequest, size: int) -> dict[str, Any]:
    row: dict[str, Any] = {
        "schema": SCHEMA_VERSION,
        "incident": request.incident,
        "kind": request.kind,
        "title": drawing.title,
        "words": drawing.words,
        "rows": drawing.cells,
        "more": drawing.more,
    }
    return row | ({"file": str(request.out), "bytes": size} if request.out is not None else {})
