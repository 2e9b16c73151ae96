"""The row of the tables: one ordinary breakage of a rack, and the right answer."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal

from deploy.lab.layout import Rack

GPU_HOSTS = "gpu-[001-003]"
Area = Literal[
    "services", "scheduler", "storage", "login", "names", "network", "limits", "tasks", "system", "hardware", "fabric", "controls"
]


@dataclass(frozen=True, slots=True)
class Step:
    """A shell command as root on one host or several (`gpu-[001-003]`). With `outside` it runs on this machine, in the network namespace of
    the host: sysctls of the network are read-only inside.
    """

    hosts: str
    shell: str
    outside: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakage:
    """One breakage. A right answer leads with one of `right`, on `at_fault` alone.

    Attributes:
        report: A user's plain report.
        at_fault: Folded hosts that may be accused; empty if no host is at fault.
        do: Steps that break it, in order.
        undo: Steps that repair it, in order.
        sign: Succeeds exactly while it is broken.
        sign_seconds: Limit for the sign to appear and to disappear.
        right: Last parts of labels (`STORAGE.Shm_Full`), and abnormal facts as KEY or KEY:DEVICE
            (`service.state:slurmd`), with `*`. For a control: facts that may be reported although nothing is broken.
        unobserved: Checks for which "could not look" is right too; `*` is any.
        hosts: Value of `--hosts`, if any.
        tier: 2 for one breakage of each kind, 3 for the others.
        kind: Number of the paragraph of the first report that described it; 0 for later ones.
        settings: Additional settings, as NAME=VALUE.
        around: Context needed while it is played.
        known_wrong: Why the answer is still wrong; the test expects it to fail.
    """

    id: str
    area: Area
    report: str
    at_fault: str
    do: tuple[Step, ...] = ()
    undo: tuple[Step, ...] = ()
    sign: Step | None = None
    sign_seconds: float = 20.0
    right: tuple[str, ...] = ()
    unobserved: tuple[str, ...] = ()
    hosts: str = ""
    tier: Literal[2, 3] = 3
    kind: int = 0
    settings: tuple[str, ...] = ()
    around: Callable[[Rack], AbstractContextManager[None]] | None = None
    known_wrong: str = ""

    @property
    def is_control(self) -> bool:
        return self.area == "controls"


def background(command: str) -> str:
    """Return a shell line that starts a background command in its own process group, outside systemd's units."""
    return f"setsid -f sh -c 'echo $$ > /run/background; {command}' > /dev/null 2>&1 < /dev/null"


END_BACKGROUND = "pkill -KILL -g $(cat /run/background); rm /run/background"


def base(*parts: str) -> tuple[str, ...]:
    """Return the baseline facts that name one of these parts."""
    return tuple(f"{key}:*{part}*" for key in ("base.broken", "base.answer", "base.count", "peer.differs") for part in parts)


def service(name: str) -> tuple[str, ...]:
    """Return the facts about a service's state."""
    return (f"service.state:{name}*", f"service.event:{name}*", *base(name))


def on_one_host(
    area: Area,
    id_: str,
    host: str,
    report: str,
    commands: tuple[str, str, str],
    right: tuple[str, ...],
    *,
    tier: Literal[2, 3] = 3,
    kind: int = 0,
    known_wrong: str = "",
) -> Breakage:
    """Return a breakage of one command on one host; `commands`: break, repair, sign."""
    do, undo, sign = (Step(host, command) for command in commands)
    return Breakage(
        id=id_,
        area=area,
        report=report,
        at_fault=host,
        do=(do,),
        undo=(undo,),
        sign=sign,
        right=right,
        tier=tier,
        kind=kind,
        known_wrong=known_wrong,
    )
