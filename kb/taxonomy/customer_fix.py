"""The customer's repair of a cause that they own: change, block to paste, how to verify.

Customers paste into a shell, so blocks come from the catalogue, and values from the site's profile or the machine's
driver, never from a job's output.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, Field

from kb.fact_text import SLOT_PATTERN
from kb.schema import StrictModel, Text

# the profile's expected value; the installed driver; the newest CUDA that it supports
BLOCK_SLOTS = ("expected", "driver", "cuda")
# what a thread shows without a scroll bar
MAX_BLOCK_LINES = 8
MAX_LINE_CHARS = 140
_SAFE_PATTERN = re.compile(r"[A-Za-z0-9_.,:=^-]{1,64}")


@dataclass(frozen=True)
class CustomerFix:
    """A repair. `paste`: blocks in order of preference; the last has no slots."""

    change: str
    paste: tuple[str, ...]
    works: str

    def choose_block(self, known: Mapping[str, str]) -> str:
        """Return the first block with known slots. A value that a shell could expand counts as unknown."""
        safe = {slot: value for slot, value in known.items() if slot in BLOCK_SLOTS and _SAFE_PATTERN.fullmatch(value)}
        return next(filled for text in self.paste if (filled := _fill_block(text, safe)) is not None)


def _find_slots(text: str) -> tuple[str, ...]:
    return tuple(slot for slot in SLOT_PATTERN.findall(text) if slot in BLOCK_SLOTS)


def _fill_block(text: str, known: Mapping[str, str]) -> str | None:
    for slot in _find_slots(text):
        if slot not in known:
            return None
        text = text.replace(f"{{{slot}}}", known[slot])
    return text


def _validate_block(text: str) -> str:
    lines = text.rstrip().split("\n")
    if len(lines) > MAX_BLOCK_LINES or any(len(line) > MAX_LINE_CHARS for line in lines):
        raise ValueError(f"a block has at most {MAX_BLOCK_LINES} lines of {MAX_LINE_CHARS} characters")
    if "```" in text:
        raise ValueError("a block is shown between ``` and may not hold them")
    return "\n".join(lines)


def _validate_last_block(blocks: tuple[str, ...]) -> tuple[str, ...]:
    if blocks and _find_slots(blocks[-1]):
        raise ValueError("the last block may have no slot, for where nothing is known")
    return blocks


class CustomerFixRow(StrictModel):
    """As a taxonomy's file holds it."""

    change: Text
    paste: Annotated[tuple[Annotated[str, AfterValidator(_validate_block)], ...], Field(min_length=1), AfterValidator(_validate_last_block)]
    works: Text

    @property
    def fix(self) -> CustomerFix:
        return CustomerFix(self.change, self.paste, self.works)
