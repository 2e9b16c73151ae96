"""Reading from Redis: bytes to text, and no raw Redis error ever reaches people."""

import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from redis.exceptions import RedisError, ResponseError

from tools.ledger.record import StoreDown, TamperedRecord

_FOREIGN_VALUE_PATTERN = re.compile(
    r"WRONGTYPE|attempt to (?:compare|perform arithmetic|concatenate|index)|not a (?:valid )?(?:float|integer)"
)
"""What Redis says of a value that only somebody else can have put there."""


@asynccontextmanager
async def translate_redis_errors() -> AsyncIterator[None]:
    """StoreDown for whatever keeps Redis from answering; Tampered where what lies there is none of what we write."""
    try:
        yield
    except ResponseError as why:
        if not _FOREIGN_VALUE_PATTERN.search(str(why)):
            raise StoreDown(f"{StoreDown.__doc__} ({type(why).__name__}: {why})") from why
        raise TamperedRecord(f"{TamperedRecord.__doc__} ({str(why)[:120]})") from why
    except (RedisError, OSError) as why:
        raise StoreDown(f"{StoreDown.__doc__} ({type(why).__name__}: {why})") from why


def decode_text(value: Any) -> str:
    """A reply as text, empty where there is none."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")


def decode_texts(values: Any) -> list[str]:
    """A list of replies as text."""
    return [decode_text(value) for value in values]


def decode_hash(found: Mapping[Any, Any]) -> dict[str, str]:
    """A hash as text."""
    return {decode_text(name): decode_text(value) for name, value in found.items()}


def parse_line(line: str) -> dict[str, Any]:
    """An audit line as a mapping; one that is no JSON any more is shown as it lies there."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    return row if isinstance(row, dict) else {"unreadable": line}
