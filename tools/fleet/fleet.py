"""Run many checks on many hosts. Trouble becomes a fact, never an exception and never "healthy". Answers are cached."""

import asyncio
import inspect
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import islice

from tools.checks.check_types import BadSlot, Check, Command
from tools.clock import Clock
from tools.devices import name_devices
from tools.evidence import EvidenceStore
from tools.fact import Fact, Status
from tools.fleet.answer_cache import AnswerCache
from tools.fleet.answers import DEFAULT_LANES, AnswerCallback, CheckAnswer, CheckRequest, FleetAnswers, compute_makespan
from tools.fleet.check_runner import CommandRunner
from tools.fleet.gpu_permit import GpuReservations, LocalGpuReservations, RunPassiveCheck, reserve_idle_hosts
from tools.fleet.gpu_use import GpuUse
from tools.fleet.joint_checks import JointCheckContext, run_joint_check
from tools.fleet.output_reader import OutputReader, build_answer, build_unobserved_answer, find_boot_id
from tools.fleet.output_trouble import build_no_target_fact
from tools.fleet.skipped_checks import build_skipped_fact, find_missing_tool, find_nothing_installed
from tools.inventory.inventory import Host, Inventory
from tools.inventory.sku import Sku
from tools.limiter import Ramp
from tools.transport import AccessBarrier, CommandResult, Transport, Unreachable

MAX_FINISHED_HOSTS = 16  # hosts whose answers may wait for the consumer of `stream_host_answers`


@dataclass(frozen=True, slots=True)
class FleetRequest:
    """Options of one run. `permitted`: people allow exclusive checks on GPUs in use."""

    incident: str
    on_answer: AnswerCallback | None = None
    fresh: bool = False
    permitted: bool = False
    answered_hosts: set[str] = field(default_factory=set)  # hosts that have answered at least one check


@dataclass(frozen=True, slots=True)
class CheckLimits:
    """Limits in seconds.

    `command_seconds`: per command of a passive check. `silent_seconds`: until an unconnected host is given up once all
    others have answered.
    """

    command_seconds: float = 30.0
    silent_seconds: float = 5.0

    def apply_to(self, check: Check) -> Check:
        return check if check.exclusive or check.timeout <= self.command_seconds else replace(check, timeout=self.command_seconds)


class Fleet:
    """Run checks on the hosts of the inventory.

    `lifetime`: re-use of a passive answer on the same boot. `lanes`: concurrent commands per host, for the makespan.
    `passive_transport`: separate transport for passive checks. `limits`: bounds on waiting.
    """

    def __init__(
        self,
        transport: Transport,
        inventory: Inventory,
        checks: Mapping[str, Check],
        evidence: EvidenceStore,
        clock: Clock,
        skus: Mapping[str, Sku] | None = None,
        lifetime: timedelta = timedelta(seconds=120),
        max_hosts: int = 256,
        reservations: GpuReservations | None = None,
        lanes: int = DEFAULT_LANES,
        passive_transport: Transport | None = None,
        limits: CheckLimits | None = None,
    ) -> None:
        self._limits = limits or CheckLimits()
        self._transport = transport
        self._passive_transport = passive_transport or transport
        self._inventory = inventory
        self._checks = {name: self._limits.apply_to(check) for name, check in checks.items()}
        self._evidence = evidence
        self._clock = clock
        self._skus = skus or {}
        self._reservations = reservations or LocalGpuReservations()
        self._commands = CommandRunner(transport, self._passive_transport, self._skus)
        self._cache = AnswerCache(clock, lifetime)
        self._lanes = lanes
        self._max_hosts = max_hosts
        self._hosts_at_once = Ramp(max_hosts)

    @property
    def checks(self) -> Mapping[str, Check]:
        return self._checks

    @property
    def clock(self) -> str:
        """`virtual` if the transport's seconds are simulated."""
        return str(getattr(self._transport, "clock", "real"))

    def forget_host(self, host: str) -> None:
        """Drop the answers of a host that was changed."""
        self._cache.forget_host(host)

    def invalidate_before(self, hosts: Iterable[str], since: datetime) -> None:
        """Drop answers older than `since`, when people report a change on these hosts."""
        self._cache.invalidate_before(hosts, since)

    async def run_checks(
        self,
        incident: str,
        asks: Sequence[CheckRequest],
        on_answer: AnswerCallback | None = None,
        *,
        fresh: bool = False,
        permitted: bool = False,
    ) -> FleetAnswers:
        """Run all checks, hosts in parallel, and call `on_answer` with each answer.

        Exclusive checks run on idle GPUs only, unless people `permitted` them on GPUs in use.
        """
        self._cache.drop_expired()
        request = FleetRequest(incident, on_answer, fresh, permitted)
        joint = [ask for ask in dict.fromkeys(asks) if self._checks[ask.check].together]
        single = [ask for ask in asks if not self._checks[ask.check].together]
        answers = await self._ask_all_hosts(request, self._group_by_host(single))
        for name in dict.fromkeys(ask.check for ask in joint):
            answers += await self._run_joint(request, self._checks[name], [ask.host for ask in joint if ask.check == name])
        return self._build_fleet_answers(tuple(answers))

    async def _ask_all_hosts(self, request: FleetRequest, checks_by_host: Mapping[str, list[Check]]) -> list[CheckAnswer]:
        """Give up unconnected hosts after `silent_seconds` once all others are done; connected hosts run to their end."""
        loop = asyncio.get_running_loop()
        gives_up_at = loop.time() + self._limits.silent_seconds
        host_by_task = {asyncio.create_task(self._ask_host(request, host, checks)): host for host, checks in checks_by_host.items()}
        try:
            waiting = set(host_by_task)
            while waiting:
                are_silent = request.answered_hosts and self._are_unreached(host_by_task[task] for task in waiting)
                seconds_left = max(0.0, gives_up_at - loop.time()) if are_silent else None
                finished, waiting = await asyncio.wait(waiting, timeout=seconds_left, return_when=asyncio.FIRST_COMPLETED)
                if are_silent and not finished and self._are_unreached(host_by_task[task] for task in waiting):
                    break
            answers: list[CheckAnswer] = []
            for task, host in host_by_task.items():
                answers += await self._get_answers_or_give_up(task, request, host, checks_by_host[host])
            return answers
        finally:
            for task in host_by_task:
                task.cancel()
            await asyncio.gather(*host_by_task, return_exceptions=True)

    def _are_unreached(self, hosts: Iterable[str]) -> bool:
        """Return whether none of the hosts is connected; False if the transport cannot tell."""
        reached: Callable[[str], bool] = getattr(self._passive_transport, "reached", lambda host: True)
        return not any(map(reached, hosts))

    async def _get_answers_or_give_up(
        self, task: "asyncio.Task[list[CheckAnswer]]", request: FleetRequest, host: str, checks: Sequence[Check]
    ) -> list[CheckAnswer]:
        if task.done():
            return task.result()
        reason = f"no answer within {self._limits.silent_seconds:g} s, when all other hosts had answered"
        now = self._clock.now()
        return [
            await _report_answer(build_unobserved_answer(host, check, Status.TIMEOUT, reason, now, AccessBarrier.SILENT), request)
            for check in checks
        ]

    async def stream_host_answers(self, incident: str, asks: Sequence[CheckRequest]) -> AsyncGenerator[tuple[CheckAnswer, ...]]:
        """Yield all answers of one host at a time as hosts finish, devices named.

        Memory stays bounded for a large fleet: nothing is cached, and a host is asked only as the consumer takes
        earlier answers.
        """
        slots = asyncio.Semaphore(self._max_hosts + MAX_FINISHED_HOSTS)
        finished: asyncio.Queue[asyncio.Task[list[CheckAnswer]]] = asyncio.Queue()
        request = FleetRequest(incident, fresh=True)

        async def ask_host(host: str, checks: list[Check]) -> list[CheckAnswer]:
            await slots.acquire()
            answers = await self._ask_host(request, host, checks)
            self.forget_host(host)
            return answers

        running = {asyncio.create_task(ask_host(host, checks)) for host, checks in self._group_by_host(asks).items()}
        for task in running:
            task.add_done_callback(finished.put_nowait)
        try:
            while running:
                task = await finished.get()
                running.discard(task)
                yield tuple(task.result())
                slots.release()
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    def _group_by_host(self, asks: Sequence[CheckRequest]) -> dict[str, list[Check]]:
        checks_by_host: dict[str, list[Check]] = {}
        for ask in dict.fromkeys(asks):
            checks_by_host.setdefault(ask.host, []).append(self._checks[ask.check])
        return checks_by_host

    async def _ask_host(self, request: FleetRequest, host: str, checks: list[Check]) -> list[CheckAnswer]:
        """Run passive checks concurrently, then exclusive ones one after another."""
        async with self._hosts_at_once.slot():
            passive = [check for check in checks if not check.exclusive]
            answers = list(await asyncio.gather(*(self._run_and_report(request, host, check) for check in passive)))
            exclusive = [check for check in checks if check.exclusive]
            for check in exclusive:
                answers.append(await _report_answer(await self._run_exclusive(request, host, check), request))
            return self._name_devices(host, answers)

    async def _run_and_report(self, request: FleetRequest, host: str, check: Check) -> CheckAnswer:
        answer = await self._get_or_run(request, host, check)
        if not answer.could_not:
            request.answered_hosts.add(host)
        return await _report_answer(answer, request)

    async def _run_exclusive(self, request: FleetRequest, host: str, check: Check) -> CheckAnswer:
        async with reserve_idle_hosts(
            (host,), check, self._reservations, None if request.permitted else self._build_passive_runner(request)
        ) as permit:
            permit_seconds = permit.seconds.get(host, 0.0)
            if not permit.free:
                return self._build_skipped_answer(host, check, permit.uses[host], permit_seconds)
            answer = await self._get_or_run(request, host, check)
            return replace(answer, seconds=answer.seconds + permit_seconds)

    async def _run_joint(self, request: FleetRequest, check: Check, hosts: Sequence[str]) -> list[CheckAnswer]:
        now, reader = self._clock.now(), OutputReader(self._evidence, request.incident)
        context = JointCheckContext(
            self._build_passive_runner(request), self._build_passive_runner(request, fresh=False), self._commands, reader
        )
        answers = await run_joint_check(
            check, hosts, context, self._inventory, self._skus, self._reservations, now, permitted=request.permitted
        )
        return [await _report_answer(self._date_answer(answer, now), request) for answer in answers]

    def _date_answer(self, answer: CheckAnswer, now: datetime) -> CheckAnswer:
        boot = self._cache.get_boot_id(answer.host)
        facts = (replace(fact, host=answer.host, time=fact.time or now, boot_id=fact.boot_id or boot) for fact in answer.facts)
        return replace(answer, facts=tuple(facts))

    def _build_skipped_answer(self, host: str, check: Check, use: GpuUse, seconds: float) -> CheckAnswer:
        fact = build_skipped_fact(check, use.why or "busy", f"{check.id} was not run on {host}: {use.says}")
        return CheckAnswer(host, check.id, (fact.locate(host, time=self._clock.now()),), seconds, fact.line)

    def _build_passive_runner(self, request: FleetRequest, *, fresh: bool = True) -> RunPassiveCheck:
        runner_request = replace(request, fresh=fresh)

        async def run_passive(host: str, name: str) -> tuple[Sequence[Fact], float]:
            if name not in self._checks:
                return (), 0.0
            answer = await self._get_or_run(runner_request, host, self._checks[name])
            return answer.facts, answer.seconds

        return run_passive

    def _name_devices(self, host: str, answers: list[CheckAnswer]) -> list[CheckAnswer]:
        """Rename PCI addresses to gpuN and mlx5_N by this host's facts, new or cached, else by its SKU's bus table."""
        known_host = self._inventory.hosts.get(host)
        sku = self._skus.get(known_host.sku) if known_host else None
        naming_facts = self._cache.list_naming_facts(host)
        new_facts = [fact for answer in answers for fact in answer.facts]
        renamed_facts = iter(name_devices([*naming_facts, *new_facts], sku.bus if sku else ())[len(naming_facts) :])
        return [replace(answer, facts=tuple(islice(renamed_facts, len(answer.facts)))) for answer in answers]

    async def _get_or_run(self, request: FleetRequest, host: str, check: Check) -> CheckAnswer:
        if not request.fresh and (cached := self._cache.get_answer(host, check.id)):
            return cached
        generation = self._cache.get_generation(host)
        answer = await self._run_check(request, host, check)
        if not answer.could_not and not check.exclusive:
            self._cache.put_answer(answer, generation)
        return answer

    async def _run_check(self, request: FleetRequest, host: str, check: Check) -> CheckAnswer:
        known_host = self._inventory.hosts.get(host)
        if known_host is None:
            return build_unobserved_answer(host, check, Status.UNREACHABLE, "not in the inventory", self._clock.now(), AccessBarrier.SITE)
        try:
            results = await self._commands.run_all(known_host, check)
        except Unreachable as error:
            return build_unobserved_answer(host, check, error.status, error.why, self._clock.now(), error.barrier)
        except BadSlot as error:
            return build_unobserved_answer(host, check, Status.DENIED, f"refused to put {error} on a command line", self._clock.now())
        return await self._read_answer(request, known_host, check, results)

    async def _read_answer(self, request: FleetRequest, host: Host, check: Check, results: Mapping[Command, CommandResult]) -> CheckAnswer:
        now = self._clock.now()
        seconds = sum(result.seconds for result in results.values())
        if check.exclusive and (missing_tool := find_missing_tool(check, results)):
            return CheckAnswer(host.name, check.id, (missing_tool.locate(host.name, time=now),), seconds, missing_tool.line)
        # The check that reads the boot id dates its own facts; all others belong to the known boot.
        # Dating them here saves a second copy of each.
        boot = "" if "host.boot_id" in check.establishes else self._cache.get_boot_id(host.name)
        facts = [build_no_target_fact(check, name) for name in self._commands.list_missing_targets(host, check)]
        facts += await OutputReader(self._evidence, request.incident).read_check_facts(host.name, check, results, now, boot)
        answer = build_answer(
            host.name, check, facts, now, self._cache.get_boot_id(host.name), seconds, find_nothing_installed(check, results)
        )
        if boot := find_boot_id(answer.facts):
            self._cache.set_boot_id(host.name, boot)
        return answer

    def _build_fleet_answers(self, answers: tuple[CheckAnswer, ...]) -> FleetAnswers:
        fresh_answers = [answer for answer in answers if not answer.cached]
        seconds_by_host: dict[str, list[float]] = defaultdict(list)
        for answer in fresh_answers:
            seconds_by_host[answer.host].append(answer.seconds)
        exclusive_answers = [answer for answer in fresh_answers if self._checks[answer.check].exclusive]
        return FleetAnswers(
            answers,
            check_seconds=sum(answer.seconds for answer in fresh_answers),
            makespan_seconds=max((compute_makespan(seconds, self._lanes) for seconds in seconds_by_host.values()), default=0.0),
            exclusive_gpu_seconds=sum(answer.seconds * self._get_gpu_count(answer.host) for answer in exclusive_answers),
        )

    def _get_gpu_count(self, host: str) -> int:
        known_host = self._inventory.hosts.get(host)
        return self._commands.get_gpu_count(known_host) if known_host else 0


async def _report_answer(answer: CheckAnswer, request: FleetRequest) -> CheckAnswer:
    callback_result = request.on_answer(answer) if request.on_answer else None
    if inspect.isawaitable(callback_result):
        await callback_result
    return answer
