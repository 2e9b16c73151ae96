"""Chart colours. A reader's theme may be dark or light, so charts have a background and a frame."""

from typing import Final

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
