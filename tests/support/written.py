"""What a reader finds in a written page, whatever its format: words, as a search or a screen reader meets them."""

import io
from collections.abc import Iterator
from typing import Any

from pypdf import PdfReader
from pypdf.generic import Destination


def sheets_of(content: bytes) -> list[str]:
    """The words of each sheet of a PDF."""
    return [sheet.extract_text() for sheet in PdfReader(io.BytesIO(content)).pages]


def text_of(how: str, content: bytes) -> str:
    """All words of a file, those that nobody sees at first too: of a PDF its bookmarks, its title and what its pictures are for who cannot see
    them. White space is one blank: where a line of paper ends says nothing."""
    words = "\n".join([*sheets_of(content), *_beside(content)]) if how == "pdf" else content.decode()
    return " ".join(words.split())


def _beside(content: bytes) -> Iterator[str]:
    reader = PdfReader(io.BytesIO(content))
    yield from (str(row) for row in (reader.metadata or {}).values())
    yield from _titles(reader.outline)
    size: Any = reader.trailer["/Size"]
    for number in range(1, int(size)):
        row = reader.get_object(number)
        if isinstance(row, dict) and "/Alt" in row:
            yield str(row["/Alt"])


def _titles(marks: list[Any]) -> Iterator[str]:
    for mark in marks:
        yield from [str(mark.title)] if isinstance(mark, Destination) else _titles(mark)
