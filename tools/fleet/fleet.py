"""Many checks on many hosts at once. Trouble becomes a fact, never an exception and never "healthy"; answers are kept for a while and shared."""

import asyncio
import inspect
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial

from tools.checks.row import BadSlot, Check, Command
from tools.clock import Clock
from tools.devices import name_devices
from tools.evidence import EvidenceStore
from tools.fact import Fact, Status, blind
from tools.fleet.answers import Answer, Ask, Seen, Wave, makespan
from tools.fleet.holds import Holds, LocalHolds
from tools.fleet.idle import Use
from tools.fleet.permit import Looked, permit
from tools.fleet.skipped import no_tool, skipped
from tools.fleet.together import Hands, Heard, jointly
from tools.fleet.trouble import broke_off, no_target, trouble_of
from tools.inventory.hosts import Host, Inventory
from tools.inventory.sku import Sku
from tools.transport import Ran, Transport, Unreachable

LOOK = ("sudo", "-n", "/usr/local/sbin/rackmedic-look")
"""How privileged commands are asked for where the node kit is installed. sudoers names this path and nothing else."""

FINISHED_AHEAD = 16
"""Hosts whose answers may wait for whoever reads them."""


@dataclass(slots=True)
class _Kept:
    answer: Answer
    until: datetime


@dataclass(slots=True)
class _HostMind:
    """What the fleet remembers of a host between looks."""

    boot_id: str = ""
    generation: int = 0
    kept: dict[str, _Kept] = field(default_factory=dict)


class Fleet:
    """Runs checks through a transport. `lifetime`: how long a passive answer may be re-used on the same boot of a host."""

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
    ) -> None:
        self._transport, self._inventory, self._checks = transport, inventory, checks
        self._evidence, self._clock, self._skus, self._lifetime = evidence, clock, skus or {}, lifetime
        self._holds = holds or LocalHolds()
        self._minds: dict[str, _HostMind] = {}
        self._most_hosts, self._hosts_at_once = most_hosts, asyncio.Semaphore(most_hosts)

    @property
    def checks(self) -> Mapping[str, Check]:
        """The catalogue it runs."""
        return self._checks

    @property
    def clock(self) -> str:
        """`virtual` where the transport's seconds are not real ones."""
        return str(getattr(self._transport, "clock", "real"))

    async def look(
        self, incident: str, asks: Sequence[Ask], seen: Seen | None = None, *, fresh: bool = False, permitted: bool = False
    ) -> Wave:
        """Ask everything, hosts in parallel, `seen` called as each answer comes. `fresh` ignores answers kept from before.

        Exclusive checks run on idle GPUs only, unless people `permitted` them on GPUs in use.
        """
        self._drop_old()
        joint = [ask for ask in dict.fromkeys(asks) if self._checks[ask.check].together]
        alone = [ask for ask in asks if not self._checks[ask.check].together]
        hosts = self._by_host(alone).items()
        waves = await asyncio.gather(*(self._host(incident, host, checks, seen, fresh, permitted) for host, checks in hosts))
        answers = [answer for wave in waves for answer in wave]
        for name in dict.fromkeys(ask.check for ask in joint):
            answers += await self._jointly(incident, self._checks[name], [ask.host for ask in joint if ask.check == name], seen, permitted)
        return self._cost(tuple(answers))

    async def each(self, incident: str, asks: Sequence[Ask]) -> AsyncGenerator[tuple[Answer, ...]]:
        """All answers of one host after another, as hosts finish, devices named. Nothing is kept, so a large fleet costs no memory:
        a host is asked only when somebody takes the answers of those before it."""
        room = asyncio.Semaphore(self._most_hosts + FINISHED_AHEAD)
        finished: asyncio.Queue[asyncio.Task[list[Answer]]] = asyncio.Queue()

        async def ask(host: str, checks: list[Check]) -> list[Answer]:
            await room.acquire()
            async with self._hosts_at_once:
                answers = await self._answers(incident, host, checks, None, True)
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

    def _drop_old(self) -> None:
        """What nobody may re-use any more is not held."""
        now = self._clock.now()
        for mind in self._minds.values():
            mind.kept = {check: kept for check, kept in mind.kept.items() if kept.until > now}

    def forget(self, host: str) -> None:
        """Something changed on the host: nothing kept of it counts any more."""
        mind = self._minds.setdefault(host, _HostMind())
        mind.kept.clear()
        mind.generation += 1

    def outdate(self, hosts: Iterable[str], since: datetime) -> None:
        """Somebody reports something of these hosts: what was answered before then does not show it."""
        for mind in (self._minds[host] for host in hosts if host in self._minds):
            mind.kept = {check: kept for check, kept in mind.kept.items() if kept.until - self._lifetime >= since}

    async def _host(
        self, incident: str, host: str, checks: list[Check], seen: Seen | None, fresh: bool, permitted: bool = False
    ) -> list[Answer]:
        async with self._hosts_at_once:
            return await self._answers(incident, host, checks, seen, fresh, permitted)

    async def _answers(
        self, incident: str, host: str, checks: list[Check], seen: Seen | None, fresh: bool, permitted: bool = False
    ) -> list[Answer]:
        passive = [check for check in checks if not check.exclusive]
        answers = list(await asyncio.gather(*(self._tell(incident, host, c, seen, fresh) for c in passive)))
        for check in (check for check in checks if check.exclusive):
            answers.append(await self._told(await self._alone(incident, host, check, permitted), seen))
        return self._named(host, answers)

    async def _alone(self, incident: str, host: str, check: Check, permitted: bool) -> Answer:
        """An exclusive check of one host."""
        async with permit((host,), check, self._holds, None if permitted else self._looker(incident)) as may:
            spent = may.seconds.get(host, 0.0)
            if not may.free:
                return self._skipped(host, check, may.uses[host], spent)
            answer = await self._check(incident, host, check, True)
            return replace(answer, seconds=answer.seconds + spent)

    async def _jointly(self, incident: str, check: Check, hosts: Sequence[str], seen: Seen | None, permitted: bool) -> list[Answer]:
        """A check of several hosts together."""
        now = self._clock.now()
        hands = Hands(self._looker(incident), self._looker(incident, fresh=False), self._command, partial(self._facts_of, incident))
        heard = await jointly(check, hosts, hands, self._inventory, self._skus, self._holds, now, permitted=permitted)
        return [await self._told(self._answer_of(host, check, row, now), seen) for host, row in heard.items()]

    def _answer_of(self, host: str, check: Check, heard: Heard, now: datetime) -> Answer:
        boot = self._minds.setdefault(host, _HostMind()).boot_id
        facts = tuple(replace(fact, host=host, time=fact.time or now, boot_id=fact.boot_id or boot) for fact in heard.facts)
        return Answer(host, check.id, facts, heard.seconds, heard.could_not)

    def _skipped(self, host: str, check: Check, use: Use, seconds: float) -> Answer:
        fact = skipped(check, use.why or "busy", f"{check.id} was not run on {host}: {use.says}")
        return Answer(host, check.id, (fact.at(host, time=self._clock.now()),), seconds, fact.line)

    def _looker(self, incident: str, *, fresh: bool = True) -> Looked:
        async def looked(host: str, name: str) -> tuple[Sequence[Fact], float]:
            if name not in self._checks:
                return (), 0.0
            answer = await self._check(incident, host, self._checks[name], fresh)
            return answer.facts, answer.seconds

        return looked

    def _named(self, host: str, answers: list[Answer]) -> list[Answer]:
        """PCI addresses become gpuN and mlx5_N, by what nvidia-smi and ls said of this host now or lately, else by its SKU's bus table."""
        row = self._inventory.hosts.get(host)
        sku = self._skus.get(row.sku) if row else None
        kept = (
            [fact for k in self._minds[host].kept.values() for fact in k.answer.facts if fact.key in ("gpu.bdf", "ib.bdf")]
            if host in self._minds
            else []
        )
        facts = name_devices([*kept, *(fact for answer in answers for fact in answer.facts)], sku.bus if sku else ())[len(kept) :]
        named = []
        for answer in answers:
            named.append(replace(answer, facts=tuple(facts[: len(answer.facts)])))
            facts = facts[len(answer.facts) :]
        return named

    async def _tell(self, incident: str, host: str, check: Check, seen: Seen | None, fresh: bool) -> Answer:
        return await self._told(await self._check(incident, host, check, fresh), seen)

    @staticmethod
    async def _told(answer: Answer, seen: Seen | None) -> Answer:
        told = seen(answer) if seen else None
        if inspect.isawaitable(told):
            await told
        return answer

    async def _check(self, incident: str, host: str, check: Check, fresh: bool) -> Answer:
        mind = self._minds.setdefault(host, _HostMind())
        kept = mind.kept.get(check.id)
        if kept and not fresh and kept.until > self._clock.now():
            return replace(kept.answer, cached=True, seconds=0.0)
        generation = mind.generation
        answer = await self._run(incident, host, check)
        if generation == mind.generation and not answer.could_not and not check.exclusive:
            mind.kept[check.id] = _Kept(answer, self._clock.now() + self._lifetime)
        return answer

    async def _run(self, incident: str, host: str, check: Check) -> Answer:
        row = self._inventory.hosts.get(host)
        if row is None:
            return _could_not(host, check, Status.UNREACHABLE, "not in the inventory", self._clock.now())
        try:
            slots = self._slots(row)
            asked = [command for command in check.commands if not command.untargeted(slots)]
            if check.exclusive or len(asked) == 1:
                rans = [await self._command(row, check, command) for command in asked]
            else:
                rans = await asyncio.gather(*(self._command(row, check, command) for command in asked))
        except Unreachable as why:
            return _could_not(host, check, why.status, why.why, self._clock.now())
        except BadSlot as why:
            return _could_not(host, check, Status.DENIED, f"refused to put {why} on a command line", self._clock.now())
        return await self._read(incident, row, check, dict(zip(asked, rans, strict=True)))

    def _slots(self, host: Host) -> dict[str, str]:
        """What the inventory fills in."""
        return {
            "object_store": host.object_store,
            "tracker": host.tracker,
            "job_logs": host.job_logs,
            "nccl_tests": host.nccl_tests,
            "gpu_burn": host.gpu_burn,
            "gpus": str(self._gpus(host)),
            "node": host.name.partition(".")[0],
        }

    async def _command(self, host: Host, check: Check, command: Command, more: Mapping[str, str] | None = None) -> Ran:
        slots = {**(more or {}), **self._slots(host)}
        argv = (*LOOK, f"{check.id}.{command.name}") if command.privileged and host.kit else command.fill(slots)
        return await self._transport.run(host.name, argv, timeout=check.timeout, cap=check.cap)

    def _gpus(self, host: Host) -> int:
        sku = self._skus.get(host.sku)
        return sku.gpus if sku else 8

    async def _read(self, incident: str, host: Host, check: Check, rans: Mapping[Command, Ran]) -> Answer:
        now = self._clock.now()
        seconds = sum(ran.seconds for ran in rans.values())
        if check.exclusive and (absent := no_tool(check, list(rans.values()))):
            return Answer(host.name, check.id, (absent.at(host.name, time=now),), seconds, absent.line)
        found = [no_target(check, name) for command in check.commands if (name := command.untargeted(self._slots(host)))]
        # What finds out the boot dates by it itself; all else is of the boot known so far. A second copy of each would cost as much again.
        boot = "" if "host.boot_id" in check.establishes else self._minds.setdefault(host.name, _HostMind()).boot_id
        for command, ran in rans.items():
            found += await self._facts_of(incident, host, check, command, ran, now, boot)
        facts = check.settle(_distinct(found)) if check.settle else _distinct(found)
        boot = next((str(f.value) for f in facts if f.key == "host.boot_id" and f.value), "")
        if boot:
            self._booted(host.name, boot)
        known = boot or self._minds.setdefault(host.name, _HostMind()).boot_id
        dated = tuple(
            f if f.host and (f.boot_id or not known) else f.at(host.name, time=now, boot_id=f.boot_id or known, sha256=f.sha256)
            for f in facts
        )
        blinds = [f.line for f in dated if not f.key and f.status.blind]
        return Answer(host.name, check.id, dated, seconds, could_not="; ".join(dict.fromkeys(blinds)))

    async def _facts_of(
        self, incident: str, host: Host, check: Check, command: Command, ran: Ran, now: datetime, boot_id: str = ""
    ) -> Iterable[Fact]:
        trouble = trouble_of(check, command, ran)
        text = ran.text + ("\n" + ran.stderr.decode("utf-8", "replace") if ran.stderr else "")
        sha = await self._evidence.put(incident, text) if text.strip() else ""
        facts = [trouble] if trouble else []
        if check.statuses is not None and (trouble or ran.exit_status not in check.statuses):
            facts = facts or [
                blind(check.id, Status.UNREADABLE, f"{check.id}.{command.name}: exit status {ran.exit_status}: {text.strip()[:200]}")
            ]
        elif broke_off(ran) and not check.exclusive:
            facts += check.read(ran.text[: ran.text.rfind("\n") + 1]) if check.partial and "\n" in ran.text else ()
        elif ran.stdout.strip() or (trouble is None and text.strip() and ran.exit_status not in (126, 127)):
            facts += check.read(text)
        return [fact.at(host.name, time=now, boot_id=fact.boot_id or boot_id, sha256=sha) for fact in facts]

    def _booted(self, host: str, boot_id: str) -> None:
        """A new boot id makes everything kept from the boot before worthless."""
        mind = self._minds.setdefault(host, _HostMind())
        if mind.boot_id and mind.boot_id != boot_id:
            mind.kept.clear()
        mind.boot_id = boot_id

    def _cost(self, answers: tuple[Answer, ...]) -> Wave:
        ran = [answer for answer in answers if not answer.cached]
        by_host: dict[str, list[float]] = defaultdict(list)
        for answer in ran:
            by_host[answer.host].append(answer.seconds)
        exclusive = sum(a.seconds * self._gpus_of(a.host) for a in ran if self._checks[a.check].exclusive)
        return Wave(answers, sum(a.seconds for a in ran), max(map(makespan, by_host.values()), default=0.0), exclusive)

    def _gpus_of(self, host: str) -> int:
        row = self._inventory.hosts.get(host)
        return self._gpus(row) if row else 0


def _distinct(facts: Sequence[Fact]) -> list[Fact]:
    """Without the repeats that come of several commands printing the same thing."""
    seen: dict[tuple[object, ...], Fact] = {}
    for fact in facts:
        attrs = repr(fact.attrs) if fact.attrs else ""
        seen.setdefault((fact.key, fact.device, repr(fact.value), fact.status, fact.line, fact.time, fact.boot_id, attrs), fact)
    return list(seen.values())


def _could_not(host: str, check: Check, status: Status, why: str, now: datetime) -> Answer:
    return Answer(host, check.id, (replace(blind(check.id, status, why, host), time=now),), could_not=why)
