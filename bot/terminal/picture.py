"""`rackmedic picture`: one picture of an incident as a file, and its rows as text for who cannot see it."""

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bot.pictures.drawing import Drawing
from bot.postmortem.single import PICTURES, PictureName, one_drawing
from bot.refusal import Refusal
from bot.terminal.edge import tell
from bot.terminal.paper import json_line
from bot.terminal.requests import picture_kind

if TYPE_CHECKING:
    from bot.settings import Settings

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class PictureRequest:
    """What was typed. Raises Refusal for a kind or a file's name that is none."""

    incident: str
    kind: str
    key: str = ""
    out: Path | None = None
    as_json: bool = False

    def __post_init__(self) -> None:
        if self.name is None:
            raise Refusal(f"--kind {self.kind!r:.40}: there is {', '.join(PICTURES)}", 2)
        if self.key and self.name != "heatmap":
            raise Refusal(f"--key goes with --kind heatmap; {self.name} is of the whole incident", 2)
        if self.out is not None:
            picture_kind(self.out, "a picture")

    @property
    def name(self) -> PictureName | None:
        return next((name for name in PICTURES if name == self.kind), None)


async def draw_once(settings: "Settings", request: PictureRequest) -> int:
    """Gather the rows, draw them where a file is named, and print. Raises Refusal."""
    from bot.run.logs import set_up_logs
    from bot.terminal.postmortem import incident_sources
    from bot.terminal.stored import stored

    set_up_logs(settings.log_level, settings.log_format)
    async with stored(settings, "incidents") as store, incident_sources(settings, store) as sources:
        matter = await sources.matter(request.incident)
    assert request.name is not None  # a request refuses what is none
    if matter.unread and request.name in ("heatmap", "bandwidth"):
        raise Refusal(f"{request.incident}: {' '.join(matter.unread)}")
    drawing = one_drawing(request.name, request.key, matter)
    size = await asyncio.to_thread(written, drawing, request)
    show(drawing, request, size, terminal=sys.stdout.isatty())
    return 0


def written(drawing: Drawing, request: PictureRequest) -> int:
    """Bytes of the file."""
    if request.out is None:
        return 0
    content = drawing.draw(picture_kind(request.out, "a picture"))
    try:
        request.out.write_bytes(content)
    except OSError as why:
        raise Refusal(f"--out {request.out}: cannot be written: {why.strerror}") from why
    return len(content)


def show(drawing: Drawing, request: PictureRequest, size: int, *, terminal: bool = False) -> None:
    """On stdout. `size`: bytes of the file that was written."""
    if request.as_json:
        tell(json_line(as_json(drawing, request, size)))
        return
    if request.out is None or terminal:
        tell(drawing.text, end="")
    if request.out is not None:
        kind = picture_kind(request.out, "a picture").upper()
        tell(f"{request.out}: {kind}, {size:,} bytes: {drawing.words} Read it before it leaves.")


def as_json(drawing: Drawing, request: PictureRequest, size: int) -> dict[str, Any]:
    """The shape that scripts rely on; rows as they are printed, a head first."""
    row: dict[str, Any] = {
        "schema": SCHEMA,
        "incident": request.incident,
        "kind": request.kind,
        "title": drawing.title,
        "words": drawing.words,
        "rows": drawing.cells,
        "more": drawing.more,
    }
    return row | ({"file": str(request.out), "bytes": size} if request.out is not None else {})
