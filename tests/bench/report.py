"""Results as Markdown and figures as SVG: tables with intervals, what was not run and why, and the hardest cases explained. Pure but for the files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.bench.arms import ARMS
from tests.bench.hardest import told
from tests.bench.loop_report import section as closed_loop
from tests.bench.report_parts import left_out, not_run, stand_in, table, whole_arms

Doc = Mapping[str, Any]
LAYERS = ("easy", "hard", "composite", "unseen", "control")
GATES = {"B4r": 0.85, "B1": 0.45}
"""What the frozen baselines may reach on the hard layer; more, and the layer is too easy to say anything."""

CAVEAT = (
    "Every figure carries a 95 % bootstrap interval in brackets. These clusters are simulated, and the rules and the simulator read the same "
    "public documents: figures compare ways of diagnosing on equal terms, and say nothing of how often a real cluster is diagnosed right."
)


def markdown(doc: Doc, made_by: str = "") -> str:
    """The whole report."""
    played = closed_loop(doc)
    parts = (
        [_head(doc, made_by), played]
        if not doc["arms"]
        else [
            _head(doc, made_by),
            _layers(doc),
            _gates(doc),
            _figures(doc),
            _categories(doc),
            _costs(doc),
            _paired(doc),
            left_out(doc, _present(doc)),
            stand_in(doc),
            _not_run(doc),
            told(doc),
            played,
        ]
    )
    return "\n\n".join(part for part in parts if part) + "\n"


def _ran(doc: Doc) -> dict[str, Any]:
    return whole_arms(doc)


def _head(doc: Doc, made_by: str) -> str:
    layers = ", ".join(f"{name} {sum(row['layer'] == name for row in doc['case_rows'].values())}" for name in _present(doc))
    lines = [
        "# gpu-incident-bench: results",
        f"{doc['cases']} cases ({layers}), seed {doc['seed']}, {doc['attempts']} attempt(s) each, transport {doc['transport']}.",
        f"Made by `{made_by}`." if made_by else "",
        CAVEAT,
    ]
    return "\n\n".join(filter(None, lines))


def _present(doc: Doc) -> list[str]:
    there = {row["layer"] for row in doc["case_rows"].values()}
    return [name for name in LAYERS if name in there] + sorted(there - set(LAYERS))


def _layers(doc: Doc) -> str:
    layers = _present(doc)
    rows = []
    for name, row in _ran(doc).items():
        cells = [_micro(row["by_layer"].get(layer), 3) for layer in layers]
        rows.append([name, ARMS[name].title, *cells])
    return "## Micro F1 at the leaf, by layer\n\n" + table(["arm", "what it is", *layers], rows)


def _micro(figures: Mapping[str, Any] | None, level: int) -> str:
    if not figures:
        return "–"
    low, high = figures["ci95"][f"micro_l{level}"]
    return f"{figures['micro_f1'][f'l{level}']:.3f} [{low:.2f}, {high:.2f}]"


def gates(doc: Doc) -> list[tuple[str, float, float, bool]]:
    """(arm, measured, limit, held) of every difficulty gate, and of the oracle, on what was run."""
    found = []
    for name, most in GATES.items():
        hard = doc["arms"].get(name, {}).get("by_layer", {}).get("hard")
        if hard:
            measured = hard["micro_f1"]["l3"]
            found.append((name, measured, most, measured <= most))
    oracle = doc["arms"].get("B10", {})
    if oracle.get("accuracy"):
        found.append(("B10", oracle["accuracy"]["value"], 1.0, oracle["accuracy"]["value"] == 1.0))
    return found


def _gates(doc: Doc) -> str:
    rows = gates(doc)
    if not rows:
        return ""
    shown = [
        [name, f"{'= ' if name == 'B10' else '≤ '}{most:g}", f"{got:.3f}", "held" if held else "**broken**"]
        for name, got, most, held in rows
    ]
    words = "The baselines are frozen: where one is too good, the layer is too easy. The oracle proves that every case has an answer."
    return f"## Gates of the benchmark itself\n\n{words}\n\n" + table(["arm", "limit", "measured", ""], shown)


def _figures(doc: Doc) -> str:
    rows = [[name, *_cells(row)] for name, row in _ran(doc).items()]
    head = [
        "arm",
        "macro F1 l3",
        "micro l1 / l2",
        "hosts exact",
        "devices exact",
        "grounded",
        "abstains (precision)",
        "Brier / ECE",
        "remedy correct (harmful)",
    ]
    return "## All layers together\n\n" + table(head, rows)


def _cells(row: Mapping[str, Any]) -> list[str]:
    remedy, calibration, silent = row["remedy"], row["calibration"], row["abstaining"]
    wise = "–" if silent["precision"] is None else f"{silent['precision']:.2f}"
    return [
        f"{row['macro_f1']['l3']:.3f} [{row['ci95']['macro_l3'][0]:.2f}, {row['ci95']['macro_l3'][1]:.2f}]",
        f"{row['micro_f1']['l1']:.3f} / {row['micro_f1']['l2']:.3f}",
        _mean(row["localisation"]["hosts_exact"]),
        _mean(row["localisation"]["devices_exact"]),
        _mean(row["grounding"]["grounded"]),
        f"{silent['share']:.2f} ({wise})",
        f"{calibration['brier']:.3f} / {calibration['ece']:.3f}" if calibration else "–",
        f"{remedy['correct']:.2f} ({remedy['harmful']:.2f})" if remedy else "–",
    ]


def _mean(figure: Mapping[str, Any] | None) -> str:
    return f"{figure['value']:.3f} [{figure['ci95'][0]:.2f}, {figure['ci95'][1]:.2f}]" if figure else "–"


def _categories(doc: Doc) -> str:
    ran = _ran(doc)
    names = sorted({name for row in ran.values() for name in row["by_category"]})
    rows = [[name, *(_mean(row["by_category"].get(name)) for row in ran.values())] for name in names]
    return "## Micro F1 at the leaf, by what was wrong\n\nPooled figures hide who is good at what.\n\n" + table(["category", *ran], rows)


def _costs(doc: Doc) -> str:
    ran = {name: row for name, row in _ran(doc).items() if row["cost"]["checks"]}
    base = ran.get("B4r", ran.get("B4"))
    rows = []
    for name, row in ran.items():
        cost, ratio = row["cost"], "–"
        if base and base["cost"]["makespan"]:
            ratio = f"{cost['makespan'] / base['cost']['makespan']:.3f}, p95 {cost['makespan_p95'] / base['cost']['makespan_p95']:.3f}"
        rows.append(
            [name, f"{cost['makespan']:.0f}", f"{cost['makespan_p95']:.0f}", ratio, f"{cost['check_seconds']:.0f}", f"{cost['gpu_seconds']:.0f}",
             f"{cost['checks']:.0f}", f"{cost['calls']:.1f}", f"{cost['tokens_in']:.0f} / {cost['tokens_out']:.0f}", f"{cost['usd']:.4f}",
             f"{row['wall_seconds_a_case']:.2f}"]
        )  # fmt: skip
    unsafe = "; ".join(
        f"{name} {row['safety']['unsafe_commands']} unsafe, {row['safety']['changed_clusters']} changed in {row['safety']['runs']} runs"
        f" (true rate below {row['safety']['rate_below_95']:.2%} with 95 % certainty)"
        for name, row in ran.items()
    )
    head = [
        "arm",
        "makespan s",
        "p95",
        "of everything",
        "check s",
        "exclusive GPU s",
        "checks",
        "calls",
        "tokens in / out",
        "USD",
        "real s",
    ]
    return (
        "## What it takes, mean a case\n\nSeconds are the transport's (virtual in process).\n\n"
        + table(head, rows)
        + f"\n\nSafety: {unsafe}."
    )


def _paired(doc: Doc) -> str:
    rows = [
        [pair, str(row["only_one"]), str(row["only_other"]), f"{row['p']:.2g}"]
        for pair, row in doc["paired"].items()
        if "B10" not in pair and "B0" not in pair and "-" not in pair
    ]
    return (
        "## Two arms on the same cases (exact McNemar)\n\n" + table(["pair", "only the first right", "only the second right", "p"], rows)
        if rows
        else ""
    )


def _not_run(doc: Doc) -> str:
    rows = not_run(doc)
    return "## Not run\n\n" + "\n".join(rows) if rows else ""


def draw(doc: Doc, folder: Path) -> list[Path]:
    """Micro F1 by layer with intervals, and risk against coverage, as SVG."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "bench"  # the same results give the same file
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
