"""One of several processes that share a ledger: `python -m tests.properties.ledger_process SOCKET NAME WHAT PROCESSES
APPROVAL…`.

`race` claims each approval at the same moment as the others; `hold` claims one, starts it on the node named last, if
any, and waits to be killed. Prints `claimed APPROVAL` for every claim.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any, cast

from redis.asyncio import Redis

from tests.support.clock import WallClock
from tests.support.fakes_ledger import CATALOGUE, KEY, PEOPLE, POLICY
from tests.support.fakes_nodekit import Node
from tests.support.node_transport import OneNode
from tools.execution import runner as act
from tools.ledger.ledger import Ledger
from tools.ledger.refusals import Refused


async def claim(ledger: Ledger, approval: str, name: str) -> Any:
    row = await ledger.get_record(approval)
    held = await ledger.claim(approval, row.digest, name, policy=POLICY, catalogue=CATALOGUE, authorised=PEOPLE)
    print(f"claimed {approval}", flush=True)
    return held


async def race(redis: Redis, ledger: Ledger, name: str, processes: int, approvals: list[str]) -> None:
    for approval in approvals:
        if await redis.incr(f"here:{approval}") == processes:
            await cast(Any, redis.rpush(f"go:{approval}", *range(processes)))
        await cast(Any, redis.blpop([f"go:{approval}"], 30))
        try:
            held = await claim(ledger, approval, name)
        except Refused:
            continue
        await ledger.finish(held, "done")


async def hold(ledger: Ledger, name: str, approval: str, node: list[str]) -> None:
    held = await claim(ledger, approval, name)
    if node:
        said = await act.start_action(held, OneNode(Node(Path(node[0]))))
        assert said.word == "started", said
    print("holding", flush=True)
    await asyncio.Event().wait()


async def main(socket: str, name: str, what: str, processes: str, *rest: str) -> None:
    async with Redis(unix_socket_path=socket) as redis:
        ledger = Ledger(redis, KEY, WallClock())
        if what == "race":
            await race(redis, ledger, name, int(processes), list(rest))
        else:
            await hold(ledger, name, rest[0], list(rest[1:]))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
