"""Two sections of a report: what each part of RackMedic is worth, and what the sandbox's stand-in showed of model arms, which is no model's figure."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.bench.arms import ARMS, NO_MODEL

Doc = Mapping[str, Any]


def whole_arms(doc: Doc) -> dict[str, Any]:
    """Arms with figures of their own: those that ran, without parts left out and without the stand-in's."""
    return {name: row for name, row in doc["arms"].items() if "not_run" not in row and not row.get("stand_in") and not ARMS[name].part}


def left_out(doc: Doc, layers: Sequence[str]) -> str:
    """Every part that was left out, beside the whole on the same cases."""
    rows = []
    for name, row in doc["arms"].items():
        whole = doc["arms"].get(ARMS[name].part, {})
        if ARMS[name].part and not {"not_run", "stand_in"} & {key for key in row if row[key]} and whole.get("by_layer"):
            rows.append([ARMS[name].title.partition(" ")[2], *_against(doc, name, row, whole, layers)])
    if not rows:
        return ""
    whole = next(doc["arms"][ARMS[name].part] for name in doc["arms"] if ARMS[name].part in doc["arms"])
    rows.insert(0, ["nothing left out", *_cells(whole, layers), "", ""])
    head = ["RackMedic", *(f"F1, {layer}" for layer in layers), "abstains", "makespan s", "exclusive GPU s", "lost / won", "p"]
    words = (
        "The product with one part left out, on the same cases. F1 is micro at the leaf; lost are cases that only the whole product has right, "
        "won those that only the rest has, p is the exact McNemar test's."
    )
    return f"## What each part is worth\n\n{words}\n\n{table(head, rows)}"


def _against(doc: Doc, name: str, row: Mapping[str, Any], whole: Mapping[str, Any], layers: Sequence[str]) -> list[str]:
    part = ARMS[name].part
    pair = doc["paired"].get(f"{part} / {name}")
    flipped = doc["paired"].get(f"{name} / {part}")
    lost, won, p = (pair["only_one"], pair["only_other"], pair["p"]) if pair else (flipped["only_other"], flipped["only_one"], flipped["p"])
    return [*_cells(row, layers, whole), f"{lost} / {won}", f"{p:.2g}"]


def _cells(row: Mapping[str, Any], layers: Sequence[str], whole: Mapping[str, Any] | None = None) -> list[str]:
    cells = []
    for layer in layers:
        f1 = row["by_layer"][layer]["micro_f1"]["l3"] if layer in row["by_layer"] else None
        less = f" ({f1 - whole['by_layer'][layer]['micro_f1']['l3']:+.3f})" if f1 is not None and whole else ""
        cells.append("–" if f1 is None else f"{f1:.3f}{less}")
    return [*cells, f"{row['abstaining']['share']:.2f}", f"{row['cost']['makespan']:.0f}", f"{row['cost']['gpu_seconds']:.0f}"]


def stand_in(doc: Doc) -> str:
    """What questions cost in size and number, where the sandbox answered them."""
    rows = []
    for name, row in doc["arms"].items():
        if row.get("stand_in"):
            cost = row["cost"]
            asked = ", ".join(f"{question} {n:g}" for question, n in row["questions"].items())
            rows.append([name, ARMS[name].title, str(row["n"]), f"{cost['calls']:.2f}", f"{cost['tokens_in']:.0f} / {cost['tokens_out']:.0f}",
                         f"{cost['usd']:.4f}", asked, str(row["troubles"])])  # fmt: skip
    if not rows:
        return ""
    words = (
        "These arms were answered by the sandbox's `stand-in`, which understands nothing: what they diagnosed says nothing and is left out. "
        "How many questions a design asks and how long they are is real as far as it does not depend on the answers; its short answers are "
        "not a model's, and its tokens are four characters each."
    )
    head = ["arm", "what it is", "cases", "calls", "tokens in / out", "USD", "questions a case", "troubles"]
    return f"## Questions put to the stand-in (no model's figures)\n\n{words}\n\n{table(head, rows)}"


def not_run(doc: Doc) -> list[str]:
    """A line for each arm without figures, and why."""
    rows = [f"- {name} ({ARMS[name].title}): {row['not_run']}" for name, row in doc["arms"].items() if "not_run" in row]
    stood = [name for name, row in doc["arms"].items() if row.get("stand_in")]
    rows += [f"- {name} ({ARMS[name].title}): {NO_MODEL}; the stand-in is none" for name in stood]
    for name, row in doc["arms"].items():
        if row.get("failed"):
            apart = f", {row['not_recorded']} of them not recorded" if row.get("not_recorded") else ""
            rows.append(f"- {name}: {row['failed']} runs failed{apart} ({'; '.join(row['why_failed'])})")
    return rows


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows])
