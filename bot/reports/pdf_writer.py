"""A page as PDF on A4 with shipped DejaVu fonts. Pure.

Missing glyphs are drawn as □ and listed. HarfBuzz orders right-to-left text.
"""

import io
import unicodedata
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any, Final

from bot.reports.page import (
    APPENDIX_TITLE,
    TABLES_TITLE,
    BulletList,
    Figure,
    Page,
    PagePart,
    PageSection,
    PageTable,
    Paragraph,
    QuotedLines,
    build_tables_section,
    find_first_appendix_section,
)

TEXT_FAMILY = "text"
MONO_FAMILY = "mono"
FONT_FILES: Final[Mapping[tuple[str, str], str]] = {
    (TEXT_FAMILY, ""): "DejaVuSans.ttf",
    (TEXT_FAMILY, "B"): "DejaVuSans-Bold.ttf",
    (MONO_FAMILY, ""): "DejaVuSansMono.ttf",
}
MISSING_GLYPH = "□"
MAX_NAMED_LETTERS = 12  # missing letters listed
FIGURE_DPI = 120  # dots per inch of a figure
PAPER_COLOUR = (255, 255, 255)
INK_COLOUR = (29, 36, 48)
QUIET_COLOUR = (76, 90, 109)
LINE_COLOUR = (181, 188, 198)
SOFT_COLOUR = (243, 245, 248)
HEADING_COLOUR = (11, 83, 148)
SHORT_CELL_CHARS = 300  # a cell this short fits any page
MAX_CELL_LINES = 50  # lines of the tallest cell
MAX_NEUTRAL_RUN_CHARS = 100
STRONG_DIRECTIONS = frozenset({"L", "R", "AL"})
LEFT_TO_RIGHT_MARK = "\u200e"
MARGIN_MM = 15.0  # page margin
NAME_COLUMN_MM = 42.0  # width of a first column that holds names
# Drawn per letter. Hebrew and Tibetan need six; the library's work grows with the square of a letter's accents.
MAX_ACCENTS = 8
ACCENT_CATEGORIES = frozenset({"Mn", "Mc", "Me"})
MISSING_LETTERS_TEXTS: Final[Mapping[str, tuple[str, str]]] = {
    "en": ("Letters that the font of this file lacks, drawn as □", "and {rest} more"),
    "de": ("Zeichen, die der Schrift dieser Datei fehlen, als □ gezeichnet", "und {rest} weitere"),
}


def write_pdf(page: Page) -> bytes:
    """Return the file. Slow: call outside the event loop."""
    return _PdfDocument(page).render()


def list_missing_letters(page: Page) -> list[str]:
    """Return the letters that the font lacks."""
    drawing = _PdfDocument(page)
    drawing.render()
    return list(drawing.missing)


class _PdfDocument:
    def __init__(self, page: Page) -> None:
        from fpdf import FPDF  # loads fontTools and HarfBuzz, which only drawing needs

        self._page, self.missing = page, dict[str, None]()
        self._words = MISSING_LETTERS_TEXTS.get(page.language, MISSING_LETTERS_TEXTS["en"])
        self._pdf: Any = FPDF(format="A4")
        self._pdf.set_margin(MARGIN_MM)
        self._pdf.set_auto_page_break(True, margin=MARGIN_MM)
        folder = files("bot.reports.charts") / "fonts"
        for (family, style), file in FONT_FILES.items():
            self._pdf.add_font(family, style, str(folder / file))
        self._pdf.set_text_shaping(True)
        self._has = {family: frozenset(getattr(self._pdf.fonts[family], "cmap", ())) for family in (TEXT_FAMILY, MONO_FAMILY)}

    def render(self) -> bytes:
        self._set_metadata()
        self._pdf.add_page()
        self._draw_text(self._page.title, size=16, style="B", colour=INK_COLOUR)
        self._draw_text(self._page.lead, size=10, style="B", colour=QUIET_COLOUR)
        appendix, tables = find_first_appendix_section(self._page), build_tables_section(self._page)
        for section in filter(None, (*self._page.sections, tables)):
            if section is (appendix or tables):
                self._begin_appendix()
            self._draw_heading(section, self._measure_part(section.parts[0]))
            for part in section.parts:
                self._draw_part(part)
        self._draw_notes()
        return bytes(self._pdf.output())

    def _set_metadata(self) -> None:
        from fpdf import ViewerPreferences

        self._pdf.set_title(self._prepare_text(self._page.title))
        self._pdf.set_creator("RackMedic")
        self._pdf.set_lang(self._page.language)
        self._pdf.set_creation_date(self._page.made)
        self._pdf.viewer_preferences = ViewerPreferences(display_doc_title=True)

    def _begin_appendix(self) -> None:
        """Start a new sheet, so that the first can be handed on alone."""
        self._pdf.add_page()
        self._pdf.start_section(APPENDIX_TITLE)
        self._draw_text(APPENDIX_TITLE, size=14, style="B", colour=INK_COLOUR)

    def _draw_heading(self, section: PageSection, below: float) -> None:
        """Draw a heading, on the next page if its part starts there."""
        self._pdf.ln(3)
        if self._pdf.will_page_break(12 + below):
            self._pdf.add_page()
        self._pdf.start_section(self._prepare_text(section.title), level=int(section.appendix))
        self._draw_text(section.title, size=12, style="B", colour=HEADING_COLOUR)
        self._pdf.set_draw_color(*LINE_COLOUR)
        self._pdf.line(MARGIN_MM, self._pdf.get_y(), self._pdf.w - MARGIN_MM, self._pdf.get_y())
        self._pdf.ln(1.5)

    def _draw_part(self, part: PagePart) -> None:
        match part:
            case Paragraph(text, strong):
                self._draw_text(text, style="B" if strong else "")
            case BulletList(rows):
                for row in rows:
                    self._draw_text(f"• {row}")
            case PageTable(head, rows):
                self._draw_table(head, rows)
            case QuotedLines(lines):
                self._draw_quote(lines)
            case Figure(title, words, png, rows, _):
                self._draw_figure(title, words, png, tabled=bool(rows))

    def _draw_text(self, text: str, *, size: float = 9.5, style: str = "", colour: tuple[int, int, int] = INK_COLOUR) -> None:
        self._pdf.set_font(TEXT_FAMILY, style, size)
        self._pdf.set_text_color(*colour)
        self._pdf.multi_cell(0, size * 0.48, self._prepare_text(text), align="L", new_x="LMARGIN", new_y="NEXT", wrapmode="WORD")

    def _draw_quote(self, lines: Sequence[str]) -> None:
        """Draw lines, in the text font if the fixed one lacks a letter: the library's fallback garbles the rest."""
        self._pdf.set_text_color(*INK_COLOUR)
        self._pdf.set_fill_color(*SOFT_COLOUR)
        for line in lines:
            words = self._prepare_text(line)
            self._pdf.set_font(MONO_FAMILY if self._has[MONO_FAMILY].issuperset(map(ord, words)) else TEXT_FAMILY, "", 7.5)
            self._pdf.multi_cell(0, 3.6, words or " ", align="L", fill=True, new_x="LMARGIN", new_y="NEXT", wrapmode="CHAR", padding=(0, 1))
        self._pdf.ln(1)

    def _draw_table(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        from fpdf.fonts import FontFace

        self._pdf.set_font(TEXT_FAMILY, "", 8.5)
        self._pdf.set_text_color(*INK_COLOUR)
        self._pdf.set_draw_color(*LINE_COLOUR)
        self._pdf.set_fill_color(*PAPER_COLOUR)
        width = self._pdf.w - 2 * MARGIN_MM
        columns = (NAME_COLUMN_MM, width - NAME_COLUMN_MM) if not head else _compute_widths(head, rows, width)
        bold = FontFace(emphasis="BOLD", fill_color=SOFT_COLOUR, size_pt=8)
        with self._pdf.table(
            col_widths=columns, text_align="LEFT", line_height=4, padding=0.8, headings_style=bold,
            v_align="TOP", first_row_as_headings=bool(head), borders_layout="HORIZONTAL_LINES",
        ) as table:  # fmt: skip
            for cells in (head, *rows) if head else rows:
                row = table.row()
                for at, cell in enumerate(cells):
                    row.cell(
                        self._fit_cell(cell, columns[at]),
                        style=FontFace(color=QUIET_COLOUR, emphasis="BOLD") if not head and at == 0 else None,
                    )
        self._pdf.ln(1)

    def _fit_cell(self, cell: str, width: float) -> str:
        """Cut a cell to a page: the library draws no taller row."""
        words = self._prepare_text(cell)
        if len(words) <= SHORT_CELL_CHARS:
            return words
        lines = self._pdf.multi_cell(width - 2, 4, words, align="L", dry_run=True, output="LINES")
        clipped = "".join(lines[:MAX_CELL_LINES])
        return words if len(lines) <= MAX_CELL_LINES else f"{clipped}… (+{len(words) - len(clipped):,})"

    def _draw_figure(self, title: str, words: str, png: bytes, *, tabled: bool) -> None:
        wide, tall = self._measure_figure(png)
        if self._pdf.will_page_break(tall + 10):
            self._pdf.add_page()
        self._pdf.image(io.BytesIO(png), w=wide, h=tall, alt_text=self._prepare_text(words))
        self._draw_text(f"{title}: {words}", size=8, colour=QUIET_COLOUR)
        self._draw_text(f"As a table: below {TABLES_TITLE if tabled else 'Timeline'}.", size=8, colour=QUIET_COLOUR)

    def _measure_figure(self, png: bytes) -> tuple[float, float]:
        """Return millimetres: at most the page's width and half its height."""
        from PIL import Image

        with Image.open(io.BytesIO(png)) as image:
            wide, tall = image.size
        scale = min((self._pdf.w - 2 * MARGIN_MM) / wide, self._pdf.h / 2 / tall, 25.4 / FIGURE_DPI)
        return wide * scale, tall * scale

    def _measure_part(self, part: PagePart) -> float:
        """Return the minimum height."""
        return self._measure_figure(part.png)[1] + 10 if isinstance(part, Figure) else 10

    def _draw_notes(self) -> None:
        self._pdf.ln(4)
        for note in self._page.notes:
            self._draw_text(note, size=7.5, colour=QUIET_COLOUR)
        if self.missing:
            lacks, more = self._words
            missing_letters = ", ".join(f"U+{ord(char):04X}" for char in list(self.missing)[:MAX_NAMED_LETTERS])
            rest = len(self.missing) - MAX_NAMED_LETTERS
            missing_text = f"{missing_letters} {more.format(rest=rest)}" if rest > 0 else missing_letters
            self._draw_text(f"{lacks}: {missing_text}.", size=7.5, colour=QUIET_COLOUR)

    def _prepare_text(self, text: str) -> str:
        """Replace missing glyphs and bound what makes the library slow."""
        text = _limit_accents(text)
        lacks = {char for char in text if ord(char) not in self._has[TEXT_FAMILY]}
        self.missing |= dict.fromkeys(sorted(lacks))
        return _insert_direction_marks(text.translate({ord(char): MISSING_GLYPH for char in lacks}) if lacks else text)


def _limit_accents(text: str) -> str:
    """Drop accents above MAX_ACCENTS per letter, noting their count."""
    if text.isascii():
        return text
    shown_chars: list[str] = []
    marks = 0
    for char in text:
        if unicodedata.category(char) in ACCENT_CATEGORIES:
            marks += 1
            if marks > MAX_ACCENTS:
                continue
        elif marks:
            shown_chars += _format_left_out(marks)
            marks = 0
        shown_chars.append(char)
    return "".join((*shown_chars, *_format_left_out(marks)))


def _format_left_out(marks: int) -> list[str]:
    return [f"‹+{marks - MAX_ACCENTS:,} accents›"] if marks > MAX_ACCENTS else []


def _insert_direction_marks(text: str) -> str:
    """Break long neutral runs by invisible marks: the library recurses once per character."""
    if len(text) <= MAX_NEUTRAL_RUN_CHARS:
        return text
    shown_chars, run = [], 0
    for char in text:
        run = 0 if unicodedata.bidirectional(char) in STRONG_DIRECTIONS else run + 1
        if run > MAX_NEUTRAL_RUN_CHARS:
            shown_chars.append(LEFT_TO_RIGHT_MARK)
            run = 1
        shown_chars.append(char)
    return "".join(shown_chars)


def _compute_widths(head: Sequence[str], rows: Sequence[Sequence[str]], width: float) -> tuple[float, ...]:
    longest = [min(50, max(18, *(len(row[at]) for row in (head, *rows)))) for at in range(len(head))]
    return tuple(width * share / sum(longest) for share in longest)
