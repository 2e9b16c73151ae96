"""Play a breakage: break, ask as a terminal user does, repair, and check the repair."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterable

from bot.cli.cluster_access import open_command_runtime
from bot.cli.command_requests import DiagnoseRequest
from bot.cli.diagnose import build_first_message
from bot.cli.local_thread import LocalThread
from bot.settings import load_settings
from deploy.lab.container import run_checked_in_node, run_in_node
from deploy.lab.gpus import RackGpus
from deploy.lab.layout import Rack, Role, find_node
from deploy.lab.programs import LabRefusal, run
from deploy.lab.readiness import wait_for_slurm, wait_until
from graph.incident.context import assess_incident, load_incident_context
from tests.real.breakages.breakage import Breakage, Step
from tests.real.breakages.judging import Judgement, judge
from tests.real.nodes import calm
from tools.inventory.host_ranges import expand_host_range

# clear a host's journal, so that an earlier breakage leaves no evidence
FORGET = "systemctl reset-failed; journalctl -q --rotate; journalctl -q --vacuum-time=1ms"


async def play(rack: Rack, row: Breakage) -> Judgement:
    """Break the rack, ask and judge; restore the rack even after a failure. Raises LabRefusal if it is not restored."""
    async with RackGpus.healthy(rack), _broken(rack, row):
        return await ask(rack, row)


async def ask(rack: Rack, row: Breakage) -> Judgement:
    """Judge the answer of `rackmedic diagnose`."""
    settings = load_settings(environ=dict(word.split("=", 1) for word in row.settings))
    request = DiagnoseRequest(row.report, hosts=row.hosts, inventory=rack.inventory)
    began = time.monotonic()
    async with open_command_runtime(settings, rack.inventory, None) as world:
        state, report = await LocalThread(world).run_first_turn(build_first_message(world, request, None))
        seconds = time.monotonic() - began
        context = world.services.build_graph_context()
        case = await load_incident_context(state, context)
        return judge(row, report, await assess_incident(case, context), case.facts, seconds)


@contextlib.asynccontextmanager
async def _broken(rack: Rack, row: Breakage) -> AsyncIterator[None]:
    with contextlib.ExitStack() as stack:
        await asyncio.to_thread(_break, rack, row, stack)
        try:
            yield
        finally:
            await asyncio.to_thread(stack.close)


def _break(rack: Rack, row: Breakage, stack: contextlib.ExitStack) -> None:
    """Break the rack; on any failure the stack undoes what was done."""
    if row.sign and _holds(rack, row.sign):
        raise LabRefusal(f"{row.id}: it is broken before it begins")
    with contextlib.ExitStack() as undoing:
        if row.around:
            undoing.enter_context(row.around(rack))
        undoing.callback(_mend, rack, row)
        for step in row.do:
            _do(rack, step)
        if sign := row.sign:
            wait_until(lambda: _holds(rack, sign), f"{row.id}: it does not break", row.sign_seconds)
        stack.push(undoing.pop_all())


def _mend(rack: Rack, row: Breakage) -> None:
    for step in row.undo:
        _do(rack, step)
    if sign := row.sign:
        wait_until(lambda: not _holds(rack, sign), f"{row.id}: it is still broken", row.sign_seconds)
    for host in _touched(row):
        run_in_node(rack, find_node(host), "sh", "-c", FORGET)
    if any(find_node(host).role is not Role.PLAIN for host in _touched(row)):
        calm(rack)
        wait_for_slurm(rack)


def _touched(row: Breakage) -> Iterable[str]:
    return dict.fromkeys(host for step in (*row.do, *row.undo) for host in expand_host_range(step.hosts))


def _do(rack: Rack, step: Step) -> None:
    for host in expand_host_range(step.hosts):
        if step.outside:
            run("ip", "netns", "exec", rack.unit(find_node(host)), "sh", "-c", step.shell)
        else:
            run_checked_in_node(rack, find_node(host), "sh", "-c", step.shell)


def _holds(rack: Rack, step: Step) -> bool:
    """Return whether the command succeeds on its first host."""
    node = find_node(expand_host_range(step.hosts)[0])
    if step.outside:
        run("ip", "netns", "exec", rack.unit(node), "true")
        return "yes" in run("ip", "netns", "exec", rack.unit(node), "sh", "-c", f"({step.shell}) && echo yes || true")
    return run_in_node(rack, node, "sh", "-c", step.shell).returncode == 0
