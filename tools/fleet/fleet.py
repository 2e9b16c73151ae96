"""Many checks on many hosts at once. Trouble becomes a fact, never an exception and never "healthy"; answers are kept for a while and shared."""

import asyncio
import inspect
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from tools.checks.row import BadSlot, Check, Command
from tools.clock import Clock
from tools.devices import name_devices
from tools.evidence import EvidenceStore
from tools.fact import Fact, Status
from tools.fleet.answers import LANES, Answer, Ask, Seen, Wave, makespan
from tools.fleet.commands import Commands
from tools.fleet.holds import Holds, LocalHolds
from tools.fleet.idle import Use
from tools.fleet.memory import Memory
from tools.fleet.permit import Looked, permit
from tools.fleet.ramp import Ramp
from tools.fleet.reading import OutputReader, boot_named, could_not, settled
from tools.fleet.skipped import no_tool, nothing_there, skipped
from tools.fleet.together import Hands, jointly
from tools.fleet.trouble import no_target
from tools.inventory.hosts import Host, Inventory
from tools.inventory.sku import Sku
from tools.transport import Barrier, Ran, Transport, Unreachable

FINISHED_AHEAD = 16
"""Hosts whose answers may wait for whoever reads them."""


@dataclass(frozen=True, slots=True)
class Request:
    """For whom hosts are looked at, and how: `fresh` takes no answer kept from before, `permitted` people allow GPUs in use to be used."""

    incident: str
    seen: Seen | None = None
    fresh: bool = False
    permitted: bool = False
    heard: set[str] = field(default_factory=set)
    """Hosts that have answered anything."""


@dataclass(frozen=True, slots=True)
class LookLimits:
    """Seconds that one command of a passive check may take at most, and after which a host that has not let us in is given up for this look
    where all others have answered."""

    command_seconds: float = 30.0
    silent_seconds: float = 5.0

    def within(self, check: Check) -> Check:
        """The check, its commands within the limit where it only looks."""
        return check if check.exclusive or check.timeout <= self.command_seconds else replace(check, timeout=self.command_seconds)


class Fleet:
    """Runs checks through a transport. `lifetime`: how long a passive answer may be re-used on the same boot of a host; `lanes`: commands
    that the transport runs at once on one host, for the makespan; `looks`: the way of passive checks, where they have one of their own;
    `limits`: how long looking waits."""

    def __init__(
        self,
        transport: Transport,
        inventory: Inventory,
        checks: Mapping[str, Check],
        evidence: EvidenceStore,
        clock: Clock,
        skus: Mapping[str, Sku] | None = None,
        lifetime: timedelta = timedelta(seconds=120),
        most_hosts: int = 256,
        holds: Holds | None = None,
        lanes: int = LANES,
        looks: Transport | None = None,
        limits: LookLimits | None = None,
    ) -> None:
        self._limits = limits or LookLimits()
        self._transport, self._looks, self._inventory = transport, looks or transport, inventory
        self._checks = {name: self._limits.within(check) for name, check in checks.items()}
        self._evidence, self._clock, self._skus = evidence, clock, skus or {}
        self._holds = holds or LocalHolds()
        self._commands, self._memory = Commands(transport, self._looks, self._skus), Memory(clock, lifetime)
        self._lanes = lanes
        self._most_hosts, self._hosts_at_once = most_hosts, Ramp(most_hosts)

    @property
    def checks(self) -> Mapping[str, Check]:
        """The catalogue it runs."""
        return self._checks

    @property
    def clock(self) -> str:
        """`virtual` where the transport's seconds are not real ones."""
        return str(getattr(self._transport, "clock", "real"))

    def forget(self, host: str) -> None:
        """Something changed on the host: nothing kept of it counts any more."""
        self._memory.forget(host)

    def outdate(self, hosts: Iterable[str], since: datetime) -> None:
        """Somebody reports something of these hosts: what was answered before then does not show it."""
        self._memory.outdate(hosts, since)

    async def look(
        self, incident: str, asks: Sequence[Ask], seen: Seen | None = None, *, fresh: bool = False, permitted: bool = False
    ) -> Wave:
        """Ask everything, hosts in parallel, `seen` called as each answer comes. `fresh` ignores answers kept from before.

        Exclusive checks run on idle GPUs only, unless people `permitted` them on GPUs in use.
        """
        self._memory.drop_old()
        request = Request(incident, seen, fresh, permitted)
        joint = [ask for ask in dict.fromkeys(asks) if self._checks[ask.check].together]
        alone = [ask for ask in asks if not self._checks[ask.check].together]
        answers = await self._all_hosts(request, self._by_host(alone))
        for name in dict.fromkeys(ask.check for ask in joint):
            answers += await self._jointly(request, self._checks[name], [ask.host for ask in joint if ask.check == name])
        return self._cost(tuple(answers))

    async def _all_hosts(self, request: Request, by_host: Mapping[str, list[Check]]) -> list[Answer]:
        """What every host answers. One that has not let us in yet is not waited for any longer once all others are done and its time is over;
        whatever was begun on a host is."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + self._limits.silent_seconds
        asking = {asyncio.create_task(self._host(request, host, checks)): host for host, checks in by_host.items()}
        try:
            waiting = set(asking)
            while waiting:
                late = request.heard and self._silent(asking[task] for task in waiting)
                left = max(0.0, ends - loop.time()) if late else None
                done, waiting = await asyncio.wait(waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                if late and not done and self._silent(asking[task] for task in waiting):
                    break
            return [answer for task, host in asking.items() for answer in await self._ended(task, request, host, by_host[host])]
        finally:
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)

    def _silent(self, hosts: Iterable[str]) -> bool:
        """Whether none of these hosts has let us in; never where the transport cannot tell."""
        reached: Callable[[str], bool] = getattr(self._looks, "reached", lambda host: True)
        return not any(map(reached, hosts))

    async def _ended(self, task: "asyncio.Task[list[Answer]]", request: Request, host: str, checks: Sequence[Check]) -> list[Answer]:
        if task.done():
            return task.result()
        why = f"no answer within {self._limits.silent_seconds:g} s, when all other hosts had answered"
        now = self._clock.now()
        return [await _told(could_not(host, check, Status.TIMEOUT, why, now, Barrier.SILENT), request) for check in checks]

    async def each(self, incident: str, asks: Sequence[Ask]) -> AsyncGenerator[tuple[Answer, ...]]:
        """All answers of one host after another, as hosts finish, devices named. Nothing is kept, so a large fleet costs no memory:
        a host is asked only when somebody takes the answers of those before it."""
        room = asyncio.Semaphore(self._most_hosts + FINISHED_AHEAD)
        finished: asyncio.Queue[asyncio.Task[list[Answer]]] = asyncio.Queue()
        request = Request(incident, fresh=True)

        async def ask(host: str, checks: list[Check]) -> list[Answer]:
            await room.acquire()
            answers = await self._host(request, host, checks)
            self.forget(host)
            return answers

        asking = {asyncio.create_task(ask(host, checks)) for host, checks in self._by_host(asks).items()}
        for task in asking:
            task.add_done_callback(finished.put_nowait)
        try:
            while asking:
                task = await finished.get()
                asking.discard(task)
                yield tuple(task.result())
                room.release()
        finally:
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)

    def _by_host(self, asks: Sequence[Ask]) -> dict[str, list[Check]]:
        by_host: dict[str, list[Check]] = {}
        for ask in dict.fromkeys(asks):
            by_host.setdefault(ask.host, []).append(self._checks[ask.check])
        return by_host

    async def _host(self, request: Request, host: str, checks: list[Check]) -> list[Answer]:
        """Passive checks at once, exclusive ones one after another."""
        async with self._hosts_at_once.slot():
            passive = [check for check in checks if not check.exclusive]
            answers = list(await asyncio.gather(*(self._tell(request, host, check) for check in passive)))
            for check in (check for check in checks if check.exclusive):
                answers.append(await _told(await self._alone(request, host, check), request))
            return self._named(host, answers)

    async def _tell(self, request: Request, host: str, check: Check) -> Answer:
        answer = await self._check(request, host, check)
        if not answer.could_not:
            request.heard.add(host)
        return await _told(answer, request)

    async def _alone(self, request: Request, host: str, check: Check) -> Answer:
        """An exclusive check of one host."""
        async with permit((host,), check, self._holds, None if request.permitted else self._looker(request)) as may:
            spent = may.seconds.get(host, 0.0)
            if not may.free:
                return self._skipped(host, check, may.uses[host], spent)
            answer = await self._check(request, host, check)
            return replace(answer, seconds=answer.seconds + spent)

    async def _jointly(self, request: Request, check: Check, hosts: Sequence[str]) -> list[Answer]:
        """A check of several hosts together."""
        now, reader = self._clock.now(), OutputReader(self._evidence, request.incident)
        hands = Hands(self._looker(request), self._looker(request, fresh=False), self._commands, reader)
        answers = await jointly(check, hosts, hands, self._inventory, self._skus, self._holds, now, permitted=request.permitted)
        return [await _told(self._dated(answer, now), request) for answer in answers]

    def _dated(self, answer: Answer, now: datetime) -> Answer:
        boot = self._memory.boot(answer.host)
        facts = (replace(fact, host=answer.host, time=fact.time or now, boot_id=fact.boot_id or boot) for fact in answer.facts)
        return replace(answer, facts=tuple(facts))

    def _skipped(self, host: str, check: Check, use: Use, seconds: float) -> Answer:
        fact = skipped(check, use.why or "busy", f"{check.id} was not run on {host}: {use.says}")
        return Answer(host, check.id, (fact.at(host, time=self._clock.now()),), seconds, fact.line)

    def _looker(self, request: Request, *, fresh: bool = True) -> Looked:
        """Passive checks for those who must know first; asked anew unless told otherwise."""
        own = replace(request, fresh=fresh)

        async def looked(host: str, name: str) -> tuple[Sequence[Fact], float]:
            if name not in self._checks:
                return (), 0.0
            answer = await self._check(own, host, self._checks[name])
            return answer.facts, answer.seconds

        return looked

    def _named(self, host: str, answers: list[Answer]) -> list[Answer]:
        """PCI addresses become gpuN and mlx5_N, by what nvidia-smi and ls said of this host now or lately, else by its SKU's bus table."""
        row = self._inventory.hosts.get(host)
        sku = self._skus.get(row.sku) if row else None
        kept = self._memory.names(host)
        facts = name_devices([*kept, *(fact for answer in answers for fact in answer.facts)], sku.bus if sku else ())[len(kept) :]
        named = []
        for answer in answers:
            named.append(replace(answer, facts=tuple(facts[: len(answer.facts)])))
            facts = facts[len(answer.facts) :]
        return named

    async def _check(self, request: Request, host: str, check: Check) -> Answer:
        """The answer as it is kept, or had now."""
        if not request.fresh and (kept := self._memory.recall(host, check.id)):
            return kept
        generation = self._memory.generation(host)
        answer = await self._run(request, host, check)
        if not answer.could_not and not check.exclusive:
            self._memory.keep(answer, generation)
        return answer

    async def _run(self, request: Request, host: str, check: Check) -> Answer:
        row = self._inventory.hosts.get(host)
        if row is None:
            return could_not(host, check, Status.UNREACHABLE, "not in the inventory", self._clock.now(), Barrier.SITE)
        try:
            rans = await self._commands.run_all(row, check)
        except Unreachable as why:
            return could_not(host, check, why.status, why.why, self._clock.now(), why.barrier)
        except BadSlot as why:
            return could_not(host, check, Status.DENIED, f"refused to put {why} on a command line", self._clock.now())
        return await self._read(request, row, check, rans)

    async def _read(self, request: Request, host: Host, check: Check, rans: Mapping[Command, Ran]) -> Answer:
        now = self._clock.now()
        seconds = sum(ran.seconds for ran in rans.values())
        if check.exclusive and (absent := no_tool(check, rans)):
            return Answer(host.name, check.id, (absent.at(host.name, time=now),), seconds, absent.line)
        # What finds out the boot dates by it itself; all else is of the boot known so far. A second copy of each would cost as much again.
        boot = "" if "host.boot_id" in check.establishes else self._memory.boot(host.name)
        found = [no_target(check, name) for name in self._commands.untargeted(host, check)]
        found += await OutputReader(self._evidence, request.incident).facts_of_all(host.name, check, rans, now, boot)
        answer = settled(host.name, check, found, now, self._memory.boot(host.name), seconds, nothing_there(check, rans))
        if boot := boot_named(answer.facts):
            self._memory.booted(host.name, boot)
        return answer

    def _cost(self, answers: tuple[Answer, ...]) -> Wave:
        ran = [answer for answer in answers if not answer.cached]
        by_host: dict[str, list[float]] = defaultdict(list)
        for answer in ran:
            by_host[answer.host].append(answer.seconds)
        exclusive = sum(a.seconds * self._gpus_of(a.host) for a in ran if self._checks[a.check].exclusive)
        return Wave(
            answers, sum(a.seconds for a in ran), max((makespan(spent, self._lanes) for spent in by_host.values()), default=0.0), exclusive
        )

    def _gpus_of(self, host: str) -> int:
        row = self._inventory.hosts.get(host)
        return self._commands.gpus(row) if row else 0


async def _told(answer: Answer, request: Request) -> Answer:
    told = request.seen(answer) if request.seen else None
    if inspect.isawaitable(told):
        await told
    return answer
