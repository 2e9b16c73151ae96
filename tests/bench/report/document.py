"""The results as Markdown with SVG figures: tables with intervals, arms not run, and the hardest cases. Pure except for
files.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.bench.aidai.report import section as aidai_again
from tests.bench.arms.table import ARMS
from tests.bench.gates import Gate, difficulty
from tests.bench.loop.report import section as closed_loop
from tests.bench.model.scores import section as recorded
from tests.bench.published.report import real_texts
from tests.bench.questions.report import section as questions
from tests.bench.report import tables as tables
from tests.bench.report.hardest import told
from tests.bench.report.parts import least, left_out, not_run, stand_in, table, whole_arms

Doc = Mapping[str, Any]
LAYERS = ("easy", "hard", "wild", "composite", "unseen", "control")
CAVEAT = (
    "Every figure carries a 95 % bootstrap interval in brackets. These clusters are simulated, and the rules and the simulator read the same "
    "public documents: figures compare ways of diagnosing on equal terms, and say nothing of how often a real cluster is diagnosed right."
)


def markdown(doc: Doc, made_by: str = "") -> str:
    played = closed_loop(doc)
    if not doc["arms"]:
        return "\n\n".join(filter(None, [_head(doc, made_by), played])) + "\n"
    parts = [
        _head(doc, made_by),
        tables.by_layer(doc, _present(doc)),
        tables.seeds(doc),
        tables.levels(doc),
        _gates(doc),
        tables.categories(doc),
        tables.places(doc),
        tables.remedies(doc),
        tables.safety(doc),
        tables.costs(doc),
        tables.confidence(doc),
        tables.paired(doc),
        left_out(doc, _present(doc)),
        least(doc),
        stand_in(doc),
        _not_run(doc),
        real_texts(doc),
        questions(doc),
        recorded(),
        aidai_again(),
        played,
        told(doc),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _ran(doc: Doc) -> dict[str, Any]:
    return whole_arms(doc)


def _head(doc: Doc, made_by: str) -> str:
    layers = ", ".join(f"{name} {sum(row['layer'] == name for row in doc['case_rows'].values())}" for name in _present(doc))
    command = made_by or doc.get("command", "")
    where = doc.get("environment", {})
    machine = ", ".join(f"{where[name]}" for name in ("cpu", "cores", "python", "platform") if name in where)
    took = f"{doc['cpu_seconds']:.0f} s of CPU in {doc['wall_seconds']:.0f} s" if doc.get("cpu_seconds") else ""
    seed = f"seed {doc['seed']}, {doc['attempts']} attempt(s) each, transport {doc['transport']}"
    posed = f"Version {doc.get('benchmark', 1)} of the benchmark, {doc['cases']} cases ({layers}), {seed}."
    lines = [
        "# gpu-incident-bench: results",
        posed,
        f"Made by `{command}`" + (f" on {machine}" if machine else "") + (f"; {took}" if took else "") + "." if command else "",
        CAVEAT,
    ]
    return "\n\n".join(filter(None, lines))


def _present(doc: Doc) -> list[str]:
    there = {row["layer"] for row in doc["case_rows"].values()}
    return [name for name in LAYERS if name in there] + sorted(there - set(LAYERS))


def gates(doc: Doc) -> list[dict[str, Any]]:
    """Return the gates, or the difficulty of this run, with frozen figures beside today's. The oracle is checked on
    generated cases only, because it sees injected faults but not handwritten outputs.
    """
    today = {name: row["by_layer"]["hard"]["micro_f1"]["l3"] for name, row in _ran(doc).items() if "hard" in row["by_layer"]}
    held, as_of = doc.get("frozen") or ({}, "")
    found = [dict(row) for row in doc.get("gates") or [gate.plain() for gate in difficulty(today, "with the rules of today")]]
    for row in found:
        arm = row["name"].partition(" on hard")[0]
        row["says"] += f"; {held[arm]:.3f} when frozen ({as_of})" if held and arm in held else ""
    layers = doc["arms"].get("B10", {}).get("by_layer", {})
    if marks := [row["accuracy"] for name, row in layers.items() if name != tables.WILD]:
        n, value = sum(row["n"] for row in marks), min(row["value"] for row in marks)
        found.append(
            Gate("oracle", f"{value:.3f}", "1.000", value == 1, f"B10, which sees the state, on {n} cases, its worst layer").plain()
        )
    return found


def _gates(doc: Doc) -> str:
    rows = [[row["name"], row["measured"], row["limit"], "held" if row["held"] else "**broken**", row["says"]] for row in gates(doc)]
    words = (
        "A broken gate speaks against the benchmark, not against a solver. Baselines run with the rules of today: where one is too good, the layer is "
        "too easy."
    )
    return f"## Gates of the benchmark itself\n\n{words}\n\n" + table(["gate", "measured", "limit", "", "what"], rows) if rows else ""


def _not_run(doc: Doc) -> str:
    rows = not_run(doc)
    return "## Not run\n\n" + "\n".join(rows) if rows else ""


def draw(doc: Doc, folder: Path) -> list[Path]:
    """Draw micro F1 by layer with intervals, and risk against coverage, as SVG."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "bench"  # makes the file reproducible
    folder.mkdir(parents=True, exist_ok=True)
    return [_draw_layers(doc, folder / "layers.svg"), _draw_risk(doc, folder / "risk.svg")]


def _draw_layers(doc: Doc, path: Path) -> Path:
    from matplotlib import pyplot

    layers, ran = _present(doc), _ran(doc)
    figure, axes = pyplot.subplots(figsize=(8, 3.6))
    width = 0.8 / max(len(ran), 1)
    for i, (name, row) in enumerate(ran.items()):
        there = [(j, row["by_layer"][layer]) for j, layer in enumerate(layers) if layer in row["by_layer"]]
        middle = [figures["micro_f1"]["l3"] for _, figures in there]
        ends = [figures["ci95"]["micro_l3"] for _, figures in there]
        low, high = (
            [max(0.0, m - e[0]) for m, e in zip(middle, ends, strict=True)],
            [max(0.0, e[1] - m) for m, e in zip(middle, ends, strict=True)],
        )
        axes.bar([j + i * width for j, _ in there], middle, width * 0.9, yerr=[low, high], label=name, error_kw={"lw": 0.8})
    axes.set_xticks([j + width * (len(ran) - 1) / 2 for j in range(len(layers))], layers)
    axes.set_ylabel("micro F1 at the leaf")
    axes.set_ylim(0, 1.05)
    axes.legend(ncols=6, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, 1.18), frameon=False)
    return _saved(figure, path)


def _draw_risk(doc: Doc, path: Path) -> Path:
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(5, 3.2))
    for name, row in _ran(doc).items():
        curve = (row["calibration"] or {}).get("risk_coverage", [])
        if curve and ARMS[name].looks:
            axes.plot([x for x, _ in curve], [y for _, y in curve], marker="o", ms=3, label=name)
    axes.set_xlabel("share of cases answered with that confidence or more")
    axes.set_ylabel("share of them wrong")
    if axes.get_lines():
        axes.legend(fontsize=8, frameon=False)
    return _saved(figure, path)


def _saved(figure: Any, path: Path) -> Path:
    from matplotlib import pyplot

    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
    return path
