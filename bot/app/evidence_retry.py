"""Evidence that the disk did not take is kept once it does: tried over and over, and written down when that begins and ends."""

from typing import Protocol

import structlog

from bot.tasks import run_periodically

log = structlog.get_logger()
RETRY_INTERVAL_SECONDS = 10.0


class BufferedEvidence(Protocol):
    """An evidence store that holds in memory what its disk does not take."""

    def get_trouble(self) -> str: ...

    async def retry_buffered(self) -> int: ...


class EvidenceRetrier:
    """One for each process that keeps evidence on a disk."""

    def __init__(self, evidence: BufferedEvidence) -> None:
        self._evidence = evidence
        self._said = ""

    async def run(self) -> None:
        """Until cancelled."""
        await run_periodically("evidence", self.retry_once, RETRY_INTERVAL_SECONDS)

    async def retry_once(self) -> None:
        """Once."""
        why = self._evidence.get_trouble()
        left = await self._evidence.retry_buffered() if why else 0
        if left and why != self._said:
            log.error("evidence.not_kept", why=why, held=left)
        elif self._said and not left:
            log.info("evidence.kept_again", after=self._said)
        self._said = why if left else ""
