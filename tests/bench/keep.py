"""What several arms meet on the same case is worked out once: an output's digest, redacted. Nothing is kept that an arm could not have made itself."""

import hashlib
from functools import lru_cache

from kb.redact import redact
from tools.evidence import MemoryEvidence

MOST_TEXTS = 512
"""Outputs whose digest is kept: about what one case prints."""


class Kept(MemoryEvidence):
    """Evidence in memory, where an output that another arm has put there is not redacted and digested again."""

    def __init__(self) -> None:
        super().__init__()
        self._texts: dict[str, str] = {}

    async def put(self, incident: str, text: str) -> str:
        sha = _digest(text)
        self._texts[sha] = text
        return sha

    async def get(self, sha256: str) -> str | None:
        text = self._texts.get(sha256)
        return None if text is None else redact(text)


@lru_cache(maxsize=MOST_TEXTS)
def _digest(text: str) -> str:
    return hashlib.sha256(redact(text).encode()).hexdigest()
