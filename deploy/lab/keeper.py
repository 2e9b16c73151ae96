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

from deploy.lab.container import REBOOT, build_boot_command
from deploy.lab.layout import MAX_RACKS, NODES, RACKS_FOLDER, Rack, RackNode
from deploy.lab.node_kit import install_kit
from deploy.lab.programs import LabRefusal
from deploy.lab.provision import furnish_rack
from deploy.lab.readiness import wait_for_rack
from deploy.lab.teardown import take_down_rack

READY = "ready"  # stdout line for "the rack is up"; any other line is a refusal and the last line


def find_rack(name: str) -> Rack | None:
    """Return the rack of that name, whether its keeper is alive or not."""
    try:
        return Rack(name, int(json.loads((RACKS_FOLDER / f"{name}.json").read_text())["number"]))
    except (FileNotFoundError, ValueError, KeyError):
        return None


def list_racks() -> list[Rack]:
    return [rack for path in sorted(RACKS_FOLDER.glob("*.json")) if (rack := find_rack(path.stem))]


def get_keeper_pid(rack: Rack) -> int:
    """Return the keeper's pid, or 0 if it is gone. A reused pid is detected by its start time."""
    try:
        record = json.loads(rack.record.read_text())
        pid = int(record["keeper"])
        return pid if _read_start_time(pid) == record["started"] else 0
    except (FileNotFoundError, ValueError, KeyError):
        return 0


def _read_start_time(pid: int) -> str:
    """Return a process's start time in kernel ticks, or "" if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (FileNotFoundError, ProcessLookupError, IndexError):
        return ""


@contextlib.contextmanager
def lock_racks() -> Iterator[None]:
    """Lock rack numbering and teardown. Locks RUN's parent, because RUN is removed with its last rack."""
    descriptor = os.open(RACKS_FOLDER.parent, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        RACKS_FOLDER.mkdir(exist_ok=True)
        yield
    finally:
        os.close(descriptor)


def reserve_rack(name: str) -> Rack:
    """Reserve a free number for a rack of this name and record this process as its keeper.

    Raises LabRefusal if the rack is up already or no number is free.
    """
    with lock_racks():
        existing = find_rack(name)
        if existing and get_keeper_pid(existing):
            raise LabRefusal(f"the rack {name!r} is up already: `python -m deploy.lab down {name}` ends it")
        if existing:
            take_down_rack(existing)
        used_numbers = {rack.number for rack in list_racks()}
        free_numbers = [
            number for number in range(MAX_RACKS) if number not in used_numbers and not Path(f"/sys/class/net/rmlab{number}").exists()
        ]
        if not free_numbers:
            raise LabRefusal("there is no room for another rack: `python -m deploy.lab down --all` ends them")
        rack, pid = Rack(name, free_numbers[0]), os.getpid()
        rack.record.write_text(json.dumps({"number": rack.number, "keeper": pid, "started": _read_start_time(pid)}))
        return rack


async def run_keeper(name: str, image: Path, *, until_eof: bool) -> int:
    """Create the rack, report it on stdout, keep it until a signal (or stdin's EOF if `until_eof`), take it down."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    if until_eof:
        loop.add_reader(sys.stdin.fileno(), _stop_at_eof, loop, stop)
    rack = reserve_rack(name)
    try:
        await _run_rack(rack, image, stop)
    except LabRefusal as error:
        _print_line(str(error))
        return 1
    finally:
        with lock_racks():
            take_down_rack(rack)
    return 0


def _stop_at_eof(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        loop.remove_reader(sys.stdin.fileno())
        stop.set()


async def _run_rack(rack: Rack, image: Path, stop: asyncio.Event) -> None:
    """Run the rack until `stop`. Raises LabRefusal if it does not come up or is stopped before."""
    furnish_rack(rack, image)
    node_tasks = [asyncio.create_task(_run_node(rack, node)) for node in NODES]
    preparation = asyncio.create_task(asyncio.to_thread(_prepare_rack, rack))
    stop_request = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((preparation, stop_request), return_when=asyncio.FIRST_COMPLETED)
        if not preparation.done():
            raise LabRefusal("asked to end before it was up")
        await preparation
        _print_line(READY)
        await stop_request
    finally:
        for task in node_tasks:
            task.cancel()
        await asyncio.gather(*node_tasks, return_exceptions=True)
        stop_request.cancel()
        with contextlib.suppress(LabRefusal, asyncio.CancelledError):
            await preparation  # its nodes are gone, so it ends at once


def _prepare_rack(rack: Rack) -> None:
    wait_for_rack(rack)
    install_kit(rack)


async def _run_node(rack: Rack, node: RackNode) -> None:
    """Run the node again after each reboot. A node that powers off stays off."""
    status = REBOOT
    with (rack.root(node).parent / "console").open("ab") as console:
        while status == REBOOT:
            child = await asyncio.create_subprocess_exec(
                *build_boot_command(rack, node), stdin=asyncio.subprocess.DEVNULL, stdout=console, stderr=console
            )
            try:
                status = await child.wait()
            except asyncio.CancelledError:
                child.kill()
                await child.wait()
                raise


def _print_line(line: str) -> None:
    with contextlib.suppress(OSError):  # the reader of stdout may be gone
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
