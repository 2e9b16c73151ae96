"""Reads the files in this folder: `SOURCE | LINE`.

In a line, `{a40}` is a secret of forty letters and digits, generated from its position and always the same; `{q64}` is
a line of a key, `{n8}` a password of digits, `{BEGIN}` that word, ⏎ a new line, ␛ an escape (␀, ␈ and ␇ likewise).
Digits (`d`) are ids, not secrets.
"""

import random
import re
import string
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_SLOT = re.compile(r"\{([A-Za-z])(\d{1,3})\}")
_LETTERS = string.ascii_letters
_OF = {
    "h": "0123456789abcdef",
    "u": string.ascii_uppercase + "234567",
    "d": string.digits,
    "D": string.digits,
    "l": _LETTERS,
    "b": _LETTERS + string.digits + "+/",
    "q": _LETTERS + string.digits + "+/",
    "n": string.digits,
    "i": string.ascii_lowercase + string.digits,
    "p": _LETTERS + string.digits + "-_.",
    "s": _LETTERS + string.digits + "-_.!#%^*+~",
}
# text that would trip repository scanners or editors
SHOWN = {"{BEGIN}": "BEGIN", "{V}": "", "⏎": "\n", "␛": "\x1b", "␀": "\x00", "␈": "\b", "␇": "\a"}


@dataclass(frozen=True, slots=True)
class Vector:
    """A text of one kind of source, and its secrets."""

    source: str
    text: str
    secrets: tuple[str, ...]

    def left(self, clean: str) -> bool:
        """Return whether half of a secret is still readable."""
        seen = re.sub(r"\x1b\[[\d;]*m|[\u200b-\u200f\u2060\ufeff\u00ad]", "", clean)
        return any(half in seen for secret in self.secrets for half in (secret[: (len(secret) + 1) // 2], secret[len(secret) // 2 :]))


def vectors(name: str) -> Iterator[Vector]:
    """Yield a file's vectors."""
    for number, line in enumerate((Path(__file__).parent / f"{name}.txt").read_text(encoding="utf-8").split("\n")):
        if line and not line.startswith("#"):
            yield vector(line, f"{name} {number}")


def vector(line: str, seed: str) -> Vector:
    """Return the line with generated secrets."""
    dice, secrets = random.Random(seed), []

    def made(found: re.Match[str]) -> str:
        kind, size = found[1], int(found[2])
        made_up = "".join(dice.choices(_OF.get(kind, _LETTERS + string.digits), k=size))
        made_up = made_up if kind in "dDln" else f"{dice.choice('bcdf')}{made_up[1:-1]}{dice.randrange(10)}"
        made_up = made_up.upper() if kind == "u" else made_up
        if kind not in "dD":
            secrets.append(made_up)
        return made_up

    source, _, text = line.partition(" | ")
    text = _SLOT.sub(made, text)
    for shown, meant in SHOWN.items():
        text = text.replace(shown, meant)
    return Vector(source, text, tuple(secrets))
