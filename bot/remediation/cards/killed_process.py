"""What an approver must know of a process before it is killed, from the facts of `procs`: owner, age, job, command line.

It is not part of the signed action, which names the process by pid and start time.
"""

from collections.abc import Iterable, Sequence

from bot.cards.text import Line, Part, bold, code, strip_markup
from kb.redact import redact
from tools.action import Action
from tools.fact import Fact, Status

KnownRows = Sequence[tuple[str, str]]  # (name, value) rows stored with a card and shown on it.
MAX_VALUE_CHARS = 64
MAX_COMMAND_LINE_CHARS = 200
PROCESS_REMEDIES = frozenset({"kill_gpu_process"})
GPU_PROCESS_KEYS = ("proc.orphan", "proc.gpu_memory")


def build_process_rows(action: Action, facts: Iterable[Fact]) -> KnownRows:
    """Return what the latest facts say of the process; empty for other remedies."""
    if action.remedy not in PROCESS_REMEDIES:
        return ()
    pid = action.args.get("pid", "")
    own = [
        fact
        for fact in facts
        if fact.host == action.target
        and fact.key in GPU_PROCESS_KEYS
        and fact.status is Status.OK
        and str(fact.attrs.get("pid", "")) == pid
    ]
    if not own:
        return (("process", "the last look at the host did not list it"),)
    attrs, memory = own[-1].attrs, {fact.device: fact.value for fact in own}
    rows = [
        ("owner", str(attrs.get("user", ""))),
        ("age", format_age(int(attrs["seconds"])) if "seconds" in attrs else ""),
        ("job", str(attrs.get("job", "")) or "none"),
        ("GPU memory", f"{sum(value for value in memory.values() if isinstance(value, int)):,} MiB"),
        ("why", next((str(fact.attrs["why"]) for fact in own if fact.attrs.get("why")), "")),
        ("command line", str(attrs.get("args") or attrs.get("name", ""))),
    ]
    most = {"command line": MAX_COMMAND_LINE_CHARS}
    return [
        (name, strip_markup(redact(value))[: most.get(name, MAX_VALUE_CHARS)] or "not known")
        for name, value in rows
        if value or name != "why"
    ]


def format_age(seconds: int) -> str:
    """Return `1 d 1 h` or `12 min`."""
    for unit, size, lesser, part in (("d", 86_400, "h", 3600), ("h", 3600, "min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit} {seconds % size // part} {lesser}"
    return f"{seconds // 60} min" if seconds >= 60 else f"{seconds} s"


def render_process_lines(known: KnownRows) -> list[Line]:
    """Render `owner alice · age 1 d 1 h · job none` and the command line."""
    if not known:
        return []
    first: list[Part] = []
    for name, value in known:
        parts: list[Part] = [value] if name == "why" else [f"{name} ", bold(value)]
        first += [" · " if first else "", *parts] if name != "command line" else []
    return [tuple(first), *(("runs ", code(value)) for name, value in known if name == "command line")]
