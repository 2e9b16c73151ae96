"""Read threads from Redis without LangGraph, which a process that only shows incidents need not load.

The saver (`graph.checkpoints.checkpoint`) writes these keys and reads them through the same functions.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import ormsgpack
from redis.asyncio import Redis

KEY_KINDS = ("checkpoints", "index", "heads", "values", "writes", "windex")
KEY_PREFIX = "rm:thread"
FIELD_SEPARATOR = b"\0"
LEX_RANGE_END = b"\xff"


class NotPlainJson(ValueError):
    """A stored value is not plain JSON; nothing of an incident's state ever is."""


@dataclass(frozen=True, slots=True)
class StoredWrite:
    """A task's write to a channel, as bytes."""

    order: tuple[str, str, int]  # Sort key among the writes of a step: path, task, number.
    channel: str
    value: bytes

    @property
    def task_id(self) -> str:
        return self.order[1]


@dataclass(frozen=True, slots=True)
class StoredCheckpoint:
    """One checkpoint as bytes, with the values it refers to and its writes in order."""

    ns: str
    id: str
    record: dict[str, Any]
    values: Mapping[str, bytes]
    writes: Sequence[StoredWrite]


class CheckpointReader:
    """Reads threads. The client must return bytes; `read` decodes a value."""

    def __init__(self, redis: Redis, prefix: str, read: Callable[[bytes], Any]) -> None:
        self._redis, self._prefix, self._value = redis, prefix, read

    def build_key(self, thread: str, kind: str) -> str:
        return f"{self._prefix}:{{{thread}}}:{kind}"

    async def load_latest(self, thread: str, ns: str) -> StoredCheckpoint | None:
        """Return the checkpoint put last; where that is deleted, the last by name."""
        low = build_field(ns, "")
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.hget(self.build_key(thread, "heads"), ns)
            pipe.zrevrangebylex(self.build_key(thread, "index"), b"[" + low + LEX_RANGE_END, b"[" + low, 0, 1)
            head, fields = await pipe.execute()
        for field in (head, *fields):
            if field and (row := await self.load_checkpoint(thread, field)):
                return row
        return None

    async def load_checkpoint(self, thread: str, field: bytes) -> StoredCheckpoint | None:
        ns, id_ = split_field(field)
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.hget(self.build_key(thread, "checkpoints"), cast(str, field))
            pipe.zrangebylex(
                self.build_key(thread, "windex"), b"[" + field + FIELD_SEPARATOR, b"[" + field + FIELD_SEPARATOR + LEX_RANGE_END
            )
            raw, write_fields = await pipe.execute()
        if raw is None:
            return None
        record = self._value(raw)
        names = {channel: build_field(ns, channel, v) for channel, v in record["checkpoint"]["channel_versions"].items()}
        values = await self._load_many(thread, "values", list(names.values()))
        stored = {channel: value for channel, value in zip(names, values, strict=True) if value is not None}
        writes = await self._load_many(thread, "writes", write_fields)
        return StoredCheckpoint(ns, id_, record, stored, _sort_writes(write_fields, writes))

    async def _load_many(self, thread: str, kind: str, fields: Sequence[bytes]) -> list[bytes | None]:
        return cast(list[bytes | None], await self._redis.hmget(self.build_key(thread, kind), cast(Any, fields))) if fields else []


def parse_plain_value(raw: bytes) -> Any:
    """Decode a value written by LangGraph's serializer. Raises NotPlainJson for objects and unknown encodings."""
    kind, data = raw.split(FIELD_SEPARATOR, 1)
    if kind == b"null":
        return None
    if kind != b"msgpack":
        raise NotPlainJson(f"a stored value is of the kind {kind.decode('utf-8', 'replace')[:40]!r}")
    try:
        return ormsgpack.unpackb(data, option=ormsgpack.OPT_NON_STR_KEYS)
    except ormsgpack.MsgpackDecodeError as error:
        raise NotPlainJson(f"a stored value cannot be read: {error}") from error


def build_field(*parts: object) -> bytes:
    return "\0".join(str(part) for part in parts).encode()


def split_field(field: bytes) -> tuple[str, str]:
    ns, id_ = field.decode().split("\0")
    return ns, id_


def get_checkpoint_field(write: bytes) -> bytes:
    """Return the checkpoint field that a write's field belongs to."""
    return FIELD_SEPARATOR.join(write.split(FIELD_SEPARATOR)[:2])


def _sort_writes(fields: Iterable[bytes], writes: Iterable[bytes | None]) -> list[StoredWrite]:
    rows = []
    for field, write in zip(fields, writes, strict=True):
        if write is None:
            continue
        _, _, task, number = field.decode().split("\0")
        path, channel, value = write.split(FIELD_SEPARATOR, 2)
        rows.append(StoredWrite((path.decode(), task, int(number)), channel.decode(), value))
    return sorted(rows, key=lambda row: row.order)
