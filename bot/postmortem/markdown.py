"""A page as Markdown, for wikis, tickets and mail. A picture is its words: no Markdown carries an image within itself. Pure."""

import re
from collections.abc import Iterable, Iterator, Sequence

from bot.cards.text import defang
from bot.postmortem.page import APPENDIX, BulletList, Figure, Page, PagePart, PageTable, Paragraph, QuotedLines, begins_appendix
from bot.postmortem.tables import left_out

_SIGNS = re.compile(r"[\\`*_{}\[\]<>|~#&$@!]")
_BEGINS = re.compile(r"^(?=[-+=]|\d{1,9}[.)])")
_WWW = re.compile(r"(?i)\b(www)\.")
_AS_ENTITY = {"<": "&lt;", ">": "&gt;", "&": "&amp;", "@": "&#64;", "$": "&#36;"}


def markdown(page: Page) -> bytes:
    """The file."""
    lines = [f"# {_escaped(page.title)}", "", f"**{_escaped(page.lead)}**", ""]
    appendix = begins_appendix(page)
    for section in page.sections:
        lines += ["---", "", f"## {APPENDIX}", ""] if section is appendix else []
        lines += [f"{'###' if section.appendix else '##'} {_escaped(section.title)}", ""]
        for part in section.parts:
            lines += [*_part(part), ""]
    lines += ["---", "", *_list(page.notes)]
    return "\n".join([*lines, ""]).encode()


def _part(part: PagePart) -> Iterator[str]:
    match part:
        case Paragraph(text, strong):
            yield f"**{_escaped(text)}**" if strong else _escaped(text)
        case BulletList(rows):
            yield from _list(rows)
        case PageTable(head, rows):
            yield from _table(head, rows)
        case QuotedLines(lines):
            yield from _quoted(lines)
        case Figure(title, words, _, rows, _):
            yield f"*{_escaped(title)}*: {_escaped(words)}"
            if rows:
                yield from ("", *_table(rows[0], rows[1:]))
                yield from (line for said in left_out(part) for line in ("", _escaped(said)))


def _list(rows: Iterable[str]) -> Iterator[str]:
    return (f"- {_escaped(row)}" for row in rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    width = len(head) or max(map(len, rows), default=1)
    yield _row(head or [""] * width)
    yield "|" + "---|" * width
    yield from (_row(row) for row in rows)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(_escaped(cell) for cell in cells)} |"


def _quoted(lines: Sequence[str]) -> Iterator[str]:
    """A fence that is longer than any within."""
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    yield from (f"{fence}text", *lines, fence)


def _escaped(text: str) -> str:
    """Nothing in it is markup, no address can be clicked, and nobody is mentioned where it is pasted."""
    plain = _WWW.sub(r"\1\.", _SIGNS.sub(lambda found: _AS_ENTITY.get(found[0], f"\\{found[0]}"), defang(text)))
    return _BEGINS.sub(r"\\", plain) if not plain[:1].isdigit() else re.sub(r"^(\d{1,9})([.)])", r"\1\\\2", plain)
