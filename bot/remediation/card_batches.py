"""Decide which actions share a card: same remedy and cause, proposed within two minutes, one per host.

Each action keeps its own digest, votes and claim. A Redis script decides atomically, so that no action gets two cards.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from bot.remediation.cards import action_row
from bot.slack.posted_messages import PostedCards
from tools.action import Action
from tools.ledger.record import ActionRecord, list_targets
from tools.ledger.states import State

MAX_ACTIONS_PER_CARD = 10  # Further actions get another card.
JOIN_WINDOW = timedelta(minutes=2)  # A later action gets its own card and mention.
JOIN_CARD_SCRIPT = """
local h, id, key = KEYS[1], ARGV[1], ARGV[2]
local now, after, most = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local weight, room, shut = tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8]
local on = redis.call('HGET', h, 'batch:'..id)
if on then return on end
local batch = redis.call('HGET', h, 'joinable:'..key)
if batch and batch ~= shut and redis.call('HEXISTS', h, 'card:'..id) == 0 then
  local rows, since, used = redis.call('HGET', h, 'rows:'..batch), redis.call('HGET', h, 'since:'..batch), redis.call('HGET', h, 'used:'..batch)
  local _, others = string.gsub(rows, ' ', ' ')
  if tonumber(since) >= after and others + 1 < most and tonumber(used) + weight <= room then
    redis.call('HSET', h, 'rows:'..batch, rows..' '..id, 'used:'..batch, tonumber(used) + weight, 'batch:'..id, batch)
    return batch
  end
end
redis.call('HSET', h, 'rows:'..id, id, 'since:'..id, ARGV[3], 'used:'..id, ARGV[6], 'batch:'..id, id, 'joinable:'..key, id)
return id
"""


class CardBatches:
    """Batches, each named by the approval id of its first action."""

    def __init__(self, cards: PostedCards) -> None:
        self._cards = cards

    async def get_batch(self, action: Action) -> str:
        return await self._cards.get(action.incident, f"batch:{action.approval}") or action.approval

    async def list_approvals(self, incident: str, batch: str) -> list[str]:
        """Return the approval ids in joining order."""
        return (await self._cards.get(incident, f"rows:{batch}")).split() or [batch]

    async def join_batch(self, record: ActionRecord, others: Sequence[ActionRecord], now: datetime) -> str:
        """Assign the action and all pending ones like it to batches. `others` are the incident's records."""
        key = build_batch_key(record.action)
        pending = [other for other in others if other.state is State.PENDING and build_batch_key(other.action) == key]
        for other in sorted(pending, key=lambda other: other.action.target):
            await self._join_action(other, others, now)
        return await self._join_action(record, others, now)

    async def _join_action(self, record: ActionRecord, others: Sequence[ActionRecord], now: datetime) -> str:
        action = record.action
        closed_batch = await self._find_closed_batch(action, others)
        weight = action_row.count_row_chars(action)
        numbers = (_to_milliseconds(now), _to_milliseconds(now - JOIN_WINDOW), MAX_ACTIONS_PER_CARD, weight, action_row.MAX_ROWS_CHARS)
        return await self._cards.run_script(
            JOIN_CARD_SCRIPT, action.incident, action.approval, build_batch_key(action), *map(str, numbers), closed_batch
        )

    async def _find_closed_batch(self, action: Action, others: Sequence[ActionRecord]) -> str:
        """Return the batch that the action would join, if it can no longer: all its actions are decided, or one is on this host."""
        batch = await self._cards.get(action.incident, f"joinable:{build_batch_key(action)}")
        if not batch:
            return ""
        approvals = set(await self.list_approvals(action.incident, batch))
        batch_records = [record for record in others if record.approval in approvals]
        has_pending = any(record.state is State.PENDING for record in batch_records)
        batch_hosts = {host for record in batch_records for host in list_targets(record.action)}
        is_open = has_pending and not batch_hosts.intersection(list_targets(action))
        return "" if is_open else batch


def build_batch_key(action: Action) -> str:
    """Return the key that all actions on one card share. An exclusive check has a card of its own."""
    unique_part = action.approval if action.remedy == "run_check" else ""
    return f"{action.remedy} {action.proves} {action.requested_by} {unique_part}".rstrip()


def _to_milliseconds(at: datetime) -> int:
    return int(at.timestamp() * 1000)
