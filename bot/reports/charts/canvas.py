"""Drawing surface for SVG and PNG. Text is escaped.

resvg draws PNGs with the shipped font, the same everywhere. Matplotlib would cost 60 MiB and a second of CPU time to
import.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Literal
from xml.sax.saxutils import escape, quoteattr

from bot.reports.charts import palette

ImageFormat = Literal["png", "svg"]
TextAnchor = Literal["start", "middle", "end"]
FONT_FAMILY = "DejaVu Sans"
MAX_PNG_PIXELS = 1_000_000  # keeps a PNG below 200 kB; small pictures are drawn at double scale
_NARROW_CHARS = frozenset("ijlft.,:;'|!()[]{} -/\\`I·")
_WIDE_CHARS = frozenset("mwMW@%—…&")


@dataclass(slots=True)
class Canvas:
    """`words` describe the picture for screen readers."""

    width: float
    height: float
    title: str
    words: str = ""
    _parts: list[str] = field(default_factory=list)

    def draw_box(self, x: float, y: float, width: float, height: float, fill: str, *, stroke: str = "none", round_by: float = 0) -> None:
        self._parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{round_by:g}" fill="{fill}" stroke="{stroke}"/>'
        )

    def draw_path(self, points: Sequence[tuple[float, float]], stroke: str, *, width: float = 1, dashes: str = "") -> None:
        places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
        self._parts.append(f'<polyline points="{places}" fill="none" stroke="{stroke}" stroke-width="{width:g}"{dashed}/>')

    def draw_dot(self, x: float, y: float, size: float, fill: str) -> None:
        self._parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size:g}" fill="{fill}" stroke="{palette.BACKGROUND}"/>')

    def draw_text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = 12,
        fill: str = "",
        anchor: TextAnchor = "start",
        room: float = 0,
        turn: float = 0,
    ) -> None:
        """Draw text at its baseline, cut to `room`."""
        escaped = escape(fit_text(text, size, room) if room else replace_undrawable(text))
        turned = f' transform="rotate({turn:g} {x:.1f} {y:.1f})"' if turn else ""
        ink = fill or palette.INK
        self._parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" text-anchor="{anchor}" fill="{ink}"{turned}>{escaped}</text>'
        )

    def render_svg(self) -> str:
        background = (
            f'<rect x="0.5" y="0.5" width="{self.width - 1:.1f}" height="{self.height - 1:.1f}" rx="6" '
            f'fill="{palette.BACKGROUND}" stroke="{palette.FRAME}"/>'
        )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label={quoteattr(replace_undrawable(self.words or self.title))} '
            f'width="{self.width:.0f}" height="{self.height:.0f}" viewBox="0 0 {self.width:.1f} {self.height:.1f}" '
            f'font-family="{FONT_FAMILY}, Verdana, sans-serif">'
            f"<title>{escape(replace_undrawable(self.title))}</title>{background}{''.join(self._parts)}</svg>"
        )

    def render(self, kind: ImageFormat) -> bytes:
        svg = self.render_svg()
        if kind == "svg":
            return svg.encode()
        import resvg_py  # native library that only PNG needs

        zoom = min(2.0, (MAX_PNG_PIXELS / (self.width * self.height)) ** 0.5)
        font = files("bot.reports.charts") / "fonts" / "DejaVuSans.ttf"
        return bytes(resvg_py.svg_to_bytes(svg_string=svg, skip_system_fonts=True, font_files=[str(font)], zoom=zoom))


def replace_undrawable(text: str) -> str:
    """Return one line with `?` for what the font cannot draw."""
    return "".join(char if _is_drawable(char) else " " if char in "\n\t\r" else "?" for char in text)


def _is_drawable(char: str) -> bool:
    return ord(char) < 0x2E80 and unicodedata.category(char)[0] != "C"


def estimate_text_width(text: str, size: float) -> float:
    return size * sum(
        0.36 if char in _NARROW_CHARS else 1.0 if char in _WIDE_CHARS else 0.7 if char.isupper() or ord(char) > 0x24F else 0.62
        for char in text
    )


def fit_text(text: str, size: float, room: float) -> str:
    words = replace_undrawable(text[:400])
    if estimate_text_width(words, size) <= room:
        return words
    keep = len(words)
    while keep > 2 and estimate_text_width(_cut_words(words, keep), size) > room:
        keep -= 1
    return _cut_words(words, keep)


def _cut_words(words: str, keep: int) -> str:
    """Cut sentences at the end, names in the middle: names differ at their ends."""
    if " " in words:
        return f"{words[: keep - 1].rstrip()}…"
    return f"{words[: (keep - 1) // 2]}…{words[len(words) - keep // 2 :]}"
