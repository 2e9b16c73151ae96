"""What an approver must know of a process before it is killed: whose it is, how old, for which job, what it is. From the facts of `procs`.

It is shown beside the action and is no part of it: what is approved is the process of that number and start.
"""

from collections.abc import Iterable, Sequence

from bot.cards.text import Line, Part, bold, code, strip_markup
from kb.redact import redact
from tools.action import Action
from tools.fact import Fact, Status

KnownRows = Sequence[tuple[str, str]]
"""Names and values, as they are noted with a card and shown."""
MAX_VALUE_CHARS, MAX_COMMAND_LINE_CHARS = 64, 200
PROCESS_REMEDIES = frozenset({"kill_gpu_process"})
"""Remedies that end a process."""
GPU_PROCESS_KEYS = ("proc.orphan", "proc.gpu_memory")


def build_process_rows(action: Action, facts: Iterable[Fact]) -> KnownRows:
    """What is known of the process that the action ends, as of the latest look; empty for every other action."""
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
    """`1 d 1 h`, `12 min`."""
    for unit, size, lesser, part in (("d", 86_400, "h", 3600), ("h", 3600, "min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit} {seconds % size // part} {lesser}"
    return f"{seconds // 60} min" if seconds >= 60 else f"{seconds} s"


def render_process_lines(known: KnownRows) -> list[Line]:
    """`owner alice · age 1 d 1 h · job none`, and below it the command line."""
    if not known:
        return []
    first: list[Part] = []
    for name, value in known:
        said: list[Part] = [value] if name == "why" else [f"{name} ", bold(value)]
        first += [" · " if first else "", *said] if name != "command line" else []
    return [tuple(first), *(("runs ", code(value)) for name, value in known if name == "command line")]
