"""Approval states by the audit log. Records are signed singly, so only the log tells whether a record is the newest."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from redis.asyncio import Redis

from tools.ledger import audit
from tools.ledger.record import ActionRecord
from tools.ledger.redis_replies import decode_text, decode_texts, parse_line, translate_redis_errors
from tools.ledger.refusals import TamperedRecord
from tools.ledger.seal import Seal
from tools.ledger.states import State

MAX_KEPT_ENTRIES = 20_000  # entries kept in memory; older ones are read again on demand
BACKWARD_PAGE_ENTRIES = 200
# records round to milliseconds, so a proposal's entry may seem earlier than its record
PROPOSAL_TIME_MARGIN = timedelta(seconds=1)

_STATES: Final[Mapping[str, State]] = {
    "propose": State.PENDING,
    "claim": State.EXECUTING,
    "adopt": State.EXECUTING,
    "finish_done": State.DONE,
    "finish_failed": State.FAILED,
    "finish_unknown": State.UNKNOWN,
    "expire": State.EXPIRED,
    "supersede": State.SUPERSEDED,
    "revoke": State.REVOKED,
}


def get_states_after(line: str) -> dict[str, str]:
    """Return the approvals that an entry changes, with their states."""
    entry = parse_line(line)
    event, approval, covered = str(entry.get("event")), str(entry.get("approval") or ""), entry.get("supersedes")
    states = {str(covered_approval): State.SUPERSEDED.value for covered_approval in covered} if isinstance(covered, list) else {}
    if event.startswith("vote_"):
        states[approval] = str(entry.get("becomes"))
    elif event == "reconcile":
        states[approval] = (State.DONE if entry.get("ran") is True else State.FAILED).value
    elif event in _STATES:
        states[approval] = _STATES[event].value
    return states


class LoggedStates:
    """Last logged state of each approval, read back from the signed end as needed, then followed.

    Each entry is verified against its predecessor: none can be omitted, altered or moved.
    """

    def __init__(self, redis: Redis, seal: Seal, prefix: str) -> None:
        self._redis = redis
        self._seal = seal
        self._prefix = prefix
        self._reset()

    def _reset(self) -> None:
        self._first = 0
        self._end = 0
        self._before = ""  # head before the first known entry
        self._head = ""  # head of the newest entry
        self._oldest: datetime | None = None
        self._newest = dict[str, str]()

    async def confirms_state(self, record: ActionRecord) -> bool:
        """Return whether the log agrees. On a mismatch the caller re-reads: the record may have moved."""
        await self._read_new_entries()
        since = record.proposed_at - PROPOSAL_TIME_MARGIN
        while record.approval not in self._newest and self._first > 0 and not (self._oldest and self._oldest < since):
            await self._read_earlier_page()
        return self._newest.get(record.approval) == record.state

    async def _read_new_entries(self) -> None:
        if self._end - self._first > MAX_KEPT_ENTRIES:
            self._reset()
        while self._end:
            start = self._end
            entries = await self._read_entries(start - 1, start - 1 + audit.PAGE_ENTRIES)
            if start != self._end:
                continue  # a concurrent caller read on
            if not entries or entries[0][0] != self._head:
                self._reset()  # another log; the journal detects a rewind
                break
            for head, line in entries[1:]:
                self._check_signature(self._head, head, line)
                self._newest.update(get_states_after(line))
                self._head, self._end = head, self._end + 1
            if len(entries) <= audit.PAGE_ENTRIES:
                return
        await self._start_at_newest()

    async def _start_at_newest(self) -> None:
        async with translate_redis_errors():
            pipe = self._redis.pipeline(transaction=True)
            pipe.llen(f"{self._prefix}audit")
            pipe.lindex(f"{self._prefix}audit", -1)
            length, newest_entry = await pipe.execute()
        if not self._end:  # no concurrent caller set it
            self._first = self._end = int(length)
            self._before = self._head = decode_text(newest_entry).partition(" ")[0]

    async def _read_earlier_page(self) -> None:
        first, start = self._first, max(0, self._first - BACKWARD_PAGE_ENTRIES)
        entries = await self._read_entries(max(0, start - 1), first - 1)
        if first != self._first:
            return
        head_before_page = previous_head = entries.pop(0)[0] if start and entries else ""
        if len(entries) != first - start or entries[-1][0] != self._before:
            self._reset()
            return
        for head, line in entries:
            self._check_signature(previous_head, head, line)
            previous_head = head
        for _, line in reversed(entries):
            for approval, state in get_states_after(line).items():
                self._newest.setdefault(approval, state)
        self._first = start
        self._before = head_before_page
        self._oldest = audit.get_entry_time(entries[0][1])

    async def _read_entries(self, first: int, last: int) -> list[tuple[str, str]]:
        """Return the head and the line of each entry in this range."""
        async with translate_redis_errors():
            lines = decode_texts(await self._redis.lrange(f"{self._prefix}audit", first, last))
        return [(head, line) for head, _, line in (entry.partition(" ") for entry in lines)]

    def _check_signature(self, before: str, head: str, line: str) -> None:
        if not audit.find_signer(self._seal, before, line, head):
            self._reset()
            raise TamperedRecord(f"{TamperedRecord.message} (the audit log has an entry that we did not sign there)")
