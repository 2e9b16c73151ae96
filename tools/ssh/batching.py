"""Batching of read-only commands that wait for the same host. Remedies use `SshTransport.run` instead."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from tools.ssh.batch import BatchCommand
from tools.ssh.client import SshTransport
from tools.transport import CommandResult, Unreachable

MIN_BATCH_COMMANDS = 6  # commands per session: opening one costs more than most commands
MAX_BATCH_COMMANDS = 12  # but a slow command delays those behind it
EVENT_LOOP_TURNS = 3  # turns that concurrent callers need to queue their commands
MAX_BATCH_TRIES = 2  # sessions that may break off before a command begins; then it runs alone, which shows the error


@dataclass(eq=False, slots=True)
class _WaitingCommand:
    command: BatchCommand
    answer: asyncio.Future[CommandResult]
    tries: int = 0


@dataclass(slots=True)
class _HostQueue:
    """One host's queue. `plain`: the account runs no script, so each command has a session of its own."""

    waiting: list[_WaitingCommand] = field(default_factory=list)
    lanes: set[asyncio.Task[None]] = field(default_factory=set)
    plain: bool = False

    def take_batch(self, lanes: int) -> list[_WaitingCommand]:
        """Remove the next batch, picked from all over the queue, because neighbours often cost alike."""
        self.waiting = [waiting_command for waiting_command in self.waiting if not waiting_command.answer.done()]
        alone = next(filter(self._must_run_alone, self.waiting), None)
        if alone:
            self.waiting.remove(alone)
            return [alone]
        max_commands = min(MAX_BATCH_COMMANDS, max(MIN_BATCH_COMMANDS, -(-len(self.waiting) // lanes)))
        batch = self.waiting[:: max(1, len(self.waiting) // max_commands)][:max_commands]
        self.waiting = [waiting_command for waiting_command in self.waiting if waiting_command not in batch]
        return batch

    def _must_run_alone(self, waiting_command: _WaitingCommand) -> bool:
        return self.plain or waiting_command.tries >= MAX_BATCH_TRIES or not waiting_command.command.can_share_session

    def requeue(self, unstarted: Sequence[_WaitingCommand]) -> None:
        """Put unstarted commands back to the front."""
        for command in unstarted:
            command.tries += 1
        self.waiting[:0] = unstarted


class BatchingSshTransport:
    """`Transport` for read-only commands over a shared `ssh`, which its owner closes."""

    clock = "real"

    def __init__(self, ssh: SshTransport) -> None:
        self._ssh = ssh
        self._max_lanes = ssh.sessions
        self._queues: defaultdict[str, _HostQueue] = defaultdict(_HostQueue)

    async def run(self, host: str, argv: Sequence[str], *, timeout: float, cap: int) -> CommandResult:
        queue = self._queues[host]
        waiting_command = _WaitingCommand(BatchCommand(tuple(argv), timeout, cap), asyncio.get_running_loop().create_future())
        queue.waiting.append(waiting_command)
        if len(queue.lanes) < self._max_lanes:
            lane = asyncio.create_task(self._run_lane(host, queue))
            queue.lanes.add(lane)
            lane.add_done_callback(queue.lanes.discard)
        return await waiting_command.answer

    def reached(self, host: str) -> bool:
        return self._ssh.reached(host)

    async def aclose(self) -> None:
        lanes = [lane for queue in self._queues.values() for lane in queue.lanes]
        for queue in self._queues.values():
            for waiting_command in queue.waiting:
                waiting_command.answer.cancel()
        for lane in lanes:
            lane.cancel()
        await asyncio.gather(*lanes, return_exceptions=True)

    async def _run_lane(self, host: str, queue: _HostQueue) -> None:
        for _ in range(EVENT_LOOP_TURNS):
            await asyncio.sleep(0)
        while batch := queue.take_batch(self._max_lanes):
            session = asyncio.create_task(self._run_session(host, queue, batch))
            _cancel_when_unwanted(batch, session)
            try:
                await asyncio.wait({session})
            finally:
                session.cancel()
            await asyncio.gather(session, return_exceptions=True)

    async def _run_session(self, host: str, queue: _HostQueue, batch: Sequence[_WaitingCommand]) -> None:
        def set_result(index: int, result: CommandResult) -> None:
            if not batch[index].answer.done():
                batch[index].answer.set_result(result)

        try:
            if len(batch) == 1:
                [alone] = batch
                set_result(0, await self._ssh.run(host, alone.command.argv, timeout=alone.command.timeout, cap=alone.command.cap))
                return
            session_end = await self._ssh.run_batch(host, [waiting_command.command for waiting_command in batch], set_result)
        except Exception as error:  # callers get any exception; an unreachable host is not retried for queued commands
            queued = queue.waiting if isinstance(error, Unreachable) else []
            queue.waiting = [waiting_command for waiting_command in queue.waiting if waiting_command not in queued]
            for command in (*batch, *queued):
                if not command.answer.done():
                    command.answer.set_exception(error)
            return
        queue.plain = queue.plain or session_end.refused
        queue.requeue([waiting_command for waiting_command in batch if not waiting_command.answer.done()])


def _cancel_when_unwanted(batch: Sequence[_WaitingCommand], session: asyncio.Task[None]) -> None:
    """Cancel the session once all callers have left."""

    def cancel_if_unwanted(answer: asyncio.Future[CommandResult]) -> None:
        if answer.cancelled() and all(waiting_command.answer.done() for waiting_command in batch):
            session.cancel()

    for command in batch:
        command.answer.add_done_callback(cancel_if_unwanted)
