"""Retry writing evidence that the disk refused."""

from typing import Protocol

import structlog

from bot.tasks import run_periodically

log = structlog.get_logger()
RETRY_INTERVAL_SECONDS = 10.0


class BufferedEvidence(Protocol):
    """An evidence store that buffers what its disk refuses."""

    def get_trouble(self) -> str: ...

    async def retry_buffered(self) -> int: ...


class EvidenceRetrier:
    def __init__(self, evidence: BufferedEvidence) -> None:
        self._evidence = evidence
        self._said = ""

    async def run(self) -> None:
        await run_periodically("evidence", self.retry_once, RETRY_INTERVAL_SECONDS)

    async def retry_once(self) -> None:
        why = self._evidence.get_trouble()
        left = await self._evidence.retry_buffered() if why else 0
        if left and why != self._said:
            log.error("evidence.not_kept", why=why, held=left)
        elif self._said and not left:
            log.info("evidence.kept_again", after=self._said)
        self._said = why if left else ""
