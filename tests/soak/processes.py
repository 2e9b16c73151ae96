"""A front end and workers, restarted one second after they end, as by a service manager."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

AGAIN_AFTER = 1.0
STOP_WITHIN = 30.0


@dataclass
class KeptProcess:
    """One product process. `killed` counts our kills, `ended_by_itself` all other ends."""

    name: str
    words: Sequence[str]
    environ: Mapping[str, str]
    log: Path
    killed: int = 0
    ended_by_itself: list[int] = field(default_factory=list)
    _child: asyncio.subprocess.Process | None = None
    _shot: int = 0

    async def keep(self) -> None:
        """Restart the process until cancelled."""
        while True:
            with self.log.open("ab") as sink:
                self._child = await asyncio.create_subprocess_exec(
                    sys.executable, "-m", "bot.cli", *self.words, env=dict(self.environ), stdout=sink, stderr=sink, start_new_session=True
                )
            pid, status = self._child.pid, await self._child.wait()
            if self._shot != pid:
                self.ended_by_itself.append(status)
            await asyncio.sleep(AGAIN_AFTER)

    def kill(self) -> bool:
        """Send SIGKILL, as the OOM killer would. Returns False if it is down."""
        if self._child is None or self._child.returncode is not None:
            return False
        self._shot = self._child.pid
        self.killed += 1
        os.killpg(self._child.pid, signal.SIGKILL)
        return True

    async def stop(self) -> None:
        """Terminate it as a service manager would."""
        child = self._child
        if child is None or child.returncode is not None:
            return
        child.terminate()
        try:
            await asyncio.wait_for(child.wait(), STOP_WITHIN)
        except TimeoutError:
            os.killpg(child.pid, signal.SIGKILL)
            await child.wait()


@contextlib.asynccontextmanager
async def kept(settings: Mapping[str, str], folder: Path, workers: int) -> AsyncIterator[list[KeptProcess]]:
    """Run one front end and `workers` workers."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("RACKMEDIC_")}
    rows = [("front", ("serve", "--front")), *((f"worker-{n}", ("worker", "--name", f"worker-{n}")) for n in range(1, workers + 1))]
    several = [KeptProcess(name, words, clean | dict(settings), folder / f"{name}.log") for name, words in rows]
    keeping = [asyncio.create_task(one.keep()) for one in several]
    try:
        yield several
    finally:
        for task in keeping:
            task.cancel()
        await asyncio.gather(*keeping, return_exceptions=True)
        await asyncio.gather(*(one.stop() for one in several))
