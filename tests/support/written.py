"""The words of a written page in any format, as a search or screen reader finds them."""

import io
from collections.abc import Iterator
from typing import Any

from pypdf import PdfReader
from pypdf.generic import Destination


def sheets_of(content: bytes) -> list[str]:
    """Return the text of each PDF page."""
    return [sheet.extract_text() for sheet in PdfReader(io.BytesIO(content)).pages]


def text_of(how: str, content: bytes) -> str:
    """Return all words of a file; of a PDF also bookmarks, title and alt texts. White space is normalised, because line
    breaks mean nothing.
    """
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
