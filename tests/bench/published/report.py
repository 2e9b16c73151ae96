"""`rackmedic classify` on published incidents' text, with answers hidden, beside a majority baseline."""

from collections.abc import Mapping
from typing import Any

from tests.bench.report.parts import table

Doc = Mapping[str, Any]
LEVELS = ("level_1", "level_1_of_leaf", "level_2", "level_3", "level_3_in_first_5")
MEANS = {
    "shipped": "as shipped",
    "taught": "taught the other four fifths",
    "majority": "always the commonest",
}


def real_texts(doc: Doc) -> str:
    """Return the section, or why it was not run."""
    found = doc.get("incidents")
    if not found:
        return ""
    title = "## Real incident reports, by their text alone"
    if "not_run" in found:
        return f"{title}\n\nNot run: {found['not_run']}."
    words = (
        f"{found['incidents']} published threads, ranked by `rackmedic classify` from title and text, each without its own thread among what it "
        "knows. Category and leaf were assigned by whoever collected them; where their taxonomy has a cause that this one lacks, only level 1 "
        "counts. *Taught* means cross-validation in five folds: the words and leaves of the other folds are past incidents. The commonest answer "
        "is taken from the other folds likewise. The leaves were written knowing these texts, so that other threads will be named less often."
    )
    rows = [[MEANS.get(name, name), *(_share(arm.get(level)) for level in LEVELS)] for name, arm in found["arms"].items()]
    head = ["classifier", "level 1, all", "level 1, with a leaf", "level 2", "level 3", "leaf among the first five"]
    return f"{title}\n\n{words}\n\n{table(head, rows)}"


def _share(row: Mapping[str, Any] | None) -> str:
    if not row:
        return "–"
    low, high = row["ci95"]
    return f"{row['right']}/{row['of']} = {row['share']:.2f} [{low:.2f}, {high:.2f}]"
