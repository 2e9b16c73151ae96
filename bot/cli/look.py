"""`rackmedic look`: run checks and print differences or JSON lines. Read-only; stores nothing."""

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from bot.app.diagnosis_runtime import DiagnosisRuntime
from bot.cli.catalogue_tables import build_fact_row
from bot.cli.cluster_access import open_command_runtime, open_stage, refuse_without_inventory
from bot.cli.command_requests import LookRequest, parse_picture_format
from bot.cli.command_runtime import print_text
from bot.cli.host_differences import HostDifferences
from bot.cli.job import resolve_job_hosts
from bot.cli.safe_console import SafeConsole, build_text_table, format_json_line, open_console, open_table_console
from bot.refusal import Refusal
from bot.reports.charts.heatmap import render_heatmap
from bot.settings import Settings
from kb.fact_keys import find_key
from kb.redact import redact
from tools.checks.check_types import Check
from tools.fact import Value
from tools.fleet.answers import CheckAnswer, CheckRequest
from tools.fleet.fleet import Fleet
from tools.fleet.output_reader import is_unobserved_fact
from tools.heatmap import MAX_ROWS, Heatmap
from tools.inventory.host_ranges import BadRange, fold_host_names

MAX_GPUS_A_TABLE = 8  # more stand in tables below, so that no number is broken


def render_heatmap_tables(heat: Heatmap) -> list[Table]:
    """Return the hosts farthest from the median, coloured blue (low) to red (high)."""
    spread = heat.compute_spread()
    if spread is None:
        empty = build_text_table(("host",), (), title=f"{heat.key}: no value was read")
        empty.caption = f"no value: {fold_host_names(heat.hosts)}"
        return [empty]
    low, middle, high = spread
    gpus = heat.columns
    rows = {host: heat.get_row(host, gpus) for host in heat.hosts}
    values_by_host = {host: row for host, row in rows.items() if any(value is not None for value in row)}
    ranked_hosts = sorted(
        values_by_host, key=lambda host: -max(abs(value - middle) for value in values_by_host[host] if value is not None)
    )[:MAX_ROWS]
    unit = f" {heat.unit}" if heat.unit else ""
    title = f"{heat.key}{unit}: {low:g} to {high:g}, median {middle:g}"
    rest = [host for host in values_by_host if host not in set(ranked_hosts)]
    unobserved_hosts = [host for host in heat.hosts if host not in values_by_host]
    notes = ([f"nearer the median: {fold_host_names(rest)}"] if rest else []) + (
        [f"no value: {fold_host_names(unobserved_hosts)}"] if unobserved_hosts else []
    )
    tables: list[Table] = []
    for first in range(0, len(gpus), MAX_GPUS_A_TABLE):
        part = slice(first, first + MAX_GPUS_A_TABLE)
        cells: list[list[str | Text]] = [
            [host, *(_render_cell(value, low, high) for value in values_by_host[host][part])]
            for host in sorted(ranked_hosts, key=list(heat.hosts).index)
        ]
        tables.append(build_text_table(("host", *gpus[part]), cells, title="" if tables else title))
    tables[-1].caption = "\n".join(notes) or None
    tables[-1].caption_justify = "left"
    return tables


def _render_cell(value: float | None, low: float, high: float) -> Text:
    if value is None:
        return Text("?", style="dim")
    part = (value - low) / (high - low) if high > low else 0.0
    red, blue = round(90 + 165 * part), round(255 - 175 * part)
    return Text(f"{value:g}", style=f"rgb({red},{round(200 - 110 * part)},{blue})" + (" bold" if part > 0.8 else ""))


def write_heatmap_image(heat: Heatmap, out: Path) -> None:
    out.write_bytes(render_heatmap(heat, parse_picture_format(out)))


async def run_look_command(settings: Settings, request: LookRequest) -> int:
    refuse_without_inventory(settings, request.inventory, request.case)
    async with open_command_runtime(settings, request.inventory, open_stage(request.case)) as world:
        return await run_checks(world, request)


async def run_checks(runtime: DiagnosisRuntime, request: LookRequest) -> int:
    """Run and print; return 1 if nothing was observed."""
    hosts, checks = _resolve_hosts(runtime, await _resolve_ranges(runtime, request.hosts)), _select_checks(runtime.services.fleet, request)
    heatmap = Heatmap(request.heat, hosts) if request.heat else None
    show = _JsonLinesOutput() if request.as_json else _ScreenOutput(runtime, hosts, checks, heatmap)
    with show:
        async for answer in _stream_answers(runtime, hosts, checks):
            show.add_answer(answer)
    if request.out and isinstance(show, _ScreenOutput) and show.heat:
        SafeConsole(stderr=True).print(Text(_write_heatmap(show.heat, request.out)))
    return int(not show.looked)


def _write_heatmap(heatmap: Heatmap, out: Path) -> str:
    if heatmap.compute_spread() is None:
        return f"no heat map: {heatmap.key} was read nowhere"
    write_heatmap_image(heatmap, out)
    return f"heat map written to {out}"


async def _resolve_ranges(runtime: DiagnosisRuntime, hosts: str) -> str:
    return await resolve_job_hosts(runtime, hosts.removeprefix("job:")) if hosts.startswith("job:") else hosts


def _resolve_hosts(runtime: DiagnosisRuntime, ranges: str) -> tuple[str, ...]:
    try:
        return tuple(host.name for host in runtime.services.inventory.select_hosts(ranges))
    except BadRange as error:
        raise Refusal(f"{error}; hosts and groups are those of the inventory", 2) from error


def _select_checks(fleet: Fleet, request: LookRequest) -> tuple[Check, ...]:
    unknown = [name for name in request.checks if name not in fleet.checks]
    if unknown:
        raise Refusal(f"there is no check {', '.join(map(repr, unknown))}; known: {' '.join(fleet.checks)}", 2)
    if request.heat and ((row := find_key(request.heat)) is None or row.kind not in ("int", "float") or row.scope != "gpu"):
        raise Refusal(f"--heat {request.heat}: is no number of a GPU; for example gpu.temp.core, gpu.ecc.dram_correctable_total", 2)
    checks = [fleet.checks[name] for name in dict.fromkeys(request.checks)]
    if not checks:
        checks = [check for check in fleet.checks.values() if not check.exclusive and check.scope == "host"]
        checks = [check for check in checks if not request.heat or request.heat in check.establishes]
    _refuse_exclusive(checks, request)
    return tuple(checks)


def _refuse_exclusive(checks: Sequence[Check], request: LookRequest) -> None:
    exclusive = [check.id for check in checks if check.exclusive]
    if exclusive and not request.exclusive:
        raise Refusal(f"{' '.join(exclusive)}: needs whole GPUs; add --exclusive to run it on idle hosts", 2)


async def _stream_answers(runtime: DiagnosisRuntime, hosts: Sequence[str], checks: Sequence[Check]) -> AsyncIterator[CheckAnswer]:
    """Yield answers; exclusive checks run last and only on idle GPUs."""
    passive = [check for check in checks if not check.exclusive]
    async for answer in _stream_passive_answers(runtime, hosts, passive):
        yield answer
    exclusive = [CheckRequest(host, check.id) for check in checks if check.exclusive for host in hosts]
    if exclusive:
        for answer in (await runtime.services.fleet.run_checks("look", exclusive, fresh=True)).answers:
            yield answer


async def _stream_passive_answers(runtime: DiagnosisRuntime, hosts: Sequence[str], checks: Sequence[Check]) -> AsyncIterator[CheckAnswer]:
    requests = [CheckRequest(host, check.id) for host in hosts for check in checks]
    async with contextlib.aclosing(runtime.services.fleet.stream_host_answers("look", requests)) as finished:
        async for answers in finished:
            for answer in answers:
                yield answer


class _JsonLinesOutput:
    looked = False

    def __enter__(self) -> "_JsonLinesOutput":
        return self

    def __exit__(self, *_: object) -> None: ...

    def add_answer(self, answer: CheckAnswer) -> None:
        self.looked |= any(not fact.status.blind and not is_unobserved_fact(fact) for fact in answer.facts)
        for fact in answer.facts:
            row = {"host": fact.host or answer.host, **build_fact_row(replace(fact, line=redact(fact.line)))}
            print_text(format_json_line(row | {"boot_id": fact.boot_id, "sha256": fact.sha256}))
        print_text(end="", flush=True)


@dataclass(slots=True)
class _ScreenOutput:
    """Grouped view: live on stderr, complete on stdout even after an interrupt."""

    world: DiagnosisRuntime
    hosts: tuple[str, ...]
    checks: tuple[Check, ...]
    heat: Heatmap | None = None
    looked: bool = False
    _told: dict[str, int] = field(default_factory=dict)
    _differences: HostDifferences = field(init=False)
    _live: Live | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._differences = HostDifferences(_build_expectations(self.world), self._get_host_kind)

    def _get_host_kind(self, host: str) -> str:
        row = self.world.services.inventory.hosts[host]
        return row.sku or row.group

    def _has_known_sku(self, host: str) -> bool:
        return self.world.services.inventory.hosts[host].sku in self.world.services.skus

    def __enter__(self) -> "_ScreenOutput":
        err = SafeConsole(stderr=True)
        if err.is_terminal:
            self._live = Live(get_renderable=self._render_partial, console=err, transient=True, refresh_per_second=4)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()
        console = open_console()
        for part in self._render_parts():
            if isinstance(part, Table):
                open_table_console().print(part)
            else:
                console.print(part, soft_wrap=True)
        if missing := [host for host in self.hosts if self._told.get(host, 0) < len(self.checks)]:
            console.print(Text(f"not asked to the end: {fold_host_names(missing)}", style="yellow"), soft_wrap=True)

    def add_answer(self, answer: CheckAnswer) -> None:
        self.looked |= any(not fact.status.blind and not is_unobserved_fact(fact) for fact in answer.facts)
        self._told[answer.host] = self._told.get(answer.host, 0) + 1
        self._differences.add_answer(answer)
        if self.heat:
            self.heat.add_facts(answer.facts)

    def _render_partial(self) -> RenderableType:
        done_count = sum(self._told.values())
        waiting_hosts = [host for host in self.hosts if self._told.get(host, 0) < len(self.checks)]
        head = Text.assemble(
            (f"{done_count}/{len(self.hosts) * len(self.checks)} ", "bold cyan"),
            f"waiting for {fold_host_names(waiting_hosts)}"[:400] if waiting_hosts else "",
        )
        return Group(head, *list(self._render_parts())[: max(4, SafeConsole(stderr=True).height - 4)])

    def _render_parts(self) -> Iterator[RenderableType]:
        if self.heat:
            yield from render_heatmap_tables(self.heat)
        quiet: dict[tuple[str, ...], list[str]] = {}
        for check in self.checks if not self.heat else ():
            groups = self._differences.list_host_groups(check.id)
            if len(groups) == 1 and not groups[0].notes:
                quiet.setdefault(groups[0].hosts, []).append(check.id)
            elif groups:
                yield Text(check.id, style="bold")
                yield from (Text(f"  {group}", style="" if group.notes else "green") for group in groups)
        if quiet:
            yield Text("ok on every host that answered", style="bold")
            yield from (Text(f"  {fold_host_names(hosts)}: {' '.join(checks)}", style="green") for hosts, checks in quiet.items())
        if unobserved := self._differences.list_unobserved_hosts():
            yield Text("could not look", style="bold yellow")
            yield from (Text(f"  {row.format_among_checks(len(self.checks))}") for row in unobserved)
        if strangers := [host for host in self.hosts if self._told.get(host) and not self._has_known_sku(host)]:
            yield Text(f"no sku in the inventory, compared with each other only: {fold_host_names(strangers)}", style="dim")


def _build_expectations(runtime: DiagnosisRuntime) -> Callable[[str, str, str | None], Value]:
    """Return the SKU lookup; hosts without SKU are compared only with each other."""

    def expected(host: str, key: str, device: str | None) -> Value:
        row = runtime.services.inventory.hosts.get(host)
        sku = runtime.services.skus.get(row.sku) if row else None
        return sku.get_expected(key, device) if sku else None

    return expected
