"""A build's labels compared with published ones: by the leaf if the taxonomy has the cause, and reported as not run
without incidents.
"""

import json
from pathlib import Path

import yaml

from graph.learning.rule_labelling import LabelledRow
from kb.taxonomy.loader import load_taxonomy
from tests.bench.published.agreement import ANSWERS, agreement, measure

LOST = {
    "id": "lost", "title": "a card is gone", "category": "gpu", "subcategory": "gpu_fallen_off_bus_power", "source_url": "https://example.com/1",
    "description": "nvidia-smi shows 7 GPUs. NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.", "root_cause": "the riser", "resolution": "reseated",
}  # fmt: skip


def row(label: str) -> LabelledRow:
    return LabelledRow("x", "labelled", "", "x", label=label)


def test_the_leaf_decides_where_two_taxonomies_file_a_cause_differently() -> None:
    peermem = "SYSTEM_SOFTWARE.RDMA.Peermem_Not_Loaded"
    found = agreement([(row(peermem), "INTERCONNECT", peermem), (row("GPU.BUS.Not_Enumerated"), "OTHER", "")])
    assert {level: found[level]["right"] for level in found} == {"level_1": 1, "level_1_own": 0, "leaf": 1}


def test_rules_label_a_folder_of_incidents_and_no_folder_is_said(tmp_path: Path) -> None:
    assert "BENCH_INCIDENTS" in measure(tmp_path / "none")["not_run"]
    (tmp_path / "lost.yaml").write_text(yaml.safe_dump(LOST))
    assert measure(tmp_path)["leaf"]["right"] == 1


def test_a_question_that_the_recording_does_not_hold_is_left_to_rules_and_counted(tmp_path: Path) -> None:
    (tmp_path / "lost.yaml").write_text(yaml.safe_dump(LOST))
    found = measure(tmp_path, ANSWERS)
    assert (found["answered"], found["level_1"]["right"]) == (0, 1)


def test_the_recording_names_causes_of_ours_and_holds_no_question() -> None:
    head, *rows = [json.loads(line) for line in ANSWERS.read_text().splitlines()]
    assert head["model"] == "gpt-4o"
    assert {key for one in rows for key in one} == {"asked", "text", "in", "out", "by"}
    known = load_taxonomy().leaves
    unknown = [label for one in rows if (label := json.loads(one["text"])["label"]) not in known]
    assert unknown == [], "a label that is no more: the recording is older than the taxonomy; record it anew"
