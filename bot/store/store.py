"""Open the Redis of all durable state: the server of the settings, else a private server, else memory."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit, urlunsplit

from redis import exceptions
from redis.asyncio import BlockingConnectionPool, Redis
from redis.exceptions import AuthenticationError, RedisError, ResponseError

from bot.settings import ENV_PREFIX
from bot.store.keys import FIXED_KEYS, VERSION_KEY
from bot.store.private_redis import PrivateRedis, PrivateRedisFailed, find_server, start_private_redis
from tools.ledger.redis_replies import decode_text

# The version of all stored data: every Redis key, and the evidence folder.
STORE_VERSION = 2  # raise it with every change of what is stored or how it is read
# Rows of this version are read unchanged: missing fields (owner of a job's log, unknown names in a file, brakes in an audit entry,
# a snooze, intents offered as buttons) have neutral defaults. Processes of that version refuse the store from then on.
PREVIOUS_STORE_VERSION = 1
# KEYS: the version, then FIXED_KEYS, which show whether there is data.
# One script, so that two processes that start on an empty store both succeed.
CLAIM_VERSION_SCRIPT = """
local version = redis.call('GET', KEYS[1])
if version and version ~= ARGV[2] then return version end
if version then
  redis.call('SET', KEYS[1], ARGV[1])
  return ARGV[1]
end
if redis.call('EXISTS', unpack(KEYS, 2)) > 0 then return '' end
redis.call('SET', KEYS[1], ARGV[1])
return ARGV[1]
"""

StoreKind = Literal["server", "private", "memory"]
MIN_REDIS_VERSION = (7, 0)
MAX_CONNECTIONS = 64  # open connections of one process
CONNECTION_WAIT_SECONDS = 20.0  # how long a caller waits for a free one
MAX_MEMORY_CONNECTIONS = 1 << 20  # a connection in memory costs nothing
# What redis-py raises while the server is down, loading or unreachable. A wrong password is another error.
REDIS_AWAY_ERRORS = (exceptions.ConnectionError, exceptions.TimeoutError)


async def claim_version(redis: Redis) -> str:
    """Return the store's version, writing STORE_VERSION into an empty store or over PREVIOUS_STORE_VERSION.

    Empty where there is data without a version.
    """
    return decode_text(
        await redis.eval(
            CLAIM_VERSION_SCRIPT, 1 + len(FIXED_KEYS), VERSION_KEY, *FIXED_KEYS, str(STORE_VERSION), str(PREVIOUS_STORE_VERSION)
        )
    )


class StoreUnavailable(Exception):
    """There is no Redis to work with. Says what to mend."""


class StoreNotAnswering(StoreUnavailable):
    """Redis does not answer now: it is down, loading, or cannot be reached. It may answer later without a change of settings."""


class WrongStoreVersion(StoreUnavailable):
    """The store holds data that this code does not read. `says` what was found, `mend` how to go on."""

    def __init__(self, says: str, mend: str) -> None:
        super().__init__(f"{says}; nothing was read or changed: {mend}")
        self.says = says
        self.mend = mend


@dataclass(frozen=True, slots=True)
class Durability:
    """`problems` is empty where every acknowledged write survives a power cut."""

    kind: StoreKind
    version: str = ""
    appendonly: str = ""
    appendfsync: str = ""
    eviction: str = ""
    problems: tuple[str, ...] = ()

    @property
    def is_durable(self) -> bool:
        return self.kind != "memory" and not self.problems


class Store:
    """An open Redis. `url` is for components that connect themselves; None in memory."""

    def __init__(self, redis: Redis, kind: StoreKind, url: str | None, private: PrivateRedis | None = None) -> None:
        self.redis = redis
        self.kind = kind
        self.url = url
        self._private = private

    @property
    def is_memory_only(self) -> bool:
        """Nothing survives the process, so no remedy may run."""
        return self.kind == "memory"

    def describe(self) -> str:
        match self.kind:
            case "memory":
                return "in memory: nothing survives exit (install redis-server, or name a Redis by URL)"
            case "private":
                assert self._private is not None
                whose = "private Redis" if self._private.is_owner else "private Redis of another rackmedic process"
                return f"{whose} in {self._private.directory}"
            case "server":
                return f"Redis at {_mask_password(self.url or '')}"

    async def get_durability(self) -> Durability:
        """Return the durability.

        Raises StoreNotAnswering while Redis is away: as a property of the store, that would forbid remedies for the
        life of the process.
        """
        if self.is_memory_only:
            return Durability("memory", problems=(self.describe(),))
        try:
            return await self._query_durability()
        except REDIS_AWAY_ERRORS as error:
            raise StoreNotAnswering(f"{self.describe()} does not answer ({error}): start it, or fix the Redis URL") from error

    async def _query_durability(self) -> Durability:
        try:
            info: dict[str, Any] = await self.redis.info("server")
        except REDIS_AWAY_ERRORS:
            raise
        except RedisError as error:
            return Durability(self.kind, problems=(f"{self.describe()} does not tell what it is: {error}",))
        version = str(info.get("redis_version", "unknown"))
        try:
            raw = {decode_text(k): decode_text(v) for k, v in (await self.redis.config_get("append*", "maxmemory-policy")).items()}
        except REDIS_AWAY_ERRORS:
            raise
        except RedisError as error:
            return Durability(
                self.kind,
                version,
                problems=(*_find_version_problems(version), f"CONFIG GET is not allowed, so durability is unknown: {error}"),
            )
        return _judge_durability(self.kind, version, raw)

    async def aclose(self) -> None:
        await self.redis.aclose()
        if self._private is not None:
            await self._private.stop()


async def open_store(url: str | None, directory: Path | None, *, path: str | None = None) -> Store:
    """Open the store; `path` replaces PATH in the search for a server.

    Raises StoreUnavailable, and WrongStoreVersion for data of another version.
    """
    store = await (_connect_server(url) if url else _start_private_store(directory, path))
    try:
        await _check_version(store)
    except BaseException:
        await store.aclose()
        raise
    return store


async def _check_version(store: Store) -> None:
    try:
        version = await claim_version(store.redis)
    except REDIS_AWAY_ERRORS as error:
        raise StoreNotAnswering(f"{store.describe()} does not answer ({error}): start it, or fix the Redis URL") from error
    except RedisError as error:
        raise StoreUnavailable(f"{store.describe()} refuses us ({error}): fix its settings, or the Redis URL") from error
    if version == str(STORE_VERSION):
        return
    # Call a migration of the previous version's rows here: it gets `store.redis` and raises the stored version at its end.
    database = "" if store.kind == "private" else f"{ENV_PREFIX}REDIS_URL to an empty database (another number) and "
    anew = f"start over by setting {database}{ENV_PREFIX}DATA_DIR to an empty folder"
    if not version:
        raise WrongStoreVersion(f"{store.describe()} holds data without a store version", f"commit 578df5c reads it; or {anew}")
    problem = f"{store.describe()} has the store version {version[:40]!r}, and this RackMedic reads {STORE_VERSION} alone"
    raise WrongStoreVersion(problem, f"run the RackMedic that wrote it; or {anew}")


async def _start_private_store(directory: Path | None, path: str | None) -> Store:
    binary = find_server(path)
    if directory is None or binary is None:
        from fakeredis import FakeAsyncRedis  # 8 MB that a real store does not need

        return Store(FakeAsyncRedis(max_connections=MAX_MEMORY_CONNECTIONS), "memory", None)
    try:
        private = await start_private_redis(binary, directory)
    except (PrivateRedisFailed, OSError) as error:
        raise StoreUnavailable(f"{error}. Mend that, or name a Redis by URL.") from error
    return Store(_create_client(private.url), "private", private.url, private)


def _create_client(url: str, **settings: Any) -> Redis:
    """Return a client whose callers wait for a free connection.

    redis-py's own pool refuses call 101: of 100 concurrent mentions at least 73 were not stored at first delivery.
    """
    return Redis.from_pool(
        BlockingConnectionPool.from_url(url, max_connections=MAX_CONNECTIONS, timeout=CONNECTION_WAIT_SECONDS, **settings)
    )


async def _connect_server(url: str) -> Store:
    masked_url = _mask_password(url)
    try:
        redis = _create_client(url, socket_connect_timeout=5, socket_timeout=30, health_check_interval=30)
    except ValueError as error:
        raise StoreUnavailable(
            f"{masked_url} is not a Redis URL ({error}): write redis://:PASSWORD@HOST:6379/0, rediss://… or unix:///PATH"
        ) from error
    try:
        await _refuse_cluster(redis, masked_url)
    except AuthenticationError as error:
        await redis.aclose()
        raise StoreUnavailable(f"{masked_url} refuses the password ({error}): set the right one in the Redis URL") from error
    except (*REDIS_AWAY_ERRORS, OSError) as error:
        await redis.aclose()
        raise StoreNotAnswering(f"{masked_url} does not answer ({error}): start it, or fix the Redis URL") from error
    except RedisError as error:
        await redis.aclose()
        raise StoreUnavailable(f"{masked_url} refuses us ({error}): fix its settings, or the Redis URL") from error
    except StoreUnavailable:
        await redis.aclose()
        raise
    return Store(redis, "server", url)


async def _refuse_cluster(redis: Redis, shown: str) -> None:
    await redis.ping()
    try:
        info: dict[str, Any] = await redis.info("cluster")
    except ResponseError:
        return  # INFO is not allowed; the doctor reports it
    if info.get("cluster_enabled"):
        raise StoreUnavailable(f"{shown} runs in Redis Cluster mode, which is not supported: name a plain Redis or Valkey")


def _judge_durability(kind: StoreKind, version: str, config: dict[str, str]) -> Durability:
    wanted_config = {"appendonly": "yes", "appendfsync": "always", "maxmemory-policy": "noeviction"}
    problems = [
        f"{key} is {config.get(key, 'unknown')}: set it to {good}" for key, good in wanted_config.items() if config.get(key) != good
    ]
    return Durability(
        kind,
        version,
        config.get("appendonly", ""),
        config.get("appendfsync", ""),
        config.get("maxmemory-policy", ""),
        (*_find_version_problems(version), *problems),
    )


def _find_version_problems(version: str) -> tuple[str, ...]:
    parts = version.split(".")[:2]
    is_known = all(part.isdigit() for part in parts)
    old = is_known and tuple(int(part) for part in parts) < MIN_REDIS_VERSION
    return (f"Redis {version} is older than 7.0: upgrade it, or use Valkey",) if old else ()


def _mask_password(url: str) -> str:
    parts = urlsplit(url)
    if "@" not in parts.netloc:
        return url
    return urlunsplit(parts._replace(netloc=f"***@{parts.netloc.rsplit('@', 1)[1]}"))
