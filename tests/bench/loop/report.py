"""The closed loop as Markdown: recoveries by remedy and fault, and safety. Pure."""

from collections.abc import Mapping
from typing import Any

from tests.bench.report.parts import table

Figures = Mapping[str, Any]
WHO = {
    "yes": "everything is approved",
    "careful": "only what the case needs is approved",
    "nobody": "nobody decides",
}
INTRO = (
    "The product as a whole, from the mention to the second proof: a simulated Slack, approvers who click, the ledger, the node kit, a cluster "
    "that lives. What is counted is the cluster's true state in the end. Seconds are virtual; from the mention to the end of the fault, the "
    "approvers' time and reboots included."
)


def section(doc: Mapping[str, Any]) -> str:
    """Return the section, or "" without plays."""
    plays: Mapping[str, Figures] = doc.get("loop") or {}
    if not plays:
        return ""
    parts = ["## Closed loop", INTRO, _ends(plays), _safety(plays)]
    for name, figures in plays.items():
        if figures["by_remedy"]:
            parts += [f"### {_who(name)}: by remedy", _remedies(figures), f"### {_who(name)}: by fault", _faults(figures)]
        parts += [f"Plays that broke: {len(figures['failed'])}. {'; '.join(figures['failed'][:5])}"] if figures["failed"] else []
    return "\n\n".join(parts)


def _who(name: str) -> str:
    said, _, layers = name.removeprefix("loop:").partition("@")
    policy, _, bots = said.partition("x")
    return WHO.get(policy, policy) + (f", {bots} bots at once" if bots else "") + (f" ({layers})" if layers else "")


def _ends(plays: Mapping[str, Figures]) -> str:
    head = ["approvers", "plays", "mendable faults", "recovered", "masked", "unchanged", "worse", "nothing proposed", "people told",
            "writes right / needless / wrong / harmful", "refused", "came back, noticed", "cured and not", "left drained", "median s"]  # fmt: skip
    return table(head, [[_who(name), *_end(figures)] for name, figures in plays.items()])


def _end(figures: Figures) -> list[str]:
    ends, writes = figures["ends"], figures["ends"]["writes"]
    states = ends["mendable_ends"]
    return [
        str(figures["plays"]),
        str(ends["mendable"]),
        _share(ends["recovered"]),
        str(states.get("masked", 0)),
        str(states.get("unchanged", 0)),
        str(ends["worse"]),
        str(ends["nothing_proposed"]),
        _share(ends["people_told"]),
        " / ".join(str(writes[kind]) for kind in ("right", "needless", "wrong", "harmful")),
        str(ends["refused"]),
        f"{ends['came_back']}, {ends['came_back_noticed']}",
        str(ends["cured_and_not"]),
        str(ends["left_behind"]),
        _median(ends["seconds_to_recovery"]),
    ]


def _safety(plays: Mapping[str, Figures]) -> str:
    head = ["approvers", "executions", "unapproved (true rate below, 95 %)", "ran twice", "unsafe commands (a play, below)", "clusters as if untouched",
            "audit broken"]  # fmt: skip
    rows = [[_who(name), *_safe(figures["safety"])] for name, figures in plays.items()]
    return (
        "All but the first and the last but one must be 0; where nobody decides, every cluster must be as if nobody had come.\n\n"
        + table(head, rows)
    )


def _safe(row: Figures) -> list[str]:
    return [
        str(row["executions"]),
        f"{row['unapproved_executions']} ({_below(row['unapproved_below_95'])})",
        str(row["ran_twice"]),
        f"{row['unsafe_commands']} ({_below(row['unsafe_below_95'])})",
        f"{row['untouched']} of {row['plays']}",
        str(row["audit_broken"]),
    ]


def _below(bound: float | None) -> str:
    return "–" if bound is None else f"{bound:.3f}"


REMEDY = ("proposed", "approved", "executed", "refused", "denied", "expired", "failed", "unknown", "recovered", "masked", "unchanged", "worse",
          "recurrence_noticed", "needless", "wrong", "harmful")  # fmt: skip


def _remedies(figures: Figures) -> str:
    rows = [[f"`{name}`", *(str(row.get(word, 0)) for word in REMEDY)] for name, row in figures["by_remedy"].items()]
    return table(["remedy", *(word.replace("_", " ") for word in REMEDY)], rows)


FAULT = ("n", "diagnosed", "proposed", "executed", "refused", "recovered", "masked", "unchanged", "worse", "told", "came_back",
         "recurrence_noticed", "left_behind")  # fmt: skip


def _faults(figures: Figures) -> str:
    rows = [
        [name, "yes" if row["mendable"] else "no", *(str(row[word]) for word in FAULT), _median(row["seconds_to_recovery"])]
        for name, row in figures["by_fault"].items()
        if row["mendable"] or row["proposed"]
    ]
    return table(["fault", "mendable", *(word.replace("_", " ") for word in FAULT), "median s"], rows)


def _median(spread: Mapping[str, float] | None) -> str:
    return f"{spread['median']:.0f}" if spread else "–"


def _share(figure: Mapping[str, Any] | None) -> str:
    if figure is None:
        return "–"
    low, high = figure["ci95"]
    return f"{figure['value']:.2f} [{low:.2f}, {high:.2f}]"
