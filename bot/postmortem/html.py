"""A page as one HTML file: styles and pictures within it, no script, nothing fetched, light and dark, and a form of its own for paper. Pure."""

import base64
from collections.abc import Iterator, Sequence
from html import escape

from bot.postmortem.page import APPENDIX, BulletList, Figure, Page, PagePart, PageTable, Paragraph, QuotedLines, begins_appendix
from bot.postmortem.tables import left_out

STYLE = """
:root { color-scheme: light dark; --ink: #1d2430; --paper: #ffffff; --soft: #f3f5f8; --line: #c9d0da; --quiet: #4c5a6d; --mark: #0b5394; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ee; --paper: #14181f; --soft: #1f2530; --line: #3a4352; --quiet: #a5b0c0; --mark: #8ab8f0; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 3rem; max-width: 62rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, "Segoe UI", "DejaVu Sans", "Noto Sans", sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .4rem; }
h2 { font-size: 1.1rem; margin: 1.8rem 0 .5rem; padding-bottom: .2rem; border-bottom: 2px solid var(--line); color: var(--mark); }
h2.appendix { margin-top: 3rem; font-size: 1.3rem; color: var(--ink); }
h3 { font-size: 1rem; margin: 1.4rem 0 .4rem; color: var(--mark); }
.lead { margin: 0; font-weight: 600; color: var(--quiet); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; margin: .4rem 0; }
th, td { text-align: start; vertical-align: top; padding: .3rem .6rem; border-bottom: 1px solid var(--line); min-width: 5.5rem; }
td:last-child { overflow-wrap: anywhere; min-width: 9rem; }
thead th { background: var(--soft); font-size: .85rem; }
tbody th { width: 11rem; color: var(--quiet); font-weight: 600; }
pre { margin: .4rem 0; padding: .6rem .8rem; background: var(--soft); border-inline-start: 3px solid var(--line);
  font: 12.5px/1.45 "DejaVu Sans Mono", ui-monospace, monospace; white-space: pre-wrap; unicode-bidi: plaintext; }
figure { margin: .6rem 0; }
figure img { max-width: 100%; height: auto; }
summary { cursor: pointer; color: var(--mark); }
figcaption { color: var(--quiet); font-size: .9rem; }
footer { margin-top: 2rem; padding-top: .6rem; border-top: 1px solid var(--line); color: var(--quiet); font-size: .85rem; }
ul { margin: .3rem 0; padding-inline-start: 1.3rem; }
@media print {
  :root { --ink: #000000; --paper: #ffffff; --soft: #f3f5f8; --line: #b5bcc6; --quiet: #333333; --mark: #000000; }
  @page { size: A4; margin: 16mm 14mm; }
  body { max-width: none; padding: 0; font-size: 10pt; }
  h2, h3, thead { break-after: avoid; }
  h2.appendix { break-before: page; margin-top: 0; }
  tr, pre, figure { break-inside: avoid; }
  pre { font-size: 8pt; }
}
"""
DARK = "screen and (prefers-color-scheme: dark)"
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def html(page: Page) -> bytes:
    """The file."""
    lines = [
        "<!doctype html>",
        f'<html lang="{escape(page.language)}">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="referrer" content="no-referrer">',
        f"<title>{escape(page.title)}</title>",
        f"<style>{STYLE}</style>",
        "</head>",
        "<body>",
        "<main>",
        f'<h1 dir="auto">{escape(page.title)}</h1>',
        f'<p class="lead" dir="auto">{escape(page.lead)}</p>',
    ]
    appendix = begins_appendix(page)
    for section in page.sections:
        lines += [f'<h2 class="appendix">{APPENDIX}</h2>'] if section is appendix else []
        level = "h3" if section.appendix else "h2"
        lines += [
            "<section>",
            f'<{level} dir="auto">{escape(section.title)}</{level}>',
            *(line for part in section.parts for line in _part(part, section.title)),
        ]
        lines.append("</section>")
    notes = [f'<p dir="auto">{escape(note)}</p>' for note in page.notes]
    return "\n".join([*lines, "</main>", "<footer>", *notes, "</footer>", "</body>", "</html>", ""]).encode()


def _part(part: PagePart, below: str) -> Iterator[str]:
    match part:
        case Paragraph(text, strong):
            yield f'<p dir="auto">{f"<strong>{escape(text)}</strong>" if strong else escape(text)}</p>'
        case BulletList(rows):
            yield from ("<ul>", *(f'<li dir="auto">{escape(row)}</li>' for row in rows), "</ul>")
        case PageTable(head, rows):
            yield from _table(head, rows, below)
        case QuotedLines(lines):
            yield "<pre>" + "\n".join(escape(line) for line in lines) + "</pre>"
        case Figure(title, words, png, rows, _):
            yield f'<figure><picture>{_by_theme(part)}<img src="{_data(png)}" alt="{escape(words)}"></picture>'
            yield f'<figcaption dir="auto">{escape(title)}: {escape(words)}</figcaption></figure>'
            if rows:
                rest = [f"<p>{escape(said)}</p>" for said in left_out(part)]
                yield from ("<details><summary>The same as a table</summary>", *_table(rows[0], rows[1:], title), *rest, "</details>")


def _by_theme(figure: Figure) -> str:
    """The picture on a dark ground, for a dark screen; paper is light."""
    return f'<source media="{DARK}" srcset="{_data(figure.dark)}">' if figure.dark else ""


def _data(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], name: str) -> Iterator[str]:
    """What is wider than a telephone is reached by keys too, and says what it is."""
    yield f'<div class="scroll" tabindex="0" role="group" aria-label="{escape(name)}"><table>'
    if head:
        yield "<thead><tr>" + "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head) + "</tr></thead>"
    yield "<tbody>"
    yield from ("<tr>" + "".join(_cell(cell, names=not head and at == 0) for at, cell in enumerate(row)) + "</tr>" for row in rows)
    yield "</tbody></table></div>"


def _cell(text: str, *, names: bool) -> str:
    return f'<th scope="row" dir="auto">{escape(text)}</th>' if names else f'<td dir="auto">{escape(text)}</td>'
