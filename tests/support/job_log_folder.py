"""A job log folder shared by tenants, its reading program, and an attacker who replaces what it reads between any two
steps.
"""

import io
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tools.checks import job_log_probe

AS_ROOT = os.getuid() == 0
MALLORY, ALICE = (3001, 3002) if AS_ROOT else (os.getuid(), os.getuid())
SECRET, OWN = "what another tenant wrote", "what mallory wrote"
STEPS = frozenset({"open", "stat", "lstat", "scandir", "listdir", "readlink", "fstat"})
Jobs = Mapping[int, tuple[int, str, str]]  # job: owner's uid, nodes, and scontrol's output


class SteppedOs:
    """The module `os` with a hook before each step."""

    def __init__(self, act: Callable[[int], None]) -> None:
        self.steps = 0
        self._act = act

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        return self._stepped(real) if name in STEPS else real

    def _stepped(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            self.steps += 1
            self._act(self.steps)
            return real(*args, **named)

        return call


@dataclass(frozen=True)
class Looked:
    """The program's stdout, stderr, and number of steps."""

    out: str
    err: str
    steps: int


def no_act(step: int) -> None:
    """Do nothing."""


def look(top: Path | str, jobs: Jobs | None = None, act: Callable[[int], None] = no_act) -> Looked:
    """Run the program in this process, with a scheduler that knows these jobs."""
    out, err, stepped = io.BytesIO(), io.StringIO(), SteppedOs(act)
    system = SimpleNamespace(argv=["-c", str(top)], stdout=SimpleNamespace(buffer=out, flush=out.flush), stderr=err, exit=_leave)
    known = vars(job_log_probe)
    before = {name: known[name] for name in ("os", "sys", "said")}
    known.update(os=stepped, sys=system, said=_scheduler(jobs or {}))
    try:
        with suppress(SystemExit):
            job_log_probe.main()
    finally:
        known.update(before)
    return Looked(out.getvalue().decode(), err.getvalue(), stepped.steps)


def _leave(status: int) -> None:
    raise SystemExit(status)


def _scheduler(jobs: Jobs) -> Callable[..., str]:
    def said(*argv: str) -> str:
        if argv[0] == "squeue":
            return "".join(f"{job}:{job}:{nodes}:{owner}\n" for job, (owner, nodes, _) in jobs.items())
        return jobs[int(argv[-1])][2]

    return said


def write(path: Path, text: str, owner: int = MALLORY, mode: int = 0o644) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return owned(path, owner)


def owned(path: Path, owner: int) -> Path:
    if AS_ROOT:
        os.chown(path, owner, owner, follow_symlinks=False)
    return path


@dataclass
class Flip:
    """A path of mallory's and its replacement, exchanged by renames."""

    place: Path
    other: Path
    turned: bool = False

    def turn(self) -> None:
        aside = self.place.with_name("aside")
        self.place.rename(aside)
        self.other.rename(self.place)
        aside.rename(self.other)
        self.turned = not self.turned


def shared_folder(under: Path) -> tuple[Path, Path]:
    """Return the world-writable folder, and another tenant's folder whose log only its owner and root may read."""
    top, victim = under / "shared", under / "alice"
    top.mkdir(parents=True)
    top.chmod(0o1777)
    write(victim / "logs" / "x.log", f"{SECRET}\n", ALICE, 0o640)
    return top, victim


# what can be replaced on the way to a log, and by what
KINDS = ("folder", "folder above", "file", "file by another name", "pipe", "output named by Slurm")


def flip_of(kind: str, under: Path) -> tuple[Path, Flip, Jobs]:
    """Return the shared folder, the replacement, and the scheduler's jobs."""
    top, victim = shared_folder(under)
    home = under / "mallory" if kind == "output named by Slurm" else top / "mallory"
    log = write(home / "logs" / "x.log", f"{OWN}\n")
    for folder in (home, log.parent):
        owned(folder, MALLORY)
    other = under / "other"
    place = {"folder": log.parent, "folder above": home, "output named by Slurm": log.parent}.get(kind, log)
    if kind == "file by another name":
        os.link(victim / "logs" / "x.log", other)
    elif kind == "pipe":
        os.mkfifo(other)
    else:
        other.symlink_to({home: victim, log: victim / "logs" / "x.log"}.get(place, victim / "logs"))
        owned(other, MALLORY)
    jobs = {7: (MALLORY, "n1", f"JobId=7 JobName=x StdOut={log} StdErr={log}")} if kind == "output named by Slurm" else {}
    return top, Flip(place, other), jobs


def turned(top: Path, flip: Flip, jobs: Jobs) -> Iterator[str]:
    """Yield the output for an exchange before each step, undone never or one to three steps later."""
    for first in range(1, look(top, jobs).steps + 2):
        for after in range(4):
            yield look(top, jobs, _at(flip, {first, first + after} if after else {first})).out
            if flip.turned:
                flip.turn()


def _at(flip: Flip, steps: Collection[int]) -> Callable[[int], None]:
    def act(step: int) -> None:
        if step in steps:
            flip.turn()

    return act
