"""Worker processes beside the front end, as real child processes."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from bot.app.workers import WorkerProcess, build_own_command, run_workers
from bot.refusal import Refusal
from tests.support.clock import PATIENCE

# is ready at once and stays until the other end closes
WORKS = "import socket; line = socket.socket(fileno=0); line.sendall(b'ready\\n'); line.recv(1)"
DIES = "import socket; socket.socket(fileno=0).sendall(b'ready\\n')"  # is ready at once and exits


def script(tmp_path: Path, text: str) -> tuple[str, ...]:
    """Return a command that records its process id and then runs `text`."""
    return (sys.executable, "-c", f"import os; open({str(tmp_path / 'pids')!r}, 'a').write(f'{{os.getpid()}}\\n'); {text}")


def pids(tmp_path: Path) -> list[int]:
    return [int(line) for line in (tmp_path / "pids").read_text().splitlines()]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_workers_are_ready_together_and_gone_afterwards(tmp_path: Path) -> None:
    async with run_workers(script(tmp_path, WORKS), 2) as ready:
        await ready()
        assert len(pids(tmp_path)) == 2
        assert all(alive(pid) for pid in pids(tmp_path))
    assert not any(alive(pid) for pid in pids(tmp_path))


async def test_a_worker_that_cannot_start_stops_the_start(tmp_path: Path) -> None:
    async with run_workers(script(tmp_path, "raise SystemExit(2)"), 1) as ready:
        with pytest.raises(Refusal, match="did not start"):
            await ready()


async def test_the_front_end_reports_a_workers_refusal_once(tmp_path: Path) -> None:
    told = """{"says": "line one\\nline two", "code": 2}"""
    says = f"import socket; socket.socket(fileno=0).sendall(b'refused ' + {told.encode()!r} + b'\\n')"
    async with run_workers(script(tmp_path, says), 1) as ready:
        with pytest.raises(Refusal) as refused:
            await ready()
    assert (str(refused.value), refused.value.code) == ("line one\nline two", 2)


@pytest.mark.parametrize("said", [b"refused", b"refused {}", b"refused [1", b"x" * (2 << 20)])
async def test_what_is_no_refusal_is_a_worker_that_did_not_start(tmp_path: Path, said: bytes) -> None:
    (tmp_path / "said").write_bytes(said + b"\n")
    says = f"import socket, contextlib\nwith contextlib.suppress(OSError): socket.socket(fileno=0).sendall(open({str(tmp_path / 'said')!r}, 'rb').read())"
    async with run_workers(script(tmp_path, says), 1) as ready:
        with pytest.raises(Refusal, match="did not start"):
            await ready()


async def pauses(worker: WorkerProcess, most: int) -> list[float]:
    """Return the waits before the next `most` starts."""
    waited: list[float] = []
    enough = asyncio.Event()

    async def pause(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == most:
            enough.set()
            await asyncio.Event().wait()

    worker.pause = pause
    keeping = asyncio.create_task(worker.restart_forever())
    async with asyncio.timeout(PATIENCE):
        await enough.wait()
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    return waited


async def test_a_worker_that_dies_is_started_again_after_a_pause(tmp_path: Path) -> None:
    worker = WorkerProcess(script(tmp_path, DIES))
    await worker.start()
    assert await pauses(worker, 3) == [1.0, 1.0, 1.0]
    await worker.stop()
    assert len(pids(tmp_path)) == 3
    assert not any(alive(pid) for pid in pids(tmp_path))


async def test_pauses_grow_while_it_will_not_start(tmp_path: Path) -> None:
    worker = WorkerProcess(script(tmp_path, "raise SystemExit(2)"))
    with pytest.raises(Refusal):
        await worker.start()
    assert await pauses(worker, 4) == [1.0, 2.0, 5.0, 10.0]
    await worker.stop()


def test_a_worker_is_this_program_under_another_name() -> None:
    assert build_own_command("worker", "--beside")[1:] == ("-m", "bot.cli", "worker", "--beside")
