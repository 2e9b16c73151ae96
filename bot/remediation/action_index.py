"""When to look again at which action or at which incident's ladders, and what people were told of each action. Kept in Redis.

The ledger knows when an action must be decided or has lost its worker; this index knows of everything else that is still owed: a result not
yet delivered, a card not yet shown, a wait that ends. Losing it costs time, never an action: incidents are looked at after each turn.
"""

from collections.abc import Collection
from datetime import datetime, timedelta

from redis.asyncio import Redis

from bot.store.keys import RedisKeys
from bot.tasks import to_coroutine
from graph.engine.stale_facts import ProvenRemedyRun
from tools.clock import Clock
from tools.ledger.record import ActionRecord
from tools.ledger.redis_replies import decode_hash, decode_texts
from tools.ledger.states import State
from tools.remedies import REMEDIES

SHOWN_NEWS_RETENTION = timedelta(days=40)
KERNEL_LOG_CHECK_ID = "dmesg"
"""The check that reads it."""


FINISH_CHECK_SCRIPT = """
if redis.call('ZSCORE', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
if ARGV[3] == '' then redis.call('ZREM', KEYS[1], ARGV[1]) else redis.call('ZADD', KEYS[1], ARGV[3], ARGV[1]) end
return 1
"""


class ActionIndex:
    """Names are approval ids (`apr-…`) and incident ids."""

    def __init__(self, redis: Redis, clock: Clock, *, names: RedisKeys | None = None) -> None:
        self._redis = redis
        self._clock = clock
        self._names = names or RedisKeys()
        self._settle = redis.register_script(FINISH_CHECK_SCRIPT)

    async def schedule_check(self, name: str, at: datetime | None = None) -> None:
        """Somebody must look at it then, at the latest; now when no time is given. Never puts off what is due earlier."""
        await self._redis.zadd(self._names.actions_due, {name: _to_milliseconds(at or self._clock.now())}, lt=True)

    async def begin_check(self, name: str, patience: timedelta) -> str:
        """Somebody looks now. Whoever dies over it leaves it due after `patience`; `settle` takes the answer."""
        mark = _to_milliseconds(self._clock.now() + patience)
        await self._redis.zadd(self._names.actions_due, {name: mark})
        return str(mark)

    async def finish_check(self, name: str, mark: str, at: datetime | None) -> None:
        """It was looked at and is due again `at`, or never. What was asked for meanwhile stays due as it is."""
        await self._settle(keys=[self._names.actions_due], args=[name, mark, "" if at is None else str(_to_milliseconds(at))])

    async def claim_due(self, patience: timedelta, limit: int = 200) -> list[str]:
        """What has come due; put off by `patience`, so that it is seen again if whoever is woken now dies."""
        now = self._clock.now()
        rows = await self._redis.zrangebyscore(self._names.actions_due, "-inf", _to_milliseconds(now), start=0, num=limit)
        names = decode_texts(rows)
        if names:
            await self._redis.zadd(self._names.actions_due, dict.fromkeys(names, _to_milliseconds(now + patience)), xx=True)
        return names

    async def get_shown_news(self, approval: str) -> dict[str, str]:
        """What people were told of an action, by kind of news."""
        return decode_hash(await to_coroutine(self._redis.hgetall(self._names.shown_news_key(approval))))

    async def record_shown_news(self, approval: str, what: str, said: str) -> None:
        """They were told."""
        await to_coroutine(self._redis.hset(self._names.shown_news_key(approval), what, said))
        await self._redis.expire(self._names.shown_news_key(approval), SHOWN_NEWS_RETENTION)

    async def record_treatment(self, seen: ActionRecord, since: datetime) -> None:
        """A remedy has helped: what its devices' logs said before is of the past, whoever reads it."""
        action = seen.action
        key = self._names.treatments_key(action.target)
        names = sorted({name.rpartition("/")[2] for name in action.devices} | ({action.args["bdf"]} if "bdf" in action.args else set()))
        await to_coroutine(self._redis.hset(key, " ".join(names), since.isoformat()))
        await self._redis.expire(key, SHOWN_NEWS_RETENTION)

    async def list_treatments(self, hosts: Collection[str]) -> tuple[ProvenRemedyRun, ...]:
        """What was mended on these hosts, by any incident."""
        pipe = self._redis.pipeline(transaction=False)
        names = sorted(hosts)
        for host in names:
            pipe.hgetall(self._names.treatments_key(host))
        rows = zip(names, await pipe.execute() if names else (), strict=True)
        told = (_parse_treatment(host, devices, at) for host, row in rows for devices, at in decode_hash(row).items())
        return tuple(filter(None, told))


def _parse_treatment(host: str, devices: str, at: str) -> ProvenRemedyRun | None:
    """None for a damaged row: it must not keep the others from being read."""
    try:
        return ProvenRemedyRun(host, datetime.fromisoformat(at), tuple(devices.split()))
    except ValueError:
        return None


def is_host_repair(seen: ActionRecord) -> bool:
    """Whether it changed the host itself and helped, and its proof read the kernel's log for it. What a step of the clock, a clean disk or a
    started service has helped says nothing of a GPU that the log accuses."""
    remedy = REMEDIES.get(seen.action.remedy)
    helped = seen.state is State.DONE and seen.outcome in ("passes_now", "cured")
    return helped and remedy is not None and remedy.at == "target" and not remedy.then and KERNEL_LOG_CHECK_ID in remedy.proof


def _to_milliseconds(at: datetime) -> int:
    """Whole milliseconds, so that a score reads back as it was written."""
    return int(at.timestamp() * 1000)
