"""The rack's keeper process: it creates the rack, restarts rebooting nodes and takes everything down when it ends."""

import asyncio
import contextlib
import fcntl
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from deploy.lab.clear import take_down
from deploy.lab.container import REBOOT, boot_command
from deploy.lab.furnish import furnish_rack
from deploy.lab.kit import install
from deploy.lab.layout import NODES, RACKS, RUN, Rack, RackNode
from deploy.lab.programs import LabRefusal
from deploy.lab.settle import settle

READY = "ready"  # stdout line for "the rack is up"; any other line is a refusal and the last line


def rack_of(name: str) -> Rack | None:
    """Return the rack of that name, whether its keeper is alive or not."""
    try:
        return Rack(name, int(json.loads((RUN / f"{name}.json").read_text())["number"]))
    except (FileNotFoundError, ValueError, KeyError):
        return None


def racks() -> list[Rack]:
    return [rack for path in sorted(RUN.glob("*.json")) if (rack := rack_of(path.stem))]


def keeper_of(rack: Rack) -> int:
    """Return the keeper's pid, or 0 if it is gone. A reused pid is detected by its start time."""
    try:
        kept = json.loads(rack.record.read_text())
        return int(kept["keeper"]) if _started(int(kept["keeper"])) == kept["started"] else 0
    except (FileNotFoundError, ValueError, KeyError):
        return 0


def _started(pid: int) -> str:
    """Return a process's start time in kernel ticks, or "" if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (FileNotFoundError, ProcessLookupError, IndexError):
        return ""


@contextlib.contextmanager
def numbers() -> Iterator[None]:
    """Lock rack numbering and teardown. Locks RUN's parent, because RUN is removed with its last rack."""
    held = os.open(RUN.parent, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        RUN.mkdir(exist_ok=True)
        yield
    finally:
        os.close(held)


def claim(name: str) -> Rack:
    """Reserve a free number for a rack of this name and record this process as its keeper. Raises LabRefusal."""
    with numbers():
        if (there := rack_of(name)) and keeper_of(there):
            raise LabRefusal(f"the rack {name!r} is up already: `python -m deploy.lab down {name}` ends it")
        if there:
            take_down(there)
        taken = {rack.number for rack in racks()}
        free = [n for n in range(RACKS) if n not in taken and not Path(f"/sys/class/net/rmlab{n}").exists()]
        if not free:
            raise LabRefusal("there is no room for another rack: `python -m deploy.lab down --all` ends them")
        rack, me = Rack(name, free[0]), os.getpid()
        rack.record.write_text(json.dumps({"number": rack.number, "keeper": me, "started": _started(me)}))
        return rack


async def keep(name: str, image: Path, *, until_eof: bool) -> int:
    """Create the rack, report it on stdout, keep it until a signal (or stdin's EOF if `until_eof`), take it down."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    if until_eof:
        loop.add_reader(sys.stdin.fileno(), _at_eof, loop, stop)
    rack = claim(name)
    try:
        await _live(rack, image, stop)
    except LabRefusal as error:
        _say(str(error))
        return 1
    finally:
        with numbers():
            take_down(rack)
    return 0


def _at_eof(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        loop.remove_reader(sys.stdin.fileno())
        stop.set()


async def _live(rack: Rack, image: Path, stop: asyncio.Event) -> None:
    """Run the rack until `stop`. Raises LabRefusal if it does not come up or is stopped before."""
    furnish_rack(rack, image)
    nodes = [asyncio.create_task(_run_node(rack, node)) for node in NODES]
    bringing, stopping = asyncio.create_task(asyncio.to_thread(_bring_up, rack)), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((bringing, stopping), return_when=asyncio.FIRST_COMPLETED)
        if not bringing.done():
            raise LabRefusal("asked to end before it was up")
        await bringing
        _say(READY)
        await stopping
    finally:
        for task in nodes:
            task.cancel()
        await asyncio.gather(*nodes, return_exceptions=True)
        stopping.cancel()
        with contextlib.suppress(LabRefusal, asyncio.CancelledError):
            await bringing  # its nodes are gone, so it ends at once


def _bring_up(rack: Rack) -> None:
    settle(rack)
    install(rack)


async def _run_node(rack: Rack, node: RackNode) -> None:
    """Run the node again after each reboot. A node that powers off stays off."""
    status = REBOOT
    with (rack.root(node).parent / "console").open("ab") as console:
        while status == REBOOT:
            child = await asyncio.create_subprocess_exec(
                *boot_command(rack, node), stdin=asyncio.subprocess.DEVNULL, stdout=console, stderr=console
            )
            try:
                status = await child.wait()
            except asyncio.CancelledError:
                child.kill()
                await child.wait()
                raise


def _say(line: str) -> None:
    with contextlib.suppress(OSError):  # the reader of stdout may be gone
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
