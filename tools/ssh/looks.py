"""Commands that only look, as many at once as a whole diagnosis asks: those that wait for the same host share its sessions.

Nothing that changes a host comes this way: a remedy has a session of its own (`tools.ssh.client.Ssh.run`).
"""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from tools.ssh.batch import Look
from tools.ssh.client import Ssh
from tools.transport import Ran, Unreachable

LEAST, MOST = 6, 12
"""Commands of one session, where there are as many: opening one costs more than most commands, and one that is slow holds up those behind it."""
TURNS = 3
"""Turns of the event loop that all who ask at once need to get here."""
TRIES = 2
"""Sessions that may break off before a command has begun; then it gets one of its own, which says what is wrong."""


@dataclass(eq=False, slots=True)
class _Waiting:
    """A command that somebody waits for."""

    asked: Look
    answer: asyncio.Future[Ran]
    tries: int = 0


@dataclass(slots=True)
class _Queue:
    """What waits for one host. `plain`: its account runs no script, so every command has a session of its own."""

    waiting: list[_Waiting] = field(default_factory=list)
    lanes: set[asyncio.Task[None]] = field(default_factory=set)
    plain: bool = False

    def take(self, lanes: int) -> list[_Waiting]:
        """The next ones for a session. They are taken from all over the queue, since neighbours are often alike in what they cost."""
        self.waiting = [one for one in self.waiting if not one.answer.done()]
        alone = next((one for one in self.waiting if self.plain or one.tries >= TRIES or not one.asked.shares), None)
        if alone:
            self.waiting.remove(alone)
            return [alone]
        most = min(MOST, max(LEAST, -(-len(self.waiting) // lanes)))
        taken = self.waiting[:: max(1, len(self.waiting) // most)][:most]
        self.waiting = [one for one in self.waiting if one not in taken]
        return taken

    def again(self, left: Sequence[_Waiting]) -> None:
        """What a session did not come to waits again, in front."""
        for one in left:
            one.tries += 1
        self.waiting[:0] = left


class SshLooks:
    """`tools.transport.Transport` for looking: over `ssh`, whose connections and sessions it shares; whoever opened that closes it, last."""

    clock = "real"

    def __init__(self, ssh: Ssh) -> None:
        self._ssh, self._most = ssh, ssh.sessions
        self._queues: defaultdict[str, _Queue] = defaultdict(_Queue)

    async def run(self, host: str, argv: Sequence[str], *, timeout: float, cap: int) -> Ran:
        """See `Transport.run`."""
        queue = self._queues[host]
        one = _Waiting(Look(tuple(argv), timeout, cap), asyncio.get_running_loop().create_future())
        queue.waiting.append(one)
        if len(queue.lanes) < self._most:
            lane = asyncio.create_task(self._lane(host, queue))
            queue.lanes.add(lane)
            lane.add_done_callback(queue.lanes.discard)
        return await one.answer

    def reached(self, host: str) -> bool:
        """Whether the host has let us in."""
        return self._ssh.reached(host)

    async def aclose(self) -> None:
        """Begin nothing more."""
        lanes = [lane for queue in self._queues.values() for lane in queue.lanes]
        for one in (one for queue in self._queues.values() for one in queue.waiting):
            one.answer.cancel()
        for lane in lanes:
            lane.cancel()
        await asyncio.gather(*lanes, return_exceptions=True)

    async def _lane(self, host: str, queue: _Queue) -> None:
        """One session after another, while anything waits."""
        for _ in range(TURNS):
            await asyncio.sleep(0)
        while taken := queue.take(self._most):
            session = asyncio.create_task(self._session(host, queue, taken))
            _left_with_its_last(taken, session)
            try:
                await asyncio.wait({session})
            finally:
                session.cancel()
            await asyncio.gather(session, return_exceptions=True)

    async def _session(self, host: str, queue: _Queue, taken: Sequence[_Waiting]) -> None:
        def heard(at: int, ran: Ran) -> None:
            if not taken[at].answer.done():
                taken[at].answer.set_result(ran)

        try:
            if len(taken) == 1:
                [alone] = taken
                heard(0, await self._ssh.run(host, alone.asked.argv, timeout=alone.asked.timeout, cap=alone.asked.cap))
                return
            ended = await self._ssh.run_several(host, [one.asked for one in taken], heard)
        except (
            Exception
        ) as why:  # whatever it is, it is for those who asked; a host that lets nobody in is not tried again for those who wait
            queued = queue.waiting if isinstance(why, Unreachable) else []
            queue.waiting = [one for one in queue.waiting if one not in queued]
            for one in (*taken, *queued):
                if not one.answer.done():
                    one.answer.set_exception(why)
            return
        queue.plain = queue.plain or ended.refused
        queue.again([one for one in taken if not one.answer.done()])


def _left_with_its_last(taken: Sequence[_Waiting], session: asyncio.Task[None]) -> None:
    """A session goes on only while somebody waits for what it has still to say."""

    def leave(answer: asyncio.Future[Ran]) -> None:
        if answer.cancelled() and all(one.answer.done() for one in taken):
            session.cancel()

    for one in taken:
        one.answer.add_done_callback(leave)
