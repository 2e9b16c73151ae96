"""Which actions share a card: the same remedy for the same cause, put up within two minutes of each other, one for each host.

Sharing a card shares nothing else: each action keeps its own digest, votes and claim. Who joins which card is decided in one step in
Redis, so that two processes never give an action two cards.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from bot.remediation.cards import action_row as approval_row
from bot.slack.posted_messages import PostedCards
from tools.action import Action
from tools.ledger.record import ActionRecord, list_targets
from tools.ledger.states import State

MAX_ACTIONS_PER_CARD = 10
"""Actions on one card; the next ones get another."""
JOIN_WINDOW = timedelta(minutes=2)
"""Whoever was called to a card is still at it. What comes later gets a card, and a call, of its own."""

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
    """A batch is known by the approval id of its first action; an action that shares with nobody is a batch of one."""

    def __init__(self, cards: PostedCards) -> None:
        self._cards = cards

    async def get_batch(self, action: Action) -> str:
        """The batch that an action is on."""
        return await self._cards.get(action.incident, f"batch:{action.approval}") or action.approval

    async def list_approvals(self, incident: str, batch: str) -> list[str]:
        """The approval ids on a batch's card, in the order in which they joined."""
        return (await self._cards.get(incident, f"rows:{batch}")).split() or [batch]

    async def join_batch(self, record: ActionRecord, others: Sequence[ActionRecord], now: datetime) -> str:
        """The batch of an action that is shown for the first time, and of what waits beside it without a card. `others`: of its incident."""
        waiting = [row for row in others if row.state is State.PENDING and build_batch_key(row.action) == build_batch_key(record.action)]
        for row in sorted(waiting, key=lambda row: row.action.target):
            await self._join_action(row, others, now)
        return await self._join_action(record, others, now)

    async def _join_action(self, record: ActionRecord, others: Sequence[ActionRecord], now: datetime) -> str:
        action = record.action
        shut = await self._find_closed_batch(action, others)
        weight = approval_row.count_row_chars(action)
        numbers = (_to_milliseconds(now), _to_milliseconds(now - JOIN_WINDOW), MAX_ACTIONS_PER_CARD, weight, approval_row.MAX_ROWS_CHARS)
        return await self._cards.run_script(
            JOIN_CARD_SCRIPT, action.incident, action.approval, build_batch_key(action), *map(str, numbers), shut
        )

    async def _find_closed_batch(self, action: Action, others: Sequence[ActionRecord]) -> str:
        """The latest batch of its kind where nobody may join it any more: all is decided there, or this host is on it already."""
        batch = await self._cards.get(action.incident, f"joinable:{build_batch_key(action)}")
        if not batch:
            return ""
        names = set(await self.list_approvals(action.incident, batch))
        there = [row for row in others if row.approval in names]
        waits = any(row.state is State.PENDING for row in there)
        taken = {host for row in there for host in list_targets(row.action)}
        return "" if waits and not taken.intersection(list_targets(action)) else batch


def build_batch_key(action: Action) -> str:
    """What must be the same on one card: the remedy, the cause, and who asked for it. A check's set of hosts is a card of its own."""
    alone = action.approval if action.remedy == "run_check" else ""
    return f"{action.remedy} {action.proves} {action.requested_by} {alone}".rstrip()


def _to_milliseconds(at: datetime) -> int:
    return int(at.timestamp() * 1000)
