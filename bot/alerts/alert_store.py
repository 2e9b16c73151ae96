"""Which alerts of a cause fire and which are over, in Redis. One episode of a cause is one incident; what was not told to it yet is owed."""

import json
import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from redis.asyncio import Redis

from bot.alerts.alert import MANY_CAUSES, Alert, AlertTally, count_alerts, hash_cause, parse_stored_alert
from bot.alerts.routing import AlertPlace
from bot.alerts.webhook_messages import MAX_UNLISTED_ALERTS
from bot.store.keys import RedisKeys
from bot.tasks import to_coroutine
from kb.numbers import parse_bounded_count, parse_integer
from tools.ledger.redis_replies import decode_text

RETENTION_PERIOD = timedelta(days=8)
MAX_KEPT_ALERTS = 2000
"""Alerts of one episode that are kept; more are counted."""
MAX_NEW_EPISODES, NEW_EPISODE_WINDOW = 12, timedelta(minutes=10)
"""Episodes that begin within that time; the causes after them are one."""
MAX_GROUPS = 64
"""Groups of a sender whose count of what it does not list is kept for an episode; of those after them the last one is."""
MARK_DELIVERED_SCRIPT = (
    "if tonumber(redis.call('HGET', KEYS[1], 'told') or 0) < tonumber(ARGV[1]) then redis.call('HSET', KEYS[1], 'told', ARGV[1]) end"
)
"""KEYS about. ARGV up to which piece of news."""
CHECK_NEWEST_SCRIPT = """
if tonumber(redis.call('GET', KEYS[1]) or 0) > tonumber(ARGV[1]) then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
return 1
"""
"""KEYS newest. ARGV the time of a message as Slack has it, and for how many seconds that is kept."""
BEGIN_EPISODE_SCRIPT = """
local now, about, opened, places = unpack(KEYS)
local made, cause, most, window, kept, within, channel, way, table_, abouts = unpack(ARGV, 1, 10)
local open, known, at, alike = {}, nil, channel, false
for n = 11, #ARGV do open[ARGV[n]] = true end
if open[channel] then known = redis.call('GET', now .. ':' .. channel) end
if not known then
  local others = redis.call('SMEMBERS', places)
  table.sort(others)
  for _, other in ipairs(others) do
    local episode = redis.call('GET', now .. ':' .. other)
    if not episode then
      redis.call('SREM', places, other)
    elseif open[other] then
      local was = redis.call('HMGET', abouts .. episode, 'table', 'way')
      if was[1] ~= table_ and (not known or (was[2] == way and not alike)) then
        known, at, alike = episode, other, was[2] == way
      end
    end
  end
end
if known then
  redis.call('PEXPIRE', now .. ':' .. at, window)
  return known
end
if most ~= '0' then
  if tonumber(redis.call('GET', opened) or 0) >= tonumber(most) then return false end
  if redis.call('INCR', opened) == 1 then redis.call('PEXPIRE', opened, within) end
end
redis.call('HSET', about, 'cause', cause, 'channel', channel, 'way', way, 'table', table_)
redis.call('PEXPIRE', about, kept)
redis.call('SADD', places, channel)
redis.call('PEXPIRE', places, kept)
redis.call('SET', now .. ':' .. channel, made, 'PX', window)
return made
"""
"""KEYS now (to which the channel is added), about, opened, places. ARGV the new episode, its cause, how many may begin ('0' = any number), for how
many milliseconds each key is kept, the channel, by which way, under which table of routes, how keys of `about` begin, then the channels in which
episodes may go on. An episode that began under another table goes on where it is, first of all that of the same way. One step, so that of a hundred
alerts that come at once one begins it and counts."""


@dataclass(frozen=True, slots=True)
class RoutedAlert:
    """An alert and where it belongs."""

    alert: Alert
    place: AlertPlace


@dataclass(frozen=True, slots=True)
class RoutingSnapshot:
    """The table of routes of now, by its sign, and the channels in which episodes may be."""

    table: str
    channels: Collection[str]


class AlertStore:
    """All of it by cause, then by episode."""

    def __init__(self, redis: Redis, *, window: timedelta = timedelta(minutes=30), names: RedisKeys | None = None) -> None:
        self._redis = redis
        self._window = window
        self._names = names or RedisKeys()
        self._told, self._begin, self._newest = map(
            redis.register_script, (MARK_DELIVERED_SCRIPT, BEGIN_EPISODE_SCRIPT, CHECK_NEWEST_SCRIPT)
        )

    async def assign_episodes(self, alerts: Sequence[RoutedAlert], places: RoutingSnapshot) -> dict[str, list[Alert]]:
        """Alerts by the episode to which they belong: that in which they were heard before, or that of their cause in their channel, begun where there
        is none. What is resolved and was never heard is nobody's."""
        before = await self._redis.mget([self._build_key("by", row.alert.id) for row in alerts]) if alerts else []
        found: dict[str, list[Alert]] = {}
        by_cause: dict[tuple[str, AlertPlace], str] = {}
        for row, known in zip(alerts, before, strict=True):
            alert, episode = row.alert, decode_text(known)
            if alert.firing and not (episode and await self._is_firing_in_episode(episode, alert.id, places)):
                key = alert.cause, row.place
                if key not in by_cause:
                    by_cause[key] = await self._find_or_begin_episode(alert.cause, row.place, places)
                episode = by_cause[key]
            if episode:
                found.setdefault(episode, []).append(alert)
        return found

    async def get_channel(self, episode: str) -> str:
        """Where it is, whatever the routes say by now."""
        return decode_text(await to_coroutine(self._redis.hget(self._build_key("about", episode), "channel")))

    async def store_alerts(self, episode: str, alerts: Sequence[Alert]) -> int:
        """Keep them. The number of the newest piece of news that the incident is owed, 0 where it is owed none."""
        of, about = self._build_key("of", episode), self._build_key("about", episode)
        rows = await to_coroutine(self._redis.hmget(of, [row.id for row in alerts]))
        kept_before = [parse_stored_alert(was) if was is not None else None for was in rows]
        fresh = [row for row, was in zip(alerts, kept_before, strict=True) if was is None or was.firing != row.firing]
        room = MAX_KEPT_ALERTS - int(await to_coroutine(self._redis.hlen(of)))
        known = {row.id for row, was in zip(alerts, rows, strict=True) if was is not None}
        kept = [row for row in fresh if row.id in known] + [row for row in fresh if row.id not in known][: max(0, room)]
        async with self._redis.pipeline(transaction=True) as pipe:
            if kept:
                pipe.hset(of, mapping={row.id: json.dumps(row.to_stored_row()) for row in kept})
                pipe.hincrby(about, "owed", 1)
                for row in kept:
                    pipe.set(self._build_key("by", row.id), episode, ex=RETENTION_PERIOD)
            if len(fresh) > len(kept):
                pipe.hincrby(about, "more", len(fresh) - len(kept))
            pipe.expire(of, RETENTION_PERIOD)
            pipe.expire(about, RETENTION_PERIOD)
            await pipe.execute()
        owed, told = (parse_integer(decode_text(row)) or 0 for row in await to_coroutine(self._redis.hmget(about, ["owed", "told"])))
        return owed if owed > told else 0

    async def store_unlisted_count(self, episode: str, group: str, unlisted: int) -> None:
        """How many alerts a group of the sender's has beside those that it lists, as its newest message says. News is only whether there are any,
        for the number moves with every message."""
        left, about = self._build_key("left", episode), self._build_key("about", episode)
        before = await to_coroutine(self._redis.hget(left, group))
        if not unlisted and before is None:
            return
        room = before is not None or await to_coroutine(self._redis.hlen(left)) < MAX_GROUPS
        async with self._redis.pipeline(transaction=True) as pipe:
            if unlisted:
                pipe.hset(left, group if room else "others", str(min(unlisted, MAX_UNLISTED_ALERTS)))
                pipe.expire(left, RETENTION_PERIOD)
            else:
                pipe.hdel(left, group)
            if not unlisted or before is None:
                pipe.hincrby(about, "owed", 1)
            await pipe.execute()

    async def is_newest_message(self, group: str, ts: str) -> bool:
        """Whether no newer message of a group that a bot posts about was heard; the same again is as new as it was."""
        return bool(await self._newest(keys=[self._build_key("newest", group)], args=[ts, int(RETENTION_PERIOD.total_seconds())]))

    async def add_to_group(self, group: str, ids: Sequence[str]) -> None:
        """Which alerts a bot posted of a group, for it may say no more than that the group is over."""
        key = self._build_key("group", group)
        if ids and await to_coroutine(self._redis.scard(key)) < MAX_KEPT_ALERTS:
            await to_coroutine(self._redis.sadd(key, *ids))
        await self._redis.expire(key, RETENTION_PERIOD)

    async def list_group_as_resolved(self, group: str) -> list[Alert]:
        """All that were posted of a group and are known, over."""
        ids = sorted(decode_text(row) for row in await to_coroutine(self._redis.smembers(self._build_key("group", group))))
        episodes = await self._redis.mget([self._build_key("by", row) for row in ids]) if ids else []
        rows = [
            await to_coroutine(self._redis.hget(self._build_key("of", decode_text(of)), row))
            for row, of in zip(ids, episodes, strict=True)
            if of
        ]
        return [replace(alert, firing=False) for row in rows if row and (alert := parse_stored_alert(row)) is not None]

    async def link_incident(self, episode: str, incident: str) -> None:
        """An incident may hear of several episodes: other causes of its hosts, and its own again after the window."""
        key = self._build_key("in", incident)
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.sadd(key, episode)
            pipe.expire(key, RETENTION_PERIOD)
            await pipe.execute()

    async def is_incident_resolved(self, incident: str, episode: str) -> bool:
        """Whether nothing fires in that episode, nor in any other that the incident has heard of."""
        others = [decode_text(row) for row in await to_coroutine(self._redis.smembers(self._build_key("in", incident)))]
        for one in (episode, *(row for row in others if row != episode)):
            if not (await self.load_tally(one)).is_resolved:
                return False
        return True

    async def mark_delivered(self, episode: str, news: int) -> None:
        """An item waits in the inbox of all news up to this one; what came meanwhile is still owed."""
        await self._told(keys=[self._build_key("about", episode)], args=[news])

    async def get_batch(self, episode: str) -> int:
        """Which item of the episode is the next to be stored."""
        return parse_integer(decode_text(await to_coroutine(self._redis.hget(self._build_key("about", episode), "batch")))) or 0

    async def close_batch(self, episode: str, batch: int) -> None:
        """The turn of that item begins: whatever comes from now on is another item's."""
        if await self.get_batch(episode) <= batch:
            await to_coroutine(self._redis.hset(self._build_key("about", episode), "batch", str(batch + 1)))

    async def load_tally(self, episode: str) -> AlertTally:
        about = await to_coroutine(self._redis.hgetall(self._build_key("about", episode)))
        rows = await to_coroutine(self._redis.hvals(self._build_key("of", episode)))
        unlisted = sum(
            parse_bounded_count(decode_text(row), MAX_UNLISTED_ALERTS)
            for row in await to_coroutine(self._redis.hvals(self._build_key("left", episode)))
        )
        alerts = [parse_stored_alert(row) for row in rows]
        more = parse_bounded_count(decode_text(about.get(b"more")), MAX_UNLISTED_ALERTS) + alerts.count(None)
        return count_alerts(
            about.get(b"cause", b"").decode(), [row for row in alerts if row is not None], more, min(unlisted, MAX_UNLISTED_ALERTS)
        )

    async def _is_firing_in_episode(self, episode: str, sign: str, places: RoutingSnapshot) -> bool:
        """Whether the alert fires in that episode, and may be told where it is."""
        row = await to_coroutine(self._redis.hget(self._build_key("of", episode), sign))
        alert = parse_stored_alert(row) if row else None
        return alert is not None and alert.firing and await self.get_channel(episode) in places.channels

    async def _find_or_begin_episode(self, cause: str, place: AlertPlace, places: RoutingSnapshot) -> str:
        """That of the cause which is going on, or a new one; of too many new ones a single one a channel."""
        made, limit = secrets.token_hex(6), 0 if cause == MANY_CAUSES else MAX_NEW_EPISODES
        keys = [
            self._build_key("now", hash_cause(cause)),
            self._build_key("about", made),
            self._build_key("opened", "count"),
            self._build_key("places", hash_cause(cause)),
        ]
        times = [int(time.total_seconds() * 1000) for time in (self._window, RETENTION_PERIOD, NEW_EPISODE_WINDOW)]
        where = [place.channel, place.way, places.table, self._build_key("about", "")]
        episode = await self._begin(keys=keys, args=[made, cause, limit, *times, *where, *sorted(places.channels)])
        return decode_text(episode) if episode else await self._find_or_begin_episode(MANY_CAUSES, place, places)

    def _build_key(self, part: str, name: str) -> str:
        return self._names.alerts_key(part, name)
