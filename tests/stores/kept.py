"""A store of before, laid out again: Redis, the evidence folder, and hosts that remember what was done to them."""

import base64
import json
import lzma
from datetime import datetime
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from tests.support.fakes_actions import Office, Site, well
from tools.evidence import DirectoryEvidence

HERE = Path(__file__).parent


class Kept:
    """One stored day. `cast` names its incidents and actions, `records` are the ledger's rows as they were written."""

    def __init__(self, name: str) -> None:
        self._stored: dict[str, Any] = json.loads(lzma.decompress((HERE / name).read_bytes()))
        self.cast: dict[str, str] = self._stored["cast"]
        self.at = datetime.fromisoformat(self._stored["at"])
        self.key: bytes = self._stored["key"].encode()
        rows: dict[str, dict[str, Any]] = self._stored["redis"]
        self.records = {key.removeprefix("rm:ledger:apr:"): row["hash"] for key, row in rows.items() if key.startswith("rm:ledger:apr:")}

    @property
    def catalogue(self) -> str:
        """The catalogue's hash of that day: what was approved under it runs under it alone."""
        return str(json.loads(self.records[self.cast["approved action"]]["action"])["catalogue"])

    async def office(self, redis: Redis, folder: Path) -> Office:
        """Today's code on that store and in that world."""
        for name, data in self._stored["evidence"].items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(_bytes(data))
        for key, typed in self._stored["redis"].items():
            ((kind, value),) = typed.items()
            await _put(redis, key, kind, value)
        site = Site(facts=well("n1", "n2", "n3", "n4", "m1", "m2", "ctl"), boots=dict(self._stored["boots"]))
        site.records = {(host, digest): said for host, digest, said in self._stored["host_records"]}
        site.clock.at = self.at
        return Office(redis, site, evidence=DirectoryEvidence(folder), worker="w2", catalogue=self.catalogue)


async def _put(redis: Redis, key: str, kind: str, value: Any) -> None:
    client: Any = redis  # its types do not follow bytes
    match kind:
        case "string":
            await client.set(key, _bytes(value))
        case "hash":
            await client.hset(key, mapping={_bytes(name): _bytes(item) for name, item in value.items()})
        case "set":
            await client.sadd(key, *map(_bytes, value))
        case "list":
            await client.rpush(key, *map(_bytes, value))
        case "zset":
            await client.zadd(key, {_bytes(name): score for name, score in value})


def _bytes(value: str) -> bytes:
    return base64.b64decode(value.removeprefix("b64:")) if value.startswith("b64:") else value.encode()
