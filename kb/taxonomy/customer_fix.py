"""The repair that a customer makes when they own the cause: what to change, a block to paste, and how to verify it.

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
    """A repair. `paste` holds the blocks in order of preference; the last one has no slots and always fits."""

    change: str
    paste: tuple[str, ...]
    works: str

    def choose_block(self, slot_values: Mapping[str, str]) -> str:
        """Return the first block whose slots all have a value. A value that a shell could expand counts as missing."""
        safe_values = {slot: value for slot, value in slot_values.items() if slot in BLOCK_SLOTS and _SAFE_PATTERN.fullmatch(value)}
        for template in self.paste[:-1]:
            block = _fill_block(template, safe_values)
            if block is not None:
                return block
        return self.paste[-1]


def _find_slots(text: str) -> tuple[str, ...]:
    return tuple(slot for slot in SLOT_PATTERN.findall(text) if slot in BLOCK_SLOTS)


def _fill_block(template: str, slot_values: Mapping[str, str]) -> str | None:
    """Return the block with its slots filled, or None if one has no value."""
    block = template
    for slot in _find_slots(template):
        if slot not in slot_values:
            return None
        block = block.replace(f"{{{slot}}}", slot_values[slot])
    return block


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
    """The `customer_fix` of a leaf in a taxonomy file."""

    change: Text
    paste: Annotated[tuple[Annotated[str, AfterValidator(_validate_block)], ...], Field(min_length=1), AfterValidator(_validate_last_block)]
    works: Text

    @property
    def fix(self) -> CustomerFix:
        return CustomerFix(self.change, self.paste, self.works)
