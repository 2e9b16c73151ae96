"""The colours of pictures. Slack tells nobody whether a reader's page is dark or light, and a thread is read by both, so a picture brings its
own ground and a frame, and reads alike on either page; the dark ground is for pages that know their reader's theme, as a report does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Theme = Literal["light", "dark"]


@dataclass(frozen=True, slots=True)
class Palette:
    """`ink` and `faint` are for words, `good`, `bad` and `doubt` for signs that a word or a mark stands beside: no colour says anything alone."""

    ground: str
    frame: str
    ink: str
    faint: str
    good: str
    bad: str
    doubt: str
    unknown: str
    lines: tuple[str, ...]
    heat: tuple[str, ...]
    """From the least to the most."""


HEAT: Final = ("#2c3f8f", "#2f6fae", "#59a6b5", "#b9d7a0", "#f3d36b", "#e58b3a", "#b3261e")
"""Alike on both grounds: a word in a cell is black or white, whichever reads better."""
PALETTES: Final[Mapping[Theme, Palette]] = {
    "light": Palette(
        ground="#fbfaf7",
        frame="#8a8a86",
        ink="#1b1c1e",
        faint="#565a5f",
        good="#1a6b3c",
        bad="#b3261e",
        doubt="#7a5200",
        unknown="#dcdad3",
        lines=("#1f5fa8", "#a34700", "#6a3d9a", "#1a6b3c", "#8a1c5c", "#3f5560", "#7a5200", "#0b6b70"),
        heat=HEAT,
    ),
    "dark": Palette(
        ground="#1d2025",
        frame="#7d828a",
        ink="#f1f2f3",
        faint="#b4b9c0",
        good="#6fd39a",
        bad="#ff8a80",
        doubt="#f0c36d",
        unknown="#4a4f58",
        lines=("#7fb8f5", "#ffab70", "#c9a6f0", "#6fd39a", "#f29ac8", "#a9bcc7", "#f0c36d", "#6fd0d6"),
        heat=HEAT,
    ),
}


def luminance(colour: str) -> float:
    """WCAG's relative luminance of `#rrggbb`."""
    parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """WCAG's ratio, 1 to 21."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def ink_on(colour: str) -> str:
    """Black or white, whichever reads better there."""
    return "#ffffff" if contrast("#ffffff", colour) > contrast("#000000", colour) else "#000000"


def blended(colours: tuple[str, ...], part: float) -> str:
    """The colour at `part`, 0 to 1, of a scale."""
    at = min(max(part, 0.0), 1.0) * (len(colours) - 1)
    first = min(int(at), len(colours) - 2)
    rest = at - first
    low, high = colours[first], colours[first + 1]
    mixed = [round(int(low[n : n + 2], 16) * (1 - rest) + int(high[n : n + 2], 16) * rest) for n in (1, 3, 5)]
    return "#" + "".join(f"{value:02x}" for value in mixed)
