"""What several arms meet on the same case is worked out once: the facts of an output, its digest. Both are pure, and nothing is kept that an arm
could not have worked out itself.

nvidia-smi writes the time of day into its report. A look that differs in that line alone is known already.
"""

import hashlib
from collections.abc import Sequence
from functools import lru_cache

from kb.redact import redact
from tools.checks.check import Check
from tools.evidence import MemoryEvidence
from tools.fact import Fact

MOST_READ, MOST_TEXTS = 64, 512
"""Outputs of a check whose facts are kept, and outputs whose digest is: about what one case prints. More would only fill the memory."""

_OPEN, _CLOSE, _HEAD = "<timestamp>", "</timestamp>", 400


class Kept(MemoryEvidence):
    """Evidence in memory. An output that another arm has put there is not redacted again; facts are not written out and read back,
    which changes none of them (tested)."""

    def __init__(self) -> None:
        super().__init__()
        self._texts: dict[str, str] = {}
        self._rows: dict[str, list[Fact]] = {}

    async def put_text(self, incident: str, text: str) -> str:
        sha = digest(text)
        self._texts[sha] = text
        return sha

    async def get_text(self, sha256: str) -> str | None:
        text = self._texts.get(sha256)
        return None if text is None else redact(text)

    async def put_facts(self, incident: str, facts: Sequence[Fact]) -> str:
        sha = f"facts-{len(self._rows)}"
        self._rows[sha] = list(facts)
        return sha

    async def get_facts(self, sha256: str) -> list[Fact]:
        return list(self._rows[sha256]) if sha256 else []


def remembering(check: Check) -> Check:
    """The same check, reading an output that it has met before from memory."""

    @lru_cache(maxsize=MOST_READ)
    def read(text: str) -> tuple[Fact, ...]:
        return check.parse_output(text)

    class Remembering(Check):
        def parse_output(self, text: str) -> tuple[Fact, ...]:
            return read(timeless(text))

    return Remembering(**{name: getattr(check, name) for name in Check.__slots__})


def timeless(text: str) -> str:
    """The report without the time at its head; any other text as it is."""
    start = text.find(_OPEN, 0, _HEAD)
    end = text.find(_CLOSE, start, start + _HEAD) if start >= 0 else -1
    return text if end < 0 else text[: start + len(_OPEN)] + text[end:]


def digest(text: str) -> str:
    """Of the redacted text. A time of day is no secret and makes nothing beside it one."""
    return hashlib.sha256((text if _clean(timeless(text)) else redact(text)).encode()).hexdigest()


@lru_cache(maxsize=MOST_TEXTS)
def _clean(text: str) -> bool:
    return redact(text) == text
