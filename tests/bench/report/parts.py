"""Report sections: the value of each part of RackMedic, and the stand-in's question counts, which are not a model's
figures.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.bench.arms.table import ARMS, NO_MODEL

Doc = Mapping[str, Any]


def whole_arms(doc: Doc) -> dict[str, Any]:
    """Return the arms that ran, without ablations and the stand-in's."""
    return {name: row for name, row in doc["arms"].items() if "not_run" not in row and not row.get("stand_in") and not ARMS[name].part}


def left_out(doc: Doc, layers: Sequence[str]) -> str:
    """Return every ablation beside the whole on the same cases."""
    tables = []
    head = ["", *(f"F1, {layer}" for layer in layers), "abstains", "makespan s", "exclusive GPU s", "lost / won", "p"]
    for whole, figures in whole_arms(doc).items():
        rows = [[_says(name), *_against(doc, name, row, figures, layers)] for name, row in doc["arms"].items() if _counts(name, row, whole)]
        if rows:
            tables.append(table([whole, *head[1:]], [["nothing left out", *_cells(figures, layers), "", ""], *rows]))
    words = (
        "The product with one part left out, on the same cases. F1 is micro at the leaf; lost are cases that only the whole product has right, "
        "won those that only the rest has, p is the exact McNemar test's. A model that knows the truth and says it (or the opposite) at every "
        "question shows the most (and the least) that any model could make of it."
    )
    return "\n\n".join(["## What each part is worth", words, *tables]) if tables else ""


def _counts(name: str, row: Mapping[str, Any], whole: str) -> bool:
    return ARMS[name].part == whole and "not_run" not in row and not row.get("stand_in")


def _says(name: str) -> str:
    return ARMS[name].title.partition(" ")[2]


# the paper's Table 5 and Figure 10: GPT-4o, one machine, seconds of real scripts
AIDAI = ["AidAI, published (other data, private)", "10.20", "31801 / 2225", "0.1020", "304", "–", "–"]


def least(doc: Doc) -> str:
    """Return what two designs ask of an always-right model: calls, tokens and checks."""
    shown = [name for name in ("B6-sage", "B8-sage") if "not_run" not in doc["arms"].get(name, {"not_run": ""})]
    rows = []
    for name in shown:
        cost = doc["arms"][name]["cost"]
        tokens = f"{cost['tokens_in']:.0f} / {cost['tokens_out']:.0f}"
        looks = [f"{cost['makespan']:.0f}", f"{cost['check_seconds']:.0f}", f"{cost['gpu_seconds']:.0f}"]
        rows.append([f"{name}: {ARMS[name].title}", f"{cost['calls']:.2f}", tokens, f"{cost['usd']:.4f}", *looks])
    if not rows:
        return ""
    words = (
        "A model that knows the truth and says it at every question stands in a model's place, so this is the least that a design asks of one; "
        "nothing here says how right a real one is. Tokens are four characters each, the shape of the answer counted as asked; its answers are "
        "shorter than a model's. USD at GPT-4o's prices. Published seconds are of another catalogue: only ratios of one run may be compared."
    )
    head = ["design", "calls", "tokens in / out", "USD", "makespan s", "check s", "exclusive GPU s"]
    return f"## The least that a design asks of a model\n\n{words}\n\n{table(head, [*rows, AIDAI])}"


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
    """Return number and size of questions where the stand-in answered."""
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
    """Return a line for each arm without figures, and why."""
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
