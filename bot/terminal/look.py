"""`rackmedic look`: any checks on any hosts, folded by what differs or as JSON lines. Looks only; keeps nothing; changes nothing."""

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from bot.refusal import Refusal
from bot.run.world import World
from bot.settings import Settings
from bot.terminal.catalogues import fact_row
from bot.terminal.differences import Differences
from bot.terminal.edge import tell
from bot.terminal.heat import heat_table, write
from bot.terminal.job import jobs_hosts
from bot.terminal.paper import Paper, json_line, paper
from bot.terminal.requests import LookRequest
from bot.terminal.shared import looking, refuse_without_inventory, stage_of
from kb.keys import find
from kb.redact import redact
from tools.checks.row import Check
from tools.fact import Value
from tools.fleet.answers import Answer, Ask
from tools.fleet.fleet import Fleet
from tools.fleet.reading import is_not_seen
from tools.heat import Heat
from tools.inventory.ranges import BadRange, fold


async def look_once(settings: Settings, request: LookRequest) -> int:
    """Open the world, ask, print; the exit code. Raises Refusal for what cannot be asked."""
    refuse_without_inventory(settings, request.inventory, request.case)
    async with looking(settings, request.inventory, stage_of(request.case)) as world:
        return await look_at(world, request)


async def look_at(world: World, request: LookRequest) -> int:
    """Ask and print; 1 when nothing at all could be looked at. Raises Refusal."""
    hosts, checks = _hosts(world, await _ranges(world, request.hosts)), _checks(world.ports.fleet, request)
    show = _Lines() if request.as_json else _Screen(world, hosts, checks, Heat(request.heat, hosts) if request.heat else None)
    with show:
        async for answer in _answers(world, hosts, checks):
            show.add(answer)
    if request.out and isinstance(show, _Screen) and show.heat:
        Paper(stderr=True).print(Text(_drawn(show.heat, request.out)))
    return int(not show.looked)


def _drawn(heat: Heat, out: Path) -> str:
    """What became of the picture: there is none of nothing."""
    if heat.spread() is None:
        return f"no heat map: {heat.key} was read nowhere"
    write(heat, out)
    return f"heat map written to {out}"


async def _ranges(world: World, hosts: str) -> str:
    """`job:4711` is what the scheduler says its hosts are."""
    return await jobs_hosts(world, hosts.removeprefix("job:")) if hosts.startswith("job:") else hosts


def _hosts(world: World, ranges: str) -> tuple[str, ...]:
    try:
        return tuple(host.name for host in world.ports.inventory.pick(ranges))
    except BadRange as why:
        raise Refusal(f"{why}; hosts and groups are those of the inventory", 2) from why


def _checks(fleet: Fleet, request: LookRequest) -> tuple[Check, ...]:
    """The checks to run; Refusal names every reason why not."""
    unknown = [name for name in request.checks if name not in fleet.checks]
    if unknown:
        raise Refusal(f"there is no check {', '.join(map(repr, unknown))}; known: {' '.join(fleet.checks)}", 2)
    if request.heat and ((row := find(request.heat)) is None or row.kind not in ("int", "float") or row.scope != "gpu"):
        raise Refusal(f"--heat {request.heat}: is no number of a GPU; for example gpu.temp.core, gpu.ecc.dram_correctable_total", 2)
    named = [fleet.checks[name] for name in dict.fromkeys(request.checks)]
    if not named:
        named = [check for check in fleet.checks.values() if not check.exclusive and check.scope == "host"]
        named = [check for check in named if not request.heat or request.heat in check.establishes]
    _refuse_exclusive(named, request)
    return tuple(named)


def _refuse_exclusive(checks: Sequence[Check], request: LookRequest) -> None:
    exclusive = [check.id for check in checks if check.exclusive]
    if exclusive and not request.exclusive:
        raise Refusal(f"{' '.join(exclusive)}: takes whole GPUs away from whoever uses them; say --exclusive to run it on idle hosts", 2)


async def _answers(world: World, hosts: Sequence[str], checks: Sequence[Check]) -> AsyncIterator[Answer]:
    """Everything asked, as hosts finish. Exclusive checks come last; the fleet runs them only where nobody uses the GPUs."""
    passive = [check for check in checks if not check.exclusive]
    async for answer in _each(world, hosts, passive):
        yield answer
    exclusive = [Ask(host, check.id) for check in checks if check.exclusive for host in hosts]
    if exclusive:
        for answer in (await world.ports.fleet.look("look", exclusive, fresh=True)).answers:
            yield answer


async def _each(world: World, hosts: Sequence[str], checks: Sequence[Check]) -> AsyncIterator[Answer]:
    asks = [Ask(host, check.id) for host in hosts for check in checks]
    async with contextlib.aclosing(world.ports.fleet.each("look", asks)) as finished:
        async for answers in finished:
            for answer in answers:
                yield answer


class _Lines:
    """Facts as JSON lines on stdout, flushed host by host, so that a pipe sees them when they are there."""

    looked = False

    def __enter__(self) -> "_Lines":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is left to print."""

    def add(self, answer: Answer) -> None:
        """Print one answer's facts."""
        self.looked |= any(not fact.status.blind and not is_not_seen(fact) for fact in answer.facts)
        for fact in answer.facts:
            row = {"host": fact.host or answer.host, **fact_row(replace(fact, line=redact(fact.line)))}
            tell(json_line(row | {"boot_id": fact.boot_id, "sha256": fact.sha256}))
        tell(end="", flush=True)


@dataclass(slots=True)
class _Screen:
    """The folded view: live on stderr while answers come, whole on stdout at the end, also when somebody interrupts."""

    world: World
    hosts: tuple[str, ...]
    checks: tuple[Check, ...]
    heat: Heat | None = None
    looked: bool = False
    _told: dict[str, int] = field(default_factory=dict)
    _differences: Differences = field(init=False)
    _live: Live | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._differences = Differences(_expectations(self.world), self._kind)

    def _kind(self, host: str) -> str:
        row = self.world.ports.inventory.hosts[host]
        return row.sku or row.group

    def _kind_known(self, host: str) -> bool:
        return self.world.ports.inventory.hosts[host].sku in self.world.ports.skus

    def __enter__(self) -> "_Screen":
        err = Paper(stderr=True)
        if err.is_terminal:
            self._live = Live(get_renderable=self._partial, console=err, transient=True, refresh_per_second=4)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()
        console = paper()
        for part in self._parts():
            console.print(part, soft_wrap=True)
        if missing := [host for host in self.hosts if self._told.get(host, 0) < len(self.checks)]:
            console.print(Text(f"not asked to the end: {fold(missing)}", style="yellow"), soft_wrap=True)

    def add(self, answer: Answer) -> None:
        """Take one answer in."""
        self.looked |= any(not fact.status.blind and not is_not_seen(fact) for fact in answer.facts)
        self._told[answer.host] = self._told.get(answer.host, 0) + 1
        self._differences.add(answer)
        if self.heat:
            self.heat.add(answer.facts)

    def _partial(self) -> RenderableType:
        """What is known so far, cut to a screen."""
        done = sum(self._told.values())
        waits = [host for host in self.hosts if self._told.get(host, 0) < len(self.checks)]
        head = Text.assemble(
            (f"{done}/{len(self.hosts) * len(self.checks)} ", "bold cyan"), f"waiting for {fold(waits)}"[:400] if waits else ""
        )
        return Group(head, *list(self._parts())[: max(4, Paper(stderr=True).height - 4)])

    def _parts(self) -> Iterator[RenderableType]:
        if self.heat:
            yield heat_table(self.heat)
        quiet: dict[tuple[str, ...], list[str]] = {}
        for check in self.checks if not self.heat else ():
            groups = self._differences.groups(check.id)
            if len(groups) == 1 and not groups[0].notes:
                quiet.setdefault(groups[0].hosts, []).append(check.id)
            elif groups:
                yield Text(check.id, style="bold")
                yield from (Text(f"  {group}", style="" if group.notes else "green") for group in groups)
        if quiet:
            yield Text("ok on every host that answered", style="bold")
            yield from (Text(f"  {fold(hosts)}: {' '.join(checks)}", style="green") for hosts, checks in quiet.items())
        if blind := self._differences.blind():
            yield Text("could not look", style="bold yellow")
            yield from (Text(f"  {row.among(len(self.checks))}") for row in blind)
        if strangers := [host for host in self.hosts if self._told.get(host) and not self._kind_known(host)]:
            yield Text(f"no sku in the inventory, compared with each other only: {fold(strangers)}", style="dim")


def _expectations(world: World) -> Callable[[str, str, str | None], Value]:
    """What the SKU that the inventory names expects; hosts of no named SKU are compared with each other only."""

    def expected(host: str, key: str, device: str | None) -> Value:
        row = world.ports.inventory.hosts.get(host)
        sku = world.ports.skus.get(row.sku) if row else None
        return sku.expected(key, device) if sku else None

    return expected
