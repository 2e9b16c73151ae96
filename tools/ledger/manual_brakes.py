"""The brakes that people and the ledger itself pull and release: kill switch and breakers."""

from kb.redact import redact
from tools.ledger import audit
from tools.ledger.brakes import STOP_BRAKE
from tools.ledger.journal import ChainRewound, ClockChoice, JournalHead, KeyParts, retry_until_settled
from tools.ledger.reader import LedgerReader

MAX_NOTE_CHARS = 500
BRAKES_CHANGED_TEXT = (
    "kill switch, breakers or held hosts were changed in Redis by another program. Compare them with the audit log before resuming"
)


class LedgerBrakes(LedgerReader):
    """Reads, and the brakes. State changes of actions are in `tools.ledger.ledger`."""

    async def stop(self, person: str, why: str) -> None:
        """Pull the kill switch: no further claims. Running actions continue."""
        why = redact_note(why) or "no reason given"
        await self._set_brake("stop", person, "stop", f"{person}: {why}", why=why)

    async def resume(self, person: str) -> None:
        """Release the kill switch. The stored brakes count from now on; the human has checked them."""
        await self._set_brake("resume", person, "stop", "")

    async def reset_breaker(self, group: str, person: str) -> None:
        """Reset a group's breaker and window after a human has looked."""
        await self._set_brake("breaker_reset", person, f"breaker:{group}", "", group)

    async def _set_brake(self, event: str, person: str, brake: str, value: str, group: str = "", why: str = "") -> None:
        async def attempt() -> str:
            head = await self._read_head_or_stop(ClockChoice.ANY)
            line = audit.build_entry(event, "", person, head.at, brake=brake, value=value)
            return await self._journal.run_script("switch", head, KeyParts("-", group=group), line, brake, value, person, why)

        await retry_until_settled(attempt)

    async def _read_head_or_stop(self, clock: ClockChoice = ClockChoice.LATER) -> JournalHead:
        """Return the journal's head. Pull the kill switch first if Redis lost entries or another writer changed the brakes."""
        try:
            head = await self._journal.read_head(clock)
        except ChainRewound as error:
            return await self._stop_with_reason(f"{error}. Compare the hosts' own records with the ledger before resuming", clock)
        if head.altered and STOP_BRAKE not in head.brakes.pulled and clock is not ClockChoice.ANY:
            return await self._stop_with_reason(BRAKES_CHANGED_TEXT, clock)
        return head

    async def _stop_with_reason(self, why: str, clock: ClockChoice) -> JournalHead:
        await self.stop("rackmedic", why)
        return await self._journal.read_head(clock)


def redact_note(text: str) -> str:
    """Redact and truncate people's or tools' text for storage."""
    return redact(text)[:MAX_NOTE_CHARS]
