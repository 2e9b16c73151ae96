"""Redis index of when to check each action or incident, and what was shown of it.

The ledger knows decision deadlines and lost workers; this index adds undelivered results, unshown cards and waits.
Losing it costs time, never an action: incidents are checked after each turn.
"""

from collections.abc import Collection
from datetime import datetime, timedelta

from redis.asyncio import Redis

from bot.store.keys import RedisKeys
from bot.tasks import to_coroutine
from graph.engine.fact_history import ProvenRemedyRun
from tools.clock import Clock
from tools.ledger.record import ActionRecord
from tools.ledger.redis_replies import decode_hash, decode_texts
from tools.ledger.states import State
from tools.remedies import REMEDIES

SHOWN_NEWS_RETENTION = timedelta(days=40)
KERNEL_LOG_CHECK_ID = "dmesg"  # The check that reads the kernel log.


FINISH_CHECK_SCRIPT = """
if redis.call('ZSCORE', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
if ARGV[3] == '' then redis.call('ZREM', KEYS[1], ARGV[1]) else redis.call('ZADD', KEYS[1], ARGV[3], ARGV[1]) end
return 1
"""


class ActionIndex:
    """Schedule and notes by approval id (`apr-…`) or incident id."""

    def __init__(self, redis: Redis, clock: Clock, *, names: RedisKeys | None = None) -> None:
        self._redis = redis
        self._clock = clock
        self._names = names or RedisKeys()
        self._settle = redis.register_script(FINISH_CHECK_SCRIPT)

    async def schedule_check(self, name: str, at: datetime | None = None) -> None:
        """Schedule a check at `at` (default: now). Never postpones an earlier one."""
        await self._redis.zadd(self._names.actions_due, {name: _to_milliseconds(at or self._clock.now())}, lt=True)

    async def begin_check(self, name: str, patience: timedelta) -> str:
        """Postpone the check by `patience`, in case this worker dies. Return the mark for `finish_check`."""
        mark = _to_milliseconds(self._clock.now() + patience)
        await self._redis.zadd(self._names.actions_due, {name: mark})
        return str(mark)

    async def finish_check(self, name: str, mark: str, at: datetime | None) -> None:
        """Set the next check, or none. No effect if the check was rescheduled since `begin_check`."""
        await self._settle(keys=[self._names.actions_due], args=[name, mark, "" if at is None else str(_to_milliseconds(at))])

    async def claim_due(self, patience: timedelta, limit: int = 200) -> list[str]:
        """Return what is due, and postpone it by `patience` in case the woken worker dies."""
        now = self._clock.now()
        rows = await self._redis.zrangebyscore(self._names.actions_due, "-inf", _to_milliseconds(now), start=0, num=limit)
        names = decode_texts(rows)
        if names:
            await self._redis.zadd(self._names.actions_due, dict.fromkeys(names, _to_milliseconds(now + patience)), xx=True)
        return names

    async def get_shown_news(self, approval: str) -> dict[str, str]:
        """Return what was last shown or noted, by kind."""
        return decode_hash(await to_coroutine(self._redis.hgetall(self._names.shown_news_key(approval))))

    async def record_shown_news(self, approval: str, what: str, said: str) -> None:
        await to_coroutine(self._redis.hset(self._names.shown_news_key(approval), what, said))
        await self._redis.expire(self._names.shown_news_key(approval), SHOWN_NEWS_RETENTION)

    async def record_treatment(self, record: ActionRecord, since: datetime) -> None:
        """Record a working remedy: older log lines of its devices no longer count, in any incident."""
        action = record.action
        key = self._names.treatments_key(action.target)
        names = sorted({name.rpartition("/")[2] for name in action.devices} | ({action.args["bdf"]} if "bdf" in action.args else set()))
        await to_coroutine(self._redis.hset(key, " ".join(names), since.isoformat()))
        await self._redis.expire(key, SHOWN_NEWS_RETENTION)

    async def list_treatments(self, hosts: Collection[str]) -> tuple[ProvenRemedyRun, ...]:
        """Return the recorded remedies on these hosts, from all incidents."""
        pipe = self._redis.pipeline(transaction=False)
        names = sorted(hosts)
        for host in names:
            pipe.hgetall(self._names.treatments_key(host))
        rows = zip(names, await pipe.execute() if names else (), strict=True)
        treatments = (_parse_treatment(host, devices, at) for host, row in rows for devices, at in decode_hash(row).items())
        return tuple(filter(None, treatments))


def _parse_treatment(host: str, devices: str, at: str) -> ProvenRemedyRun | None:
    """Return None for a damaged row, so that the others can still be read."""
    try:
        return ProvenRemedyRun(host, datetime.fromisoformat(at), tuple(devices.split()))
    except ValueError:
        return None


def is_host_repair(record: ActionRecord) -> bool:
    """Return whether the action changed the host, worked, and was proved by the kernel log.

    A clock step, disk cleanup or service start proves nothing about a GPU that the log reports.
    """
    remedy = REMEDIES.get(record.action.remedy)
    helped = record.state is State.DONE and record.outcome in ("passes_now", "cured")
    return helped and remedy is not None and remedy.at == "target" and not remedy.then and KERNEL_LOG_CHECK_ID in remedy.proof


def _to_milliseconds(at: datetime) -> int:
    """Return whole milliseconds: a Redis score then reads back exactly."""
    return int(at.timestamp() * 1000)
