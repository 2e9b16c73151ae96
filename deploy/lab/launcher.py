"""Start and stop a rack from another process, through its keeper."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from deploy.lab.keeper import READY, find_rack, get_keeper_pid
from deploy.lab.layout import RACKS_FOLDER, Rack
from deploy.lab.programs import LabRefusal

END_SECONDS = 60.0
REPOSITORY = Path(__file__).parents[2]


@dataclass
class StartedRack:
    """A running rack and its keeper. Leaving the context takes it down; so does the death of this process unless
    detached.
    """

    rack: Rack
    keeper: "subprocess.Popen[str]"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.keeper.stdin:
            self.keeper.stdin.close()
        else:
            self.keeper.terminate()
        self.keeper.wait(END_SECONDS)
        if self.keeper.stdout:
            self.keeper.stdout.close()


def start_rack(name: str, image: Path, *, detached: bool = False) -> StartedRack:
    """Start a rack with its kit. A detached rack outlives this process until `down`.

    Raises LabRefusal with the keeper's last line if the rack does not come up.
    """
    argv = [sys.executable, "-m", "deploy.lab", "keep", name, str(image), *([] if detached else ["--until-eof"])]
    RACKS_FOLDER.mkdir(parents=True, exist_ok=True)
    log = RACKS_FOLDER / f"{name}.log"
    with log.open("w+", errors="replace") as keeper_log:
        stdin = subprocess.DEVNULL if detached else subprocess.PIPE
        keeper = subprocess.Popen(
            argv, cwd=REPOSITORY, stdin=stdin, stdout=subprocess.PIPE, stderr=keeper_log, text=True, start_new_session=True
        )
        assert keeper.stdout is not None
        line = keeper.stdout.readline().strip()
        rack = find_rack(name) if line == READY else None
        if rack:
            return StartedRack(rack, keeper)
        keeper.wait(END_SECONDS)
        keeper_log.seek(0)
        raise LabRefusal(line or f"the keeper of the rack died: {' '.join(keeper_log.read().splitlines()[-1:])}")


def end_keeper(rack: Rack) -> None:
    """Stop the keeper, which takes the rack down, and wait for it. Raises LabRefusal if it does not end."""
    deadline = time.monotonic() + END_SECONDS
    while pid := get_keeper_pid(rack):
        os.kill(pid, signal.SIGTERM)
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)
