"""Cache pure results that several arms need on the same case: the facts and digest of an output. Nothing is cached that
an arm could not compute itself. nvidia-smi prints the time of day; outputs that differ only there count as equal.
"""

import hashlib
from collections.abc import Sequence
from functools import lru_cache

from kb.redact import redact
from tools.checks.check_types import Check
from tools.evidence import MemoryEvidence
from tools.fact import Fact

# cached outputs per check, and cached digests: about one case's; more would only use memory
MOST_READ, MOST_TEXTS = 64, 512

_OPEN, _CLOSE, _HEAD = "<timestamp>", "</timestamp>", 400


class Kept(MemoryEvidence):
    """In-memory evidence that redacts an output once for all arms and does not serialise facts (tested to be
    equivalent).
    """

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
    """Return the check with cached parsing."""

    @lru_cache(maxsize=MOST_READ)
    def read(text: str) -> tuple[Fact, ...]:
        return check.parse_output(text)

    class Remembering(Check):
        def parse_output(self, text: str) -> tuple[Fact, ...]:
            return read(timeless(text))

    return Remembering(**{name: getattr(check, name) for name in Check.__slots__})


def timeless(text: str) -> str:
    """Return nvidia-smi's report without its timestamp; other texts unchanged."""
    start = text.find(_OPEN, 0, _HEAD)
    end = text.find(_CLOSE, start, start + _HEAD) if start >= 0 else -1
    return text if end < 0 else text[: start + len(_OPEN)] + text[end:]


def digest(text: str) -> str:
    """Return the digest of the redacted text. The timestamp never affects redaction."""
    return hashlib.sha256((text if _clean(timeless(text)) else redact(text)).encode()).hexdigest()


@lru_cache(maxsize=MOST_TEXTS)
def _clean(text: str) -> bool:
    return redact(text) == text
