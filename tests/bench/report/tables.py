"""The report's tables, one arm per row: labels, localisation, evidence, remedies, safety, cost, confidence."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.bench.arms.table import ARMS
from tests.bench.report.parts import table, whole_arms

Doc = Mapping[str, Any]
HEADLINE, WILD = "hard", "wild"
LEVELS = ("l1", "l2", "l3")


def levels(doc: Doc) -> str:
    """Render F1 at three levels for the headline layers and overall."""
    parts = [_levels(doc, layer) for layer in (HEADLINE, WILD) if any(layer in row["by_layer"] for row in whole_arms(doc).values())]
    words = "Level 1 is the category, 2 the branch, 3 the leaf. Micro F1 weighs every case alike, macro F1 every label. Brackets are 95 % intervals."
    return f"## Labels at three levels\n\n{words}\n\n" + "\n\n".join([*parts, _levels(doc, "")])


def _levels(doc: Doc, layer: str) -> str:
    rows = []
    for name, arm in whole_arms(doc).items():
        of = arm["by_layer"].get(layer) if layer else arm
        if of:
            rows.append(
                [
                    name,
                    ARMS[name].title,
                    *(_f1(of, "micro", level) for level in LEVELS),
                    *(_f1(of, "macro", level) for level in ("l1", "l3")),
                ]
            )
    title = (
        f"Layer `{layer}`, {'the headline' if layer == HEADLINE else 'published incidents told anew'}:" if layer else "All layers together:"
    )
    return f"{title}\n\n" + table(["arm", "what it is", "micro l1", "micro l2", "micro l3", "macro l1", "macro l3"], rows)


def _f1(of: Mapping[str, Any], kind: str, level: str) -> str:
    low, high = of["ci95"][f"{kind}_{level}"]
    return f"{of[f'{kind}_f1'][level]:.3f} [{low:.2f}, {high:.2f}]"


def categories(doc: Doc) -> str:
    """Render micro F1 by category, on the hard layer if present."""
    ran = whole_arms(doc)
    hard = {name: row["by_layer"].get(HEADLINE, row) for name, row in ran.items()}
    layer = f"Layer `{HEADLINE}`" if any(HEADLINE in row["by_layer"] for row in ran.values()) else "All layers"
    names = sorted({name for row in hard.values() for name in row["by_category_levels"]})
    rows = [
        [name, level, str(_size(hard, name)), *(mean(row["by_category_levels"].get(name, {}).get(level)) for row in hard.values())]
        for name in names
        for level in LEVELS
    ]
    return f"## Micro F1 by what was wrong\n\nPooled figures hide who is good at what. {layer}.\n\n" + table(
        ["category", "level", "cases", *hard], rows
    )


def _size(ran: Mapping[str, Any], name: str) -> int:
    return max((row["by_category_levels"][name]["n"] for row in ran.values() if name in row["by_category_levels"]), default=0)


def places(doc: Doc) -> str:
    """Render localisation and grounding."""
    rows = []
    for name, row in whole_arms(doc).items():
        where = row["localisation"]
        if where["hosts_exact"]:
            exact = where["hosts_exact"]
            pair = f"{_plain(where['host_precision'])} / {_plain(where['host_recall'])}"
            rows.append([name, str(exact["n"]), mean(exact), pair, mean(where["devices_exact"]), mean(row["grounding"]["grounded"])])
    words = (
        "Over answers that name a cause where there is one. *Exact* is all guilty machines and no other: a job's, a switch's or a cluster's fault "
        "accuses none. *Grounded* is the share of right answers that cite a look which shows it, on the right machine."
    )
    head = ["arm", "answers", "hosts exact", "host precision / recall", "devices exact", "grounded"]
    return f"## Whose fault it is, and what shows it\n\n{words}\n\n" + table(head, rows)


def remedies(doc: Doc) -> str:
    rows = []
    for name, arm in whole_arms(doc).items():
        row = arm["remedy"]
        if row:
            shares = [f"{row[kind]:.3f}" for kind in ("correct", "acceptable", "wrong", "other")]
            harmful = f"{round(row['harmful'] * row['n'])} of {row['n']}, below {row['harmful_below_95']:.2%}"
            rows.append([name, str(row["n"]), *shares, harmful, mean(row["good"]), f"{row['needless_on_controls']} of {row['controls']}"])
    words = (
        "The first plan proposed for each cause, the worst counting. Harmful is a reset or a reboot of a machine that is not at fault; *below* is "
        "the rate that the true one stays under with 95 % certainty. Needless: proposed where nothing was wrong."
    )
    head = ["arm", "answers", "correct", "acceptable", "wrong", "other", "harmful", "correct or acceptable", "needless on controls"]
    return f"## What would be done\n\n{words}\n\n{table(head, rows)}" if rows else ""


def safety(doc: Doc) -> str:
    rows = []
    for name, arm in whole_arms(doc).items():
        row = arm["safety"]
        if ARMS[name].looks:
            commands = f"{row['unsafe_commands']}, below {row['commands_below_95']:.2%} of runs"
            changed = f"{row['changed_clusters']} of {row['runs']}, below {row['changed_below_95']:.2%}"
            rows.append([name, str(row["runs"]), commands, changed, str(arm.get("crashed", 0))])
    words = "Looking must change nothing and run nothing that is not in the catalogue of checks. Bounds hold with 95 % certainty."
    head = ["arm", "runs", "commands outside the catalogue", "clusters changed", "crashed (counts as wrong)"]
    return f"## Safety while looking\n\n{words}\n\n{table(head, rows)}" if rows else ""


def costs(doc: Doc) -> str:
    ran = {name: row for name, row in whole_arms(doc).items() if row["cost"]["checks"]}
    base = ran.get("B4r", ran.get("B4"))
    rows = []
    for name, row in ran.items():
        cost, ratio = row["cost"], "–"
        if base and base["cost"]["makespan"]:
            ratio = f"{cost['makespan'] / base['cost']['makespan']:.3f}, p95 {cost['makespan_p95'] / base['cost']['makespan_p95']:.3f}"
        rows.append(
            [name, f"{cost['makespan']:.0f}", f"{cost['makespan_p95']:.0f}", ratio, f"{cost['check_seconds']:.0f}", f"{cost['gpu_seconds']:.0f}",
             f"{cost['checks']:.0f}", f"{cost['calls']:.1f}", f"{cost['tokens_in']:.0f} / {cost['tokens_out']:.0f}", f"{cost['usd']:.4f}"]
        )  # fmt: skip
    words = "Seconds are the transport's: virtual in process, so that they compare arms and not machines. *Of everything* is against every check in turn."
    head = ["arm", "makespan s", "p95", "of everything", "check s", "exclusive GPU s", "checks", "calls", "tokens in / out", "USD"]
    return f"## What it takes, mean a case\n\n{words}\n\n{table(head, rows)}" if rows else ""


def confidence(doc: Doc) -> str:
    """Render calibration and abstention."""
    rows, curves = [], []
    for name, arm in whole_arms(doc).items():
        row, silent = arm["calibration"], arm["abstaining"]
        wise = "–" if silent["precision"] is None else f"{silent['precision']:.2f}"
        if row:
            stated = [
                str(row["n"]),
                f"{row['brier']:.3f}",
                f"{row['ece']:.3f}",
                f"{silent['share']:.2f}",
                wise,
                mean(arm.get("sure_and_wrong")),
            ]
            rows.append([name, *stated])
            if ARMS[name].looks:
                points = ", ".join(f"{risk:.3f} at {coverage:.0%}" for coverage, risk in row["risk_coverage"])
                curves.append(f"- {name}: {points}")
    if not rows:
        return ""
    words = (
        "Brier score and expected calibration error of the confidence that an arm states. An abstention is *wise* where nothing it could have "
        "named is right; in other layers it counts as wrong. *Sure and wrong*: a wrong cause with a confidence of 0.9 or more, of all cases."
    )
    head = ["arm", "stated", "Brier", "ECE", "abstains", "wisely", "sure and wrong"]
    risk = "Share of wrong answers among the surest, by how many of all cases they are:\n\n" + "\n".join(curves) if curves else ""
    return "\n\n".join(filter(None, [f"## How sure it is, and whether rightly\n\n{words}\n\n{table(head, rows)}", risk]))


def paired(doc: Doc) -> str:
    """Render exact McNemar tests; on the hard layer against the product."""
    parts = []
    for title, key in ((f"Layer `{HEADLINE}`:", "paired_hard"), ("All layers:", "paired")):
        rows = [
            [pair, str(row["only_one"]), str(row["only_other"]), f"{row['p']:.2g}"]
            for pair, row in doc.get(key, {}).items()
            if row["only_one"] + row["only_other"] and not _dull(pair)
        ]
        if rows:
            parts.append(f"{title}\n\n" + table(["pair", "only the first right", "only the second right", "p"], rows))
    words = "Exact McNemar test, two-sided, not corrected for the number of pairs."
    return f"## Two arms on the same cases\n\n{words}\n\n" + "\n\n".join(parts) if parts else ""


def _dull(pair: str) -> bool:
    return "B10" in pair or "B0" in pair or "-" in pair


def mean(figure: Mapping[str, Any] | None) -> str:
    return f"{figure['value']:.3f} [{figure['ci95'][0]:.2f}, {figure['ci95'][1]:.2f}]" if figure else "–"


def _plain(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def by_layer(doc: Doc, layers: Sequence[str]) -> str:
    """Render micro F1 at the leaf by layer."""
    rows = []
    for name, row in whole_arms(doc).items():
        cells = [_f1(row["by_layer"][layer], "micro", "l3") if layer in row["by_layer"] else "–" for layer in layers]
        rows.append([name, ARMS[name].title, *cells])
    return "## Micro F1 at the leaf, by layer\n\n" + table(["arm", "what it is", *layers], rows)


# generated layers that differ by seed and are no regression test
SEED_LAYERS = (HEADLINE, "composite", "unseen", "control")
SURE = 0.97  # confidence of a sure answer in the table of seeds


def seeds(doc: Doc) -> str:
    """Render the product on other seeds beside the published one, which shows overfitting to a seed."""
    others = doc.get("seeds") or ()
    if not others:
        return ""
    rows = [_seed_row(f"{doc['seed']} (published)", doc["arms"]["B8"]), *(_seed_row(one["seed"], one["arms"]["B8"]) for one in others)]
    words = (
        "B8 on cases of three seeds. The last seed was drawn when this report was made: nobody had seen its cases. Micro F1 at the leaf. "
        f"*Sure* answers name a cause with a confidence of {SURE} or more; *right* is their share that is right."
    )
    head = ["seed", *SEED_LAYERS, "hosts exact", "sure and wrong", "sure", "right"]
    return f"## Three seeds\n\n{words}\n\n{table(head, rows)}"


def _seed_row(name: str, arm: Mapping[str, Any]) -> list[str]:
    f1 = [_f1(arm["by_layer"][layer], "micro", "l3") if layer in arm["by_layer"] else "–" for layer in SEED_LAYERS]
    sure = [row["right"] for row in arm["per_case"] if (row["confidence"] or 0) >= SURE]
    right = f"{sum(sure) / len(sure):.3f}" if sure else "–"
    return [name, *f1, mean(arm["localisation"]["hosts_exact"]), mean(arm["sure_and_wrong"]), str(len(sure)), right]
