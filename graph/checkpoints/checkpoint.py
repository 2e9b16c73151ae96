"""LangGraph checkpoints on core Redis commands: no modules, so Debian's server, Valkey, managed Redis and fakeredis
work.

Six keys per thread share one `{thread}` hash tag: `checkpoints` (hash), `index` (zset of equal scores, ordered by
name), `heads` (hash: the checkpoint put last), `values` (hash: one channel value per version), `writes` (hash) and
`windex` (zset).

Invariants:
- One atomic step per put.
- The checkpoint put last is the latest: ids carry their writer's clock, which may be behind another's.
- No open thread expires: only `expire` sets a lifetime, and the next put removes it.
- Inside `enforce_fence` every put is refused once another worker holds the lease, so a stale worker cannot continue.
"""

import random
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import ERROR
from langgraph.types import StateSnapshot
from redis.asyncio import Redis

from graph.checkpoints.checkpoint_reader import (
    FIELD_SEPARATOR,
    KEY_KINDS,
    KEY_PREFIX,
    CheckpointReader,
    StoredCheckpoint,
    build_field,
    get_checkpoint_field,
    split_field,
)
from graph.checkpoints.fence import FENCED_COMMIT_SCRIPT, LostLease, WorkerStopping, get_current_fence
from kb.redact import redact_start, redact_stored_data

# Serialization of stored values.


def build_plain_serde() -> JsonPlusSerializer:
    """Return a serializer that rebuilds no stored value into an object, apart from LangGraph's own types."""
    return JsonPlusSerializer(allowed_msgpack_modules=None)


# Detect an interrupted graph run.


def has_pending_tasks(snapshot: StateSnapshot) -> bool:
    """Return whether a step has yet to run, or ran and lacks its checkpoint.

    `snapshot.next` is not enough: after a process died between a node's writes and their checkpoint it is empty, as at
    the end, and new input would drop those writes (measured with kill -9: a turn's first node ran twice).
    """
    return bool(snapshot.tasks)


MAX_ERROR_CHARS = 500
RedisCommand = tuple[str | bytes | int | float, ...]


def redact_error(bug: object) -> str:
    """Return the redacted start of an exception's text, which may quote secrets."""
    words = bug if isinstance(bug, str) else repr(bug)
    return str(redact_start(words, MAX_ERROR_CHARS))


class RedisSaver(BaseCheckpointSaver[str]):
    """LangGraph saver, asynchronous only. The client must return bytes (`decode_responses=False`)."""

    def __init__(self, redis: Redis, *, prefix: str = KEY_PREFIX, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde or build_plain_serde())
        self._redis = redis
        self._prefix = prefix
        self._threads = CheckpointReader(redis, prefix, self._parse_value)
        self._fenced_commit = redis.register_script(FENCED_COMMIT_SCRIPT)

    def get_next_version(self, current: str | None, channel: None) -> str:
        """Return a counter with a random tail: two branches of one thread must not write one version of a channel."""
        count = int(current.split(".")[0], 16) if current else 0
        return f"{count + 1:08x}.{random.getrandbits(32):08x}"

    async def aput(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> RunnableConfig:
        place = config["configurable"]
        thread, ns = place["thread_id"], place.get("checkpoint_ns", "")
        values = checkpoint["channel_values"]
        record = {
            "parent": place.get("checkpoint_id"),
            "checkpoint": {k: v for k, v in checkpoint.items() if k != "channel_values"},
            "metadata": get_checkpoint_metadata(config, metadata),
        }
        field = build_field(ns, checkpoint["id"])
        commands: list[RedisCommand] = [
            ("HSET", self._threads.build_key(thread, "checkpoints"), field, self._serialize_value(record)),
            ("ZADD", self._threads.build_key(thread, "index"), 0, field),
            ("HSET", self._threads.build_key(thread, "heads"), ns, field),
        ]
        commands += [
            ("HSET", self._threads.build_key(thread, "values"), build_field(ns, channel, version), self._serialize_value(values[channel]))
            for channel, version in new_versions.items()
            if channel in values
        ]
        commands += [("PERSIST", self._threads.build_key(thread, kind)) for kind in KEY_KINDS]
        await self._commit(thread, commands)
        if (fence := get_current_fence()) and fence.stopping():
            raise WorkerStopping(f"{thread}: stopped behind step {metadata.get('step')}")
        return _build_config(thread, ns, checkpoint["id"])

    async def aput_writes(self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = "") -> None:
        place = config["configurable"]
        thread, ns = place["thread_id"], place.get("checkpoint_ns", "")
        commands: list[RedisCommand] = []
        for at, (channel, value) in enumerate(writes):
            idx = WRITES_IDX_MAP.get(channel, at)
            field = build_field(ns, place["checkpoint_id"], task_id, idx)
            if channel == ERROR:
                value = redact_error(value)
            # A task's ordinary writes are final; its error, interrupt or resume may be replaced.
            verb = "HSETNX" if idx >= 0 else "HSET"
            commands.append(
                (
                    verb,
                    self._threads.build_key(thread, "writes"),
                    field,
                    build_field(task_path, channel) + FIELD_SEPARATOR + self._serialize_value(value),
                )
            )
            commands.append(("ZADD", self._threads.build_key(thread, "windex"), 0, field))
        await self._commit(thread, commands)

    async def _commit(self, thread: str, commands: Sequence[RedisCommand]) -> None:
        if not commands:
            return
        if fence := get_current_fence():
            words = [word for command in commands for word in (len(command), *command)]
            keys = [fence.key, *(self._threads.build_key(thread, kind) for kind in KEY_KINDS)]
            if not await self._fenced_commit(keys=keys, args=[fence.token, *words]):
                raise LostLease(f"{thread}: the lease {fence.key} is no longer ours; nothing was written")
            return
        async with self._redis.pipeline(transaction=True) as pipe:
            for command in commands:
                pipe.execute_command(*command)
            await pipe.execute()

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        place = config["configurable"]
        thread, ns = place["thread_id"], place.get("checkpoint_ns", "")
        checkpoint_id = get_checkpoint_id(config)
        return await (self._load(thread, build_field(ns, checkpoint_id)) if checkpoint_id else self._load_latest(thread, ns))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002  the name in LangGraph's contract
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        ns = config["configurable"].get("checkpoint_ns") if config else None
        wanted_id = get_checkpoint_id(config) if config else None
        before_id = get_checkpoint_id(before) if before else None
        remaining_count = limit
        for thread in [config["configurable"]["thread_id"]] if config else [t async for t in self.iter_threads()]:
            for field in await self._list_fields(thread, ns):
                _, checkpoint_id = split_field(field)
                if (wanted_id and checkpoint_id != wanted_id) or (before_id and checkpoint_id >= before_id):
                    continue
                if remaining_count is not None and remaining_count <= 0:
                    return
                row = await self._load(thread, field)
                if row and _matches_filter(row.metadata, filter):
                    remaining_count = None if remaining_count is None else remaining_count - 1
                    yield row

    async def iter_threads(self) -> AsyncIterator[str]:
        """Yield every thread with a checkpoint, unordered."""
        head, tail = f"{self._prefix}:{{", "}:index"
        async for key in self._redis.scan_iter(match=f"{self._prefix}:*:index", count=500):
            yield key.decode()[len(head) : -len(tail)]

    async def _load_latest(self, thread: str, ns: str) -> CheckpointTuple | None:
        step = await self._threads.load_latest(thread, ns)
        return self._build_tuple(thread, step) if step else None

    async def _list_fields(self, thread: str, ns: str | None) -> list[bytes]:
        """Return the fields of the thread's checkpoints, newest first."""
        rows = cast(list[bytes], await self._redis.zrange(self._threads.build_key(thread, "index"), 0, -1))
        split_fields = [(row, *split_field(row)) for row in rows]
        return [row for row, of, _ in sorted(split_fields, key=lambda n: n[2], reverse=True) if ns is None or of == ns]

    async def _load(self, thread: str, field: bytes) -> CheckpointTuple | None:
        step = await self._threads.load_checkpoint(thread, field)
        return self._build_tuple(thread, step) if step else None

    def _build_tuple(self, thread: str, step: StoredCheckpoint) -> CheckpointTuple:
        parent = step.record["parent"]
        values = {channel: self._parse_value(raw) for channel, raw in step.values.items()}
        return CheckpointTuple(
            config=_build_config(thread, step.ns, step.id),
            checkpoint=cast(Checkpoint, {**step.record["checkpoint"], "channel_values": values}),
            metadata=step.record["metadata"],
            parent_config=_build_config(thread, step.ns, parent) if parent else None,
            pending_writes=[(write.task_id, write.channel, self._parse_value(write.value)) for write in step.writes],
        )

    async def expire(self, thread: str, seconds: int) -> None:
        """Let a closed thread expire; a put before then keeps it."""
        async with self._redis.pipeline(transaction=True) as pipe:
            for kind in KEY_KINDS:
                pipe.expire(self._threads.build_key(thread, kind), seconds)
            await pipe.execute()

    async def adelete_thread(self, thread_id: str) -> None:
        await self._redis.delete(*(self._threads.build_key(thread_id, kind) for kind in KEY_KINDS))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        checkpoint_run_ids = set(run_ids)
        if not checkpoint_run_ids:
            return
        async for thread in self.iter_threads():
            rows = {field: await self._load(thread, field) for field in await self._list_fields(thread, None)}
            keep = {f: row for f, row in rows.items() if row and row.metadata.get("run_id") not in checkpoint_run_ids}
            if len(keep) < len(rows):
                await self._keep_only(thread, keep)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        async with self._redis.pipeline(transaction=True) as pipe:
            for kind in KEY_KINDS:
                pipe.copy(self._threads.build_key(source_thread_id, kind), self._threads.build_key(target_thread_id, kind), replace=True)
                pipe.persist(self._threads.build_key(target_thread_id, kind))
            await pipe.execute()

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Prune; `keep_latest` keeps each namespace's newest checkpoint, and all where delta channels need their
        ancestors.
        """
        if strategy not in ("keep_latest", "delete"):
            raise ValueError(f"strategy {strategy!r}: say keep_latest or delete")
        for thread in thread_ids:
            if strategy == "delete":
                await self.adelete_thread(thread)
                continue
            await self._prune(thread)

    async def _prune(self, thread: str) -> None:
        fields = await self._list_fields(thread, None)
        newest = {ns: await self._load_latest(thread, ns) for ns in {split_field(field)[0] for field in fields}}
        chained = {ns for ns, row in newest.items() if row and row.metadata.get("counters_since_delta_snapshot")}
        keep = {build_field(ns, row.checkpoint["id"]): row for ns, row in newest.items() if row}
        keep |= {f: row for f in fields if split_field(f)[0] in chained and (row := await self._load(thread, f))}
        if len(keep) < len(fields):
            await self._keep_only(thread, keep, fields)

    async def _keep_only(self, thread: str, keep: dict[bytes, CheckpointTuple], known: Iterable[bytes] | None = None) -> None:
        """Drop every known checkpoint not in `keep`, its writes, and the values that no kept one refers to.

        A concurrent put survives: what it adds is in none of the lists read here.
        """
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.zrange(self._threads.build_key(thread, "index"), 0, -1)
            pipe.hkeys(self._threads.build_key(thread, "values"))
            pipe.zrange(self._threads.build_key(thread, "windex"), 0, -1)
            index, values, writes = await pipe.execute()
        drop = set(known if known is not None else index) - set(keep)
        needed = {
            build_field(split_field(field)[0], channel, version)
            for field, row in keep.items()
            for channel, version in row.checkpoint["channel_versions"].items()
        }
        if known is not None and set(index) - set(known):
            needed |= set(values)  # a newer checkpoint arrived: its values are among these, so leave them to the next pruning
        await self._drop(thread, drop, [v for v in values if v not in needed], [w for w in writes if get_checkpoint_field(w) in drop])

    async def _drop(self, thread: str, checkpoints: Iterable[bytes], values: Sequence[bytes], writes: Sequence[bytes]) -> None:
        dropped_checkpoints = list(checkpoints)
        async with self._redis.pipeline(transaction=True) as pipe:
            for kind, verb, names in (
                ("checkpoints", "HDEL", dropped_checkpoints),
                ("index", "ZREM", dropped_checkpoints),
                ("values", "HDEL", values),
                ("writes", "HDEL", writes),
                ("windex", "ZREM", writes),
            ):
                if names:
                    pipe.execute_command(verb, self._threads.build_key(thread, kind), *names)
            await pipe.execute()

    def _serialize_value(self, value: Any) -> bytes:
        """Redact and serialize a value; its text may come from a site file, a person or a host."""
        kind, data = self.serde.dumps_typed(redact_stored_data(value))
        return kind.encode() + FIELD_SEPARATOR + data

    def _parse_value(self, raw: bytes) -> Any:
        kind, data = raw.split(FIELD_SEPARATOR, 1)
        return self.serde.loads_typed((kind.decode(), data))


def _build_config(thread: str, ns: str, id_: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ns, "checkpoint_id": id_}}


def _matches_filter(metadata: CheckpointMetadata, wanted: dict[str, Any] | None) -> bool:
    metadata_values = cast(dict[str, Any], metadata)
    return all(metadata_values.get(key) == value for key, value in (wanted or {}).items())
