"""Drawing surface for SVG and PNG. Text is escaped.

resvg draws PNGs with the shipped font, the same everywhere. Matplotlib would cost 60 MiB and a second of CPU time to
import.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Final, Literal
from xml.sax.saxutils import escape, quoteattr

# Chart colours. A reader's theme may be dark or light, so charts have a background and a frame.

BACKGROUND: Final = "#fbfaf7"
FRAME: Final = "#8a8a86"
UNKNOWN: Final = "#dcdad3"
# text
INK: Final = "#1b1c1e"
FAINT: Final = "#565a5f"
# marks beside a word or sign: no meaning rests on colour alone
GOOD: Final = "#1a6b3c"
BAD: Final = "#b3261e"
DOUBT: Final = "#7a5200"
LINES: Final = ("#1f5fa8", "#a34700", "#6a3d9a", "#1a6b3c", "#8a1c5c", "#3f5560", "#7a5200", "#0b6b70")
# from low to high; text in a cell is black or white by contrast
HEAT_SCALE: Final = ("#2c3f8f", "#2f6fae", "#59a6b5", "#b9d7a0", "#f3d36b", "#e58b3a", "#b3261e")


def compute_luminance(colour: str) -> float:
    """Return WCAG's relative luminance of `#rrggbb`."""
    parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def compute_contrast(one: str, other: str) -> float:
    """Return WCAG's contrast ratio, 1 to 21."""
    light, dark = sorted((compute_luminance(one), compute_luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def choose_ink(colour: str) -> str:
    """Return black or white by contrast."""
    return "#ffffff" if compute_contrast("#ffffff", colour) > compute_contrast("#000000", colour) else "#000000"


def blend_colours(colours: tuple[str, ...], part: float) -> str:
    """Return the scale's colour at `part`, 0 to 1."""
    at = min(max(part, 0.0), 1.0) * (len(colours) - 1)
    first = min(int(at), len(colours) - 2)
    rest = at - first
    low, high = colours[first], colours[first + 1]
    mixed = [round(int(low[n : n + 2], 16) * (1 - rest) + int(high[n : n + 2], 16) * rest) for n in (1, 3, 5)]
    return "#" + "".join(f"{value:02x}" for value in mixed)


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
        self._parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size:g}" fill="{fill}" stroke="{BACKGROUND}"/>')

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
        ink = fill or INK
        self._parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" text-anchor="{anchor}" fill="{ink}"{turned}>{escaped}</text>'
        )

    def render_svg(self) -> str:
        background = (
            f'<rect x="0.5" y="0.5" width="{self.width - 1:.1f}" height="{self.height - 1:.1f}" rx="6" '
            f'fill="{BACKGROUND}" stroke="{FRAME}"/>'
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
