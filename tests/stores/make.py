"""Making a store: a small site's working day on an empty Redis, and everything that it left, as JSON.

A file beside this one was written by the code of the day in its name and is never made anew: it stands for the stores that are out there.
To keep one of today's code: `python -m tests.stores.make tests/stores/YEAR-MONTH-DAY.json.xz`.
"""

import asyncio
import base64
import json
import lzma
import sys
import tempfile
from pathlib import Path
from typing import Any

from fakeredis import FakeAsyncRedis
from redis.asyncio import Redis

from graph.state import Item
from tests.support.fakes_actions import ANN, BDF, BOB, CID, KEY, Office, Plan, Site, die, hung, nothing_happens, well
from tests.support.fakes_graph import fact
from tools.evidence import DirectoryEvidence
from tools.fact import Fact
from tools.ledger.record import Record

HOSTS = ("n1", "n2", "n3", "n4", "m1", "m2", "ctl")


class Day:
    """Incidents that end in every state an action can be in. `cast` names them for the tests."""

    def __init__(self, redis: Redis, folder: Path) -> None:
        self.site = Site(facts=well(*HOSTS))
        self.office = Office(redis, self.site, evidence=DirectoryEvidence(folder))
        self.cast: dict[str, str] = {}
        self.threads = iter(range(1, 100))

    async def incident(self, name: str, text: str) -> str:
        """Somebody complains in a thread of its own."""
        self.cast[name] = await self.office.mention(text, thread=f"{next(self.threads)}.0")
        return self.cast[name]

    def sick(self, only: Fact) -> None:
        """One host has this; everything else is well."""
        self.site.facts = well(*HOSTS)
        self.site.sick(only)

    async def pending(self, name: str) -> Record:
        """The one action of an incident that waits for a decision."""
        (row,) = await self.office.pending(self.cast[name])
        return row

    async def cured(self) -> None:
        """Drained, reset, back in service; nobody has proved it again yet."""
        self.sick(hung("n1"))
        incident = await self.incident("cured", "job 4711 hangs on n1")
        for remedy in ("drain_node", "gpu_reset", "resume_node"):
            self.cast[f"done {remedy}"] = (await self.office.approve(incident, remedy)).approval

    async def covered(self) -> None:
        """A reset fails, and the reboot that follows makes another incident's reset needless."""
        office = self.office
        self.site.slurm["n2"], self.site.reasons["n2"], self.site.fails["gpu_reset"] = "drained", "rackmedic:apr-000000000000", 1
        self.sick(hung("n2", minutes=0))
        first = await self.incident("covering", "n2 hangs")
        self.cast["failed"] = (await office.approve(first, "gpu_reset")).approval
        second = await self.incident("covered", "n2 hangs again")
        self.cast["needless"] = (await self.pending("covered")).approval
        self.cast["covering action"] = (await office.approve(first, "reboot")).approval
        await office.settle(second)
        self.site.fails.clear()

    async def in_doubt(self) -> None:
        """The worker dies once it has claimed, the host stays silent, and the next worker gives up."""
        self.sick(_slow("n3"))
        incident = await self.incident("in doubt", "n3 is slow")
        row = await self.pending("in doubt")
        await self.office.click(row)
        self.site.at = Plan("claimed")
        await die(self.office.actions.drive(row.approval))
        self.site.silent.add("n3")
        self.office.clock.go(minutes=1)
        await self.office.settle(incident)
        self.site.silent.clear()
        self.cast["unknown"] = row.approval

    async def denied(self) -> None:
        self.sick(_slow("n1"))
        incident = await self.incident("denied", "n1 is slow")
        row = await self.pending("denied")
        await self.office.click(row, CID, "deny", "not today: ask again on Monday")
        await self.office.settle(incident)
        self.cast["denied action"] = row.approval

    async def expired(self) -> None:
        """Nobody decided, and it was proposed once more."""
        self.sick(_slow("n2"))
        incident = await self.incident("expired", "n2 is slow")
        self.cast["expired action"] = (await self.pending("expired")).approval
        self.office.clock.go(minutes=16)
        await self.office.settle(incident)

    async def edited(self) -> None:
        """The edit waits for a decision; what it replaced is superseded."""
        self.sick(_slow("n4"))
        incident = await self.incident("edited", "n4 is slow")
        row = await self.pending("edited")
        new = await self.office.decisions.edit(row.approval, row.digest, BOB, {"bdf": BDF["gpu5"]})
        await self.office.settle(incident)
        self.cast |= {"replaced": row.approval, "edit": new.approval}

    async def voted(self) -> None:
        """No scheduler says that the node is drained: two must approve, and one has."""
        self.sick(hung("m1", minutes=30))
        await self.incident("voted", "m1 hangs")
        row = await self.pending("voted")
        await self.office.click(row, ANN)
        self.cast["voted action"] = row.approval

    async def executing(self) -> None:
        """The worker dies with the command on the node."""
        self.sick(_slow("m2"))
        await self.incident("executing", "m2 is slow")
        row = await self.pending("executing")
        await self.office.click(row)
        self.site.at = Plan("start:after")
        await die(self.office.actions.drive(row.approval))
        self.cast["executing action"] = row.approval

    async def stopped(self) -> None:
        """Approved, and held back by the kill switch; a message of the thread waits in the inbox."""
        self.sick(_slow("n1"))
        incident = await self.incident("stopped", "n1 is slow again")
        row = await self.pending("stopped")
        await self.office.ledger.stop(BOB, "looking: at the racks")
        await self.office.click(row)
        await self.office.settle(incident)
        self.cast["approved action"] = row.approval
        clock = self.office.clock
        await self.office.inbox.enqueue(Item(id="late", kind="reply", incident=incident, at=clock.now(), user="EVE", text="status"), "late")


def _slow(host: str) -> Fact:
    return fact(host, "smi", "gpu.throttle.applications_clocks", True, "gpu3")


async def dump(redis: Redis) -> dict[str, Any]:
    """Every key with its type. Lifetimes are left out: what is read back lives for ever."""
    found: dict[str, Any] = {}
    client: Any = redis  # its types do not follow bytes
    value: Any
    for key in sorted(await client.keys("*")):
        kind = (await client.type(key)).decode()
        match kind:
            case "string":
                value = text(await client.get(key))
            case "hash":
                value = {text(name): text(item) for name, item in sorted((await client.hgetall(key)).items())}
            case "set":
                value = sorted(text(item) for item in await client.smembers(key))
            case "list":
                value = [text(item) for item in await client.lrange(key, 0, -1)]
            case "zset":
                value = [[text(name), score] for name, score in await client.zrange(key, 0, -1, withscores=True)]
            case _:
                raise AssertionError(f"{key}: nobody writes a {kind}")
        found[key.decode()] = {kind: value}
    return found


def text(value: bytes) -> str:
    """As UTF-8 where it is, else in base64 behind `b64:`."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return f"b64:{base64.b64encode(value).decode()}"


async def written(folder: Path) -> dict[str, Any]:
    """The day, and what it left: Redis, the evidence in `folder`, what the hosts remember, the ledger's key."""
    async with FakeAsyncRedis() as redis:
        day = Day(redis, folder)
        for part in (day.cured, day.covered, day.in_doubt, day.expired, day.denied, day.executing, day.voted, day.edited, day.stopped):
            await part()
            day.site.at = nothing_happens
            if part in (day.covered, day.expired):
                day.office.clock.go(minutes=20)
        return {
            "at": day.office.clock.now().isoformat(),
            "key": KEY.decode(),
            "cast": day.cast,
            "boots": day.site.boots,
            "host_records": [[host, digest, said] for (host, digest), said in day.site.records.items()],
            "evidence": {str(file.relative_to(folder)): text(file.read_bytes()) for file in sorted(folder.rglob("*")) if file.is_file()},
            "redis": await dump(redis),
        }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        stored = asyncio.run(written(Path(folder)))
    Path(sys.argv[1]).write_bytes(lzma.compress(json.dumps(stored, sort_keys=True).encode(), preset=9))
