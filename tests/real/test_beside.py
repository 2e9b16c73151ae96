"""Host processes of a rack: the bot of `make lab` and its private Redis, which must not outlive it."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from deploy.lab.layout import Rack
from deploy.lab.teardown import end_host_processes, find_host_processes
from tests.support.terminal import ROOT, environment

WAITS = "import sys; sys.stdin.read()"
KEEPS_A_REDIS = """
import asyncio, sys
from pathlib import Path
from bot.store.private_redis import find_server, start_private_redis

async def main():
    redis = await start_private_redis(find_server(), Path(sys.argv[1]))
    print("up", flush=True)
    await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""
needs_redis = pytest.mark.skipif(shutil.which("redis-server") is None, reason="NO redis-server ON PATH: apt-get install redis-server")


@dataclass(frozen=True)
class RackElsewhere(Rack):
    """A rack with a writable folder."""

    at: Path = field(default_factory=Path)

    @property
    def folder(self) -> Path:
        return self.at


@pytest.fixture
def rack(tmp_path: Path) -> RackElsewhere:
    made = RackElsewhere("other", 63, tmp_path / "rack")
    made.data.mkdir(parents=True)
    return made


def python(folder: Path, data: Path, program: str, *words: str) -> "subprocess.Popen[str]":
    pipe = subprocess.PIPE
    settings = environment({"RACKMEDIC_DATA_DIR": str(data)})
    return subprocess.Popen([sys.executable, "-c", program, *words], cwd=folder, env=settings, stdin=pipe, stdout=pipe, text=True)


@pytest.fixture
def bot(rack: RackElsewhere) -> Iterator["subprocess.Popen[str]"]:
    """Start a bot with a Redis in the rack's folder."""
    with python(ROOT, rack.data, KEEPS_A_REDIS, str(rack.data / "redis")) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        yield process
        end_host_processes(rack)


@pytest.fixture
def strangers(rack: RackElsewhere, tmp_path: Path) -> Iterator[list["subprocess.Popen[str]"]]:
    """Start a shell in the rack's data folder, and another rack's bot."""
    with ExitStack() as stack:
        made = [python(rack.data, tmp_path, WAITS), python(tmp_path, rack.data.with_name("data-of-another"), WAITS)]
        for process in made:
            stack.enter_context(process)
            stack.callback(process.kill)
        yield made


@needs_redis
@pytest.mark.parametrize("killed", [False, True])
def test_only_the_racks_own_bot_and_redis_end_with_it(
    rack: RackElsewhere, bot: "subprocess.Popen[str]", strangers: list["subprocess.Popen[str]"], *, killed: bool
) -> None:
    if killed:
        bot.kill()
        bot.wait()
    assert len(find_host_processes(rack)) == (1 if killed else 2), "its Redis outlives it"
    end_host_processes(rack)
    assert find_host_processes(rack) == []
    assert [process.poll() for process in strangers] == [None, None]
