"""Third node: asks the fleet and keeps what it answers. While looking it listens: "stop" ends the wave, news ends the turn after it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import structlog
from langgraph.runtime import Runtime

from graph.engine.after_repairs import after_repairs, after_treatments, cursors
from graph.engine.assess import assess
from graph.engine.peers import PAST, PEER, ROWS, from_memory
from graph.incident.case import Case, kind_of, lens_of, merged, read_case
from graph.ports import Awaited, Likely, Ports, Progress
from graph.reading.counts import silent_hosts
from graph.reasoning.receipts import Receipts
from graph.state import Incident, ItemKind, Stats
from tools.fact import Fact, Status
from tools.fleet.answers import Answer, Ask, Wave
from tools.inventory.ranges import fold

log = structlog.get_logger()
ENDS: frozenset[ItemKind] = frozenset({"stop", "hand_off", "close"})
NEWS: frozenset[ItemKind] = frozenset({"reply", "attach", "recheck"})
MOST_PEERS = 16
"""Hosts of a group that are remembered at once, to compare one with that was looked at alone."""
LISTEN_EVERY = 8
"""Answers between two looks at the inbox."""
OF_NO_NAME = frozenset({"rackmedic-look", "python3"})
"""Commands that say nothing of what a check asks: it goes by its own name."""


async def execute(state: Incident, runtime: Runtime[Ports]) -> dict[str, Any]:
    """One wave."""
    ports = runtime.context
    case = await read_case(state, ports)
    asks = [Ask(host, check) for host, check in case.asks]
    cut = await waiting(case, ports)
    if cut in ENDS or not asks:
        return {"turn": replace(case.turn, cut=cut).write(), "to_look": []}
    ports.fleet.outdate({ask.host for ask in asks}, case.item.at)
    live = LiveWave(case, ports, total=len(asks))
    wave = await live.look(asks, fresh=bool(case.turn.again) or ((case.kind == "recheck" or case.turn.news) and case.rounds <= 1))
    cut = live.cut or await waiting(case, ports)
    facts = await beside_memory(await of_now(case, told(wave), ports), ports)
    return {
        "facts": await ports.evidence.put_facts(case.id, facts),
        "receipts": await _received(case, wave, ports),
        "stats": _added(case.stats, wave, ports, facts).model_dump(mode="json", exclude_defaults=True),
        "turn": replace(case.turn, cut=cut).write(),
        "to_look": [],
    }


async def _received(case: Case, wave: Wave, ports: Ports) -> str:
    """What was answered so far, as it came: digest of the receipts."""
    before = await ports.evidence.get(sha256) if (sha256 := case.stored.get("receipts", "")) else None
    return await ports.evidence.put(case.id, Receipts.read(before or "").after(wave).text())


async def of_now(case: Case, new: Sequence[Fact], ports: Ports) -> list[Fact]:
    """What is known with what was just seen; what tells of a fault that was mended since, here or in another thread, marked so."""
    facts = after_repairs(merged(case.facts, new), cursors(case.ladders))
    return after_treatments(facts, await ports.treated({fact.host for fact in facts if fact.host}))


async def beside_memory(facts: list[Fact], ports: Ports) -> list[Fact]:
    """With what the hosts have otherwise than earlier incidents saw, of themselves and of their peers."""
    rows, here = ports.inventory.hosts, {fact.host for fact in facts if fact.key == ROWS}
    groups = {rows[host].group for host in here if host in rows}
    peers = [name for name, row in rows.items() if row.group in groups and name not in here][:MOST_PEERS]
    remembered = await ports.remembered([*here, *peers]) if here else {}
    if not remembered:
        return facts
    known = [fact for fact in facts if fact.key != PAST and not (fact.key == PEER and fact.host in here)]
    return [*known, *from_memory(known, remembered, kind_of(ports.inventory))]


def told(wave: Wave) -> list[Fact]:
    """The facts of a wave; an answer without any still says that somebody looked."""
    silent = [Fact(answer.check, "", status=Status.ABSENT, host=answer.host) for answer in wave.answers if not answer.facts]
    return [*wave.facts, *silent]


async def waiting(case: Case, ports: Ports) -> str:
    """The kind of what waits in the inbox and should end this turn early; empty when nothing does."""
    done = {case.item.id, *case.done_items}
    kinds = [item.kind for item in await ports.peek(case.id) if item.id not in done]
    return next((kind for kind in kinds if kind in ENDS), next((kind for kind in kinds if kind in NEWS), ""))


@dataclass(slots=True)
class LiveWave:
    """A wave under way: counts answers, tells them to whoever watches, and listens for "stop". While it waits it tells for whom, and what is
    likely by then."""

    case: Case
    ports: Ports
    total: int
    answers: list[Answer] = field(default_factory=list)
    cut: str = ""
    _likely: Likely | None = None
    _weighed: int = 0
    _stopped: asyncio.Event = field(default_factory=asyncio.Event)

    async def look(self, asks: Sequence[Ask], *, fresh: bool) -> Wave:
        """All answers, or those that had come when somebody said stop."""
        began = self.ports.clock.now()
        looking = asyncio.ensure_future(self.ports.fleet.look(self.case.id, asks, self._seen, fresh=fresh))
        stopped = asyncio.ensure_future(self._stopped.wait())
        try:
            while not (await asyncio.wait({looking, stopped}, timeout=self.ports.tell_every, return_when=asyncio.FIRST_COMPLETED))[0]:
                await self._still(asks, int((self.ports.clock.now() - began).total_seconds()))
            if looking.done():
                return looking.result()
            return Wave(tuple(self.answers), check_seconds=sum(answer.seconds for answer in self.answers))
        finally:
            for task in (looking, stopped):
                task.cancel()
            await asyncio.wait({looking, stopped})  # not awaited one by one: a look that broke must not leave the other behind

    async def _still(self, asks: Sequence[Ask], seconds: int) -> None:
        """Say who is waited for. Trouble with saying it is no trouble of the look's."""
        try:
            if len(self.answers) > self._weighed:
                self._weighed = len(self.answers)
                self._likely = await asyncio.to_thread(likely_by, self.case, self.ports, tuple(self.answers))
            awaited = awaited_of(asks, self.answers, self.ports)
            news = Progress(self.case.id, "execute", done=len(self.answers), total=self.total, awaited=awaited, seconds=seconds)
            await self.ports.progress(replace(news, likely=self._likely))
        except Exception as why:
            log.warning("execute.not_told", error=f"{type(why).__name__}: {why}"[:200])

    async def _seen(self, answer: Answer) -> None:
        self.answers.append(answer)
        done = len(self.answers)
        asks = self.ports.fleet.checks[answer.check].asks
        line = f"{answer.host} {answer.check}: could not look, {answer.could_not[:80]}" if answer.could_not else f"{answer.host}: {asks}"
        ran = None if answer.cached else (answer.host, answer.check)
        await self.ports.progress(Progress(self.case.id, "execute", line, done=done, total=self.total, ran=ran))
        if done % LISTEN_EVERY == 0 and not self.cut:
            heard = await waiting(self.case, self.ports)
            if heard in ENDS:
                self.cut = heard
                self._stopped.set()


def awaited_of(asks: Sequence[Ask], answers: Sequence[Answer], ports: Ports) -> tuple[Awaited, ...]:
    """Who has not answered yet, by what they were asked with; those with most hosts first."""
    came = {(answer.host, answer.check) for answer in answers}
    hosts: dict[str, list[str]] = {}
    for ask in asks:
        if (ask.host, ask.check) not in came:
            hosts.setdefault(_asked_with(ask.check, ports), []).append(ask.host)
    rows = sorted(hosts.items(), key=lambda row: -len(row[1]))
    return tuple(Awaited(fold(names), asked) for asked, names in rows)


def _asked_with(check: str, ports: Ports) -> str:
    tool = ports.fleet.checks[check].commands[0].argv[0].rpartition("/")[2]
    return check if tool in OF_NO_NAME else tool


def likely_by(case: Case, ports: Ports, answers: Sequence[Answer]) -> Likely | None:
    """The first cause that these answers prove already; for display only, as devices have no names before a host is through."""
    facts = after_repairs(merged(case.facts, told(Wave(tuple(answers)))), cursors(case.ladders))
    now = assess(facts, lens_of(ports, facts), case.hosts, case.turn.priors, case.onset, case.brief.symptoms)
    causes = now.root_causes()
    if not causes:
        return None
    where = f" on {fold(causes[0].hosts)}" if causes[0].hosts else ""
    return Likely(causes[0].label, f"{ports.taxonomy.title(causes[0].label)}{where}")


def _added(old: Stats, wave: Wave, ports: Ports, facts: Sequence[Fact]) -> Stats:
    """Cost so far with this wave's."""
    return old.model_copy(
        update={
            "hosts": len({fact.host for fact in facts if fact.host}),
            "silent": silent_hosts(facts),
            "checks": old.checks + wave.checks,
            "check_seconds": round(old.check_seconds + wave.check_seconds, 3),
            "makespan_seconds": round(old.makespan_seconds + wave.makespan_seconds, 3),
            "exclusive_gpu_seconds": round(old.exclusive_gpu_seconds + wave.exclusive_gpu_seconds, 3),
            "clock": "virtual" if ports.fleet.clock == "virtual" else "real",
        }
    )
