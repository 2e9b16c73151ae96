"""What a customer changes where a cause is theirs: the change in words, a block to paste, and how to see that it worked. Pure.

Blocks are the catalogue's own text. What is filled into one comes from the site's profile or was read of the machine's own driver, never from
what a job printed: a customer pastes it into a shell.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, Field

from kb.readable import SLOT
from kb.shapes import StrictModel, Text

FILLED_BY = ("expected", "driver", "cuda")
"""Slots of a block: what the site's profile expects; the driver that runs on the machines, and the newest CUDA that it takes."""
LONGEST_BLOCK, LONGEST_LINE = 8, 140
"""Lines, and characters of one, that a thread shows without a scroll bar."""
_SAFE = re.compile(r"[A-Za-z0-9_.,:=^-]{1,64}")


@dataclass(frozen=True)
class CustomerFix:
    """`paste` are blocks in the order to try: the first whose slots are all known is shown, and the last has none."""

    change: str
    paste: tuple[str, ...]
    works: str

    def block(self, known: Mapping[str, str]) -> str:
        """The block to paste. A value that a shell could read as more than a word counts as unknown."""
        safe = {slot: value for slot, value in known.items() if slot in FILLED_BY and _SAFE.fullmatch(value)}
        return next(filled for text in self.paste if (filled := _filled(text, safe)) is not None)


def _slots(text: str) -> tuple[str, ...]:
    return tuple(slot for slot in SLOT.findall(text) if slot in FILLED_BY)


def _filled(text: str, known: Mapping[str, str]) -> str | None:
    for slot in _slots(text):
        if slot not in known:
            return None
        text = text.replace(f"{{{slot}}}", known[slot])
    return text


def _block(text: str) -> str:
    lines = text.rstrip().split("\n")
    if len(lines) > LONGEST_BLOCK or any(len(line) > LONGEST_LINE for line in lines):
        raise ValueError(f"a block has at most {LONGEST_BLOCK} lines of {LONGEST_LINE} characters")
    if "```" in text:
        raise ValueError("a block is shown between ``` and may not hold them")
    return "\n".join(lines)


def _ends_plain(blocks: tuple[str, ...]) -> tuple[str, ...]:
    if blocks and _slots(blocks[-1]):
        raise ValueError("the last block may have no slot, for where nothing is known")
    return blocks


class CustomerFixRow(StrictModel):
    """As a taxonomy's file holds it."""

    change: Text
    paste: Annotated[tuple[Annotated[str, AfterValidator(_block)], ...], Field(min_length=1), AfterValidator(_ends_plain)]
    works: Text

    @property
    def fix(self) -> CustomerFix:
        """As the cards know it."""
        return CustomerFix(self.change, self.paste, self.works)
