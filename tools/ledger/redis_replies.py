"""Decode Redis replies; no raw Redis error reaches people."""

import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from redis.exceptions import RedisError, ResponseError

from tools.ledger.record import StoreDown, TamperedRecord

# errors that only a value of another writer can cause
_FOREIGN_VALUE_PATTERN = re.compile(
    r"WRONGTYPE|attempt to (?:compare|perform arithmetic|concatenate|index)|not a (?:valid )?(?:float|integer)"
)


@asynccontextmanager
async def translate_redis_errors() -> AsyncIterator[None]:
    """Raise StoreDown for a failing Redis, TamperedRecord for a foreign value."""
    try:
        yield
    except ResponseError as error:
        if not _FOREIGN_VALUE_PATTERN.search(str(error)):
            raise StoreDown(f"{StoreDown.__doc__} ({type(error).__name__}: {error})") from error
        raise TamperedRecord(f"{TamperedRecord.__doc__} ({str(error)[:120]})") from error
    except (RedisError, OSError) as error:
        raise StoreDown(f"{StoreDown.__doc__} ({type(error).__name__}: {error})") from error


def decode_text(value: Any) -> str:
    """Return a reply as text, "" for None."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")


def decode_texts(values: Any) -> list[str]:
    """Return replies as text."""
    return [decode_text(value) for value in values]


def decode_hash(found: Mapping[Any, Any]) -> dict[str, str]:
    """Return a hash as text."""
    return {decode_text(name): decode_text(value) for name, value in found.items()}


def parse_line(line: str) -> dict[str, Any]:
    """Parse an audit line. One that is no JSON object is returned under `unreadable`."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    return row if isinstance(row, dict) else {"unreadable": line}
