"""Alert state in Redis. An episode of a cause is one incident; undelivered news stays recorded."""

import json
import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from redis.asyncio import Redis

from bot.alerts.alert import MANY_CAUSES, Alert, AlertTally, count_alerts, hash_cause, parse_stored_alert
from bot.alerts.config import AlertPlace
from bot.alerts.webhook_messages import MAX_UNLISTED_ALERTS
from bot.store.keys import RedisKeys
from bot.tasks import to_coroutine
from kb.numbers import parse_bounded_count, parse_integer
from tools.ledger.redis_replies import decode_text

RETENTION_PERIOD = timedelta(days=8)
MAX_KEPT_ALERTS = 2000  # Per episode; further alerts are only counted.
MAX_NEW_EPISODES = 12  # Episodes that may begin within the window
NEW_EPISODE_WINDOW = timedelta(minutes=10)  # beyond MAX_NEW_EPISODES, further causes share one episode
MAX_GROUPS = 64  # Sender groups per episode with an own count of unlisted alerts; further groups share one.
# KEYS: about. ARGV: the news number delivered.
MARK_DELIVERED_SCRIPT = (
    "if tonumber(redis.call('HGET', KEYS[1], 'told') or 0) < tonumber(ARGV[1]) then redis.call('HSET', KEYS[1], 'told', ARGV[1]) end"
)
# KEYS: newest. ARGV: the message's Slack ts, seconds to keep it.
CHECK_NEWEST_SCRIPT = """
if tonumber(redis.call('GET', KEYS[1]) or 0) > tonumber(ARGV[1]) then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
return 1
"""
# KEYS: now (a channel is appended), about, opened, places. ARGV: new episode, cause, how many may begin ('0': any),
# three TTLs in milliseconds, channel, route hash, table hash, key prefix of `about`, then the channels in which
# episodes may continue. An episode that began under another routing table continues in its channel, first one of the
# same route. Atomic, so that one of a hundred simultaneous alerts begins the episode.
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


@dataclass(frozen=True, slots=True)
class RoutedAlert:
    alert: Alert
    place: AlertPlace


@dataclass(frozen=True, slots=True)
class RoutingSnapshot:
    """The hash of the routing table, and the channels in which episodes may be."""

    table: str
    channels: Collection[str]


class AlertStore:
    """Alerts by episode, episodes by cause."""

    def __init__(self, redis: Redis, *, window: timedelta = timedelta(minutes=30), names: RedisKeys | None = None) -> None:
        self._redis = redis
        self._window = window
        self._names = names or RedisKeys()
        self._told, self._begin, self._newest = map(
            redis.register_script, (MARK_DELIVERED_SCRIPT, BEGIN_EPISODE_SCRIPT, CHECK_NEWEST_SCRIPT)
        )

    async def assign_episodes(self, alerts: Sequence[RoutedAlert], places: RoutingSnapshot) -> dict[str, list[Alert]]:
        """Return the alerts by episode.

        A firing alert joins the episode in which it fires, else that of its cause and channel, begun if new. A resolved
        alert joins its last episode; one never seen is dropped.
        """
        before = await self._redis.mget([self._build_key("by", row.alert.id) for row in alerts]) if alerts else []
        alerts_by_cause: dict[str, list[Alert]] = {}
        by_cause: dict[tuple[str, AlertPlace], str] = {}
        for row, existing in zip(alerts, before, strict=True):
            alert, episode = row.alert, decode_text(existing)
            if alert.firing and not (episode and await self._is_firing_in_episode(episode, alert.id, places)):
                key = alert.cause, row.place
                if key not in by_cause:
                    by_cause[key] = await self._find_or_begin_episode(alert.cause, row.place, places)
                episode = by_cause[key]
            if episode:
                alerts_by_cause.setdefault(episode, []).append(alert)
        return alerts_by_cause

    async def get_channel(self, episode: str) -> str:
        """Return the episode's channel, whatever the routes say now."""
        return decode_text(await to_coroutine(self._redis.hget(self._build_key("about", episode), "channel")))

    async def store_alerts(self, episode: str, alerts: Sequence[Alert]) -> int:
        """Store the alerts. Return the newest undelivered news number, 0 if there is none."""
        alerts_key, state_key = self._build_key("of", episode), self._build_key("about", episode)
        rows = await to_coroutine(self._redis.hmget(alerts_key, [row.id for row in alerts]))
        kept_before = [parse_stored_alert(was) if was is not None else None for was in rows]
        fresh = [row for row, was in zip(alerts, kept_before, strict=True) if was is None or was.firing != row.firing]
        room = MAX_KEPT_ALERTS - int(await to_coroutine(self._redis.hlen(alerts_key)))
        stored_ids = {row.id for row, was in zip(alerts, rows, strict=True) if was is not None}
        kept_alerts = [row for row in fresh if row.id in stored_ids] + [row for row in fresh if row.id not in stored_ids][: max(0, room)]
        async with self._redis.pipeline(transaction=True) as pipe:
            if kept_alerts:
                pipe.hset(alerts_key, mapping={row.id: json.dumps(row.to_stored_row()) for row in kept_alerts})
                pipe.hincrby(state_key, "owed", 1)
                for row in kept_alerts:
                    pipe.set(self._build_key("by", row.id), episode, ex=RETENTION_PERIOD)
            if len(fresh) > len(kept_alerts):
                pipe.hincrby(state_key, "more", len(fresh) - len(kept_alerts))
            pipe.expire(alerts_key, RETENTION_PERIOD)
            pipe.expire(state_key, RETENTION_PERIOD)
            await pipe.execute()
        owed_count, told_count = (
            parse_integer(decode_text(row)) or 0 for row in await to_coroutine(self._redis.hmget(state_key, ["owed", "told"]))
        )
        return owed_count if owed_count > told_count else 0

    async def store_unlisted_count(self, episode: str, group: str, unlisted: int) -> None:
        """Store how many alerts a group counts but does not list. Only a change between none and some is news."""
        unlisted_key, state_key = self._build_key("left", episode), self._build_key("about", episode)
        before = await to_coroutine(self._redis.hget(unlisted_key, group))
        if not unlisted and before is None:
            return
        room = before is not None or await to_coroutine(self._redis.hlen(unlisted_key)) < MAX_GROUPS
        async with self._redis.pipeline(transaction=True) as pipe:
            if unlisted:
                pipe.hset(unlisted_key, group if room else "others", str(min(unlisted, MAX_UNLISTED_ALERTS)))
                pipe.expire(unlisted_key, RETENTION_PERIOD)
            else:
                pipe.hdel(unlisted_key, group)
            if not unlisted or before is None:
                pipe.hincrby(state_key, "owed", 1)
            await pipe.execute()

    async def is_newest_message(self, group: str, ts: str) -> bool:
        """Return whether no newer message of the group was seen. A repeated one counts as newest."""
        return bool(await self._newest(keys=[self._build_key("newest", group)], args=[ts, int(RETENTION_PERIOD.total_seconds())]))

    async def add_to_group(self, group: str, ids: Sequence[str]) -> None:
        """Remember a group's posted alerts: a later post may only say that the group is over."""
        key = self._build_key("group", group)
        if ids and await to_coroutine(self._redis.scard(key)) < MAX_KEPT_ALERTS:
            await to_coroutine(self._redis.sadd(key, *ids))
        await self._redis.expire(key, RETENTION_PERIOD)

    async def list_group_as_resolved(self, group: str) -> list[Alert]:
        """Return the group's known alerts, marked resolved."""
        ids = sorted(decode_text(row) for row in await to_coroutine(self._redis.smembers(self._build_key("group", group))))
        episodes = await self._redis.mget([self._build_key("by", row) for row in ids]) if ids else []
        rows = [
            await to_coroutine(self._redis.hget(self._build_key("of", decode_text(of)), row))
            for row, of in zip(ids, episodes, strict=True)
            if of
        ]
        return [replace(alert, firing=False) for row in rows if row and (alert := parse_stored_alert(row)) is not None]

    async def link_incident(self, episode: str, incident: str) -> None:
        """Link an episode to an incident, which may have several."""
        key = self._build_key("in", incident)
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.sadd(key, episode)
            pipe.expire(key, RETENTION_PERIOD)
            await pipe.execute()

    async def is_incident_resolved(self, incident: str, episode: str) -> bool:
        """Return whether nothing fires in any episode of the incident."""
        other_episodes = [decode_text(row) for row in await to_coroutine(self._redis.smembers(self._build_key("in", incident)))]
        for joined_episode in (episode, *(row for row in other_episodes if row != episode)):
            if not (await self.load_tally(joined_episode)).is_resolved:
                return False
        return True

    async def mark_delivered(self, episode: str, news: int) -> None:
        """Record that an inbox item covers all news up to `news`."""
        await self._told(keys=[self._build_key("about", episode)], args=[news])

    async def get_batch(self, episode: str) -> int:
        """Return the number of the episode's next inbox item."""
        return parse_integer(decode_text(await to_coroutine(self._redis.hget(self._build_key("about", episode), "batch")))) or 0

    async def close_batch(self, episode: str, batch: int) -> None:
        """Start a new batch when that item's turn begins."""
        if await self.get_batch(episode) <= batch:
            await to_coroutine(self._redis.hset(self._build_key("about", episode), "batch", str(batch + 1)))

    async def load_tally(self, episode: str) -> AlertTally:
        fields = await to_coroutine(self._redis.hgetall(self._build_key("about", episode)))
        rows = await to_coroutine(self._redis.hvals(self._build_key("of", episode)))
        unlisted = sum(
            parse_bounded_count(decode_text(row), MAX_UNLISTED_ALERTS)
            for row in await to_coroutine(self._redis.hvals(self._build_key("left", episode)))
        )
        alerts = [parse_stored_alert(row) for row in rows]
        more = parse_bounded_count(decode_text(fields.get(b"more")), MAX_UNLISTED_ALERTS) + alerts.count(None)
        return count_alerts(
            fields.get(b"cause", b"").decode(), [row for row in alerts if row is not None], more, min(unlisted, MAX_UNLISTED_ALERTS)
        )

    async def _is_firing_in_episode(self, episode: str, sign: str, places: RoutingSnapshot) -> bool:
        """Return whether the alert fires there and the episode's channel is still allowed."""
        row = await to_coroutine(self._redis.hget(self._build_key("of", episode), sign))
        alert = parse_stored_alert(row) if row else None
        return alert is not None and alert.firing and await self.get_channel(episode) in places.channels

    async def _find_or_begin_episode(self, cause: str, place: AlertPlace, places: RoutingSnapshot) -> str:
        """Return the cause's current or new episode. Beyond the limit, one episode per channel takes all new causes."""
        new_episode, limit = secrets.token_hex(6), 0 if cause == MANY_CAUSES else MAX_NEW_EPISODES
        keys = [
            self._build_key("now", hash_cause(cause)),
            self._build_key("about", new_episode),
            self._build_key("opened", "count"),
            self._build_key("places", hash_cause(cause)),
        ]
        times = [int(time.total_seconds() * 1000) for time in (self._window, RETENTION_PERIOD, NEW_EPISODE_WINDOW)]
        script_keys = [place.channel, place.way, places.table, self._build_key("about", "")]
        episode = await self._begin(keys=keys, args=[new_episode, cause, limit, *times, *script_keys, *sorted(places.channels)])
        return decode_text(episode) if episode else await self._find_or_begin_episode(MANY_CAUSES, place, places)

    def _build_key(self, part: str, name: str) -> str:
        return self._names.alerts_key(part, name)
