"""The SVG canvas: contrast, size, and escaped untrusted text."""

import pytest

from bot.reports.charts import canvas
from bot.reports.charts.canvas import Canvas, blend_colours, choose_ink, compute_contrast, estimate_text_width, fit_text, replace_undrawable
from bot.reports.charts.heatmap import render_heatmap
from tests.bot.reports.charts.test_heat import heat_of

LARGEST = 200_000


def test_words_and_signs_can_be_read_on_their_ground() -> None:
    words = (canvas.INK, canvas.FAINT, canvas.GOOD, canvas.BAD, canvas.DOUBT, *canvas.LINES)
    assert min(compute_contrast(ink, canvas.BACKGROUND) for ink in words) >= 4.5
    assert min(compute_contrast(page, canvas.FRAME) for page in ("#ffffff", "#1a1d21")) >= 3
    cells = [blend_colours(canvas.HEAT_SCALE, part / 50) for part in range(51)]
    assert min(compute_contrast(choose_ink(cell), cell) for cell in cells) >= 4.5


@pytest.mark.parametrize("hosts", [0, 1, 128])
def test_a_heat_map_stays_small(hosts: int) -> None:
    drawn = render_heatmap(heat_of([f"gpu-{n:03}" for n in range(hosts)], hot="gpu-001"), "png")
    assert len(drawn) < LARGEST


def test_what_strangers_write_is_letters_and_nothing_else() -> None:
    sheet = Canvas(200, 80, "<b>", 'alt " & <script>')
    sheet.draw_text(10, 20, "</text><script>$x$ &amp;")
    svg = sheet.render_svg()
    assert "<script>" not in svg
    assert "&lt;/text&gt;&lt;script&gt;$x$ &amp;amp;" in svg
    assert sheet.render("png").startswith(b"\x89PNG")


def test_names_of_any_script_are_kept_and_what_no_font_has_is_a_question_mark() -> None:
    assert replace_undrawable("Привет שלום مرحبا") == "Привет שלום مرحبا"
    assert replace_undrawable("a\nb\u202e🔥日") == "a b???"


def test_words_are_cut_to_their_room() -> None:
    assert fit_text("gpu-" + "0" * 100 + "17", 12, 120).endswith("17")
    assert fit_text("a long sentence that goes on", 12, 80).endswith("…")
    assert estimate_text_width(fit_text("m" * 1000, 12, 120), 12) <= 120
