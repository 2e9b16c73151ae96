"""Handwritten cases: every valid file is accepted and marked, a malformed one is refused with file, field and reason."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from bot.refusal import Refusal
from bot.settings import load_settings
from deploy.sandbox.cluster.cases.controls import CONTROLS
from tests.bench.case_files.folder import read_case, read_folder
from tests.bench.case_files.lint import problems
from tests.bench.cli import Wanted, lint, run_bench
from tests.bench.run.work import Job, marked, scored_as, work

PLAIN = load_settings(environ={})


def written(folder: Path, name: str = "case", **more: Any) -> Path:
    """Write the smallest valid case with `more` fields."""
    raw = {
        "nodes": 3,
        "profile": "dgx-h100-8",
        "ticket": {"text": "job on n0-n2 dies"},
        "truth": {"primary": {"label": "NO_FAULT"}},
        **more,
    }
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(raw))
    return path


def disk_full(node: str = "n1") -> dict[str, Any]:
    truth = {"primary": {"label": "SYSTEM_SOFTWARE.STORAGE.Root_FS_Full", "hosts": [node], "devices": []}}
    return {"faults": [{"id": "S10", "node": node}], "truth": truth}


def test_the_smallest_file_is_a_case(tmp_path: Path) -> None:
    raw = read_case(written(tmp_path, "mine"))
    assert (raw["id"], raw["nodes"], raw["layer"]) == ("mine", ["n0", "n1", "n2"], "hard")
    assert problems(raw) == []


def test_null_fields_notes_and_missing_lists_are_taken(tmp_path: Path) -> None:
    more = disk_full() | {"modifiers": None, "outputs": None, "budget": None, "remark": "from the night shift"}
    more["truth"] |= {"also": None, "secondary_ok": None, "decisive_evidence": [{"check": "disk"}], "remediation": {"correct": ["cleanup"]}}
    assert problems(read_case(written(tmp_path, **more))) == []


@pytest.mark.parametrize("layer", ["lookalike", "multinode"])
def test_look_alikes_and_faults_of_several_machines_count_as_hard(layer: str, tmp_path: Path) -> None:
    raw = read_case(written(tmp_path, layer=layer, **disk_full()))
    assert scored_as(raw["layer"]) == "hard"
    assert marked(work(Job(raw, ("B10",)))[0], raw).layer == "hard"


def test_an_unknown_layer_is_counted_separately(tmp_path: Path) -> None:
    written(tmp_path, layer="real-text", **disk_full())
    doc = run_bench(PLAIN, Wanted(tmp_path / "r.json", cases=tmp_path, arms="B10"), print)
    assert doc["arms"]["B10"]["by_layer"].keys() == {"real-text"}


def test_unseen_without_a_list_means_its_own_labels_are_unknown(tmp_path: Path) -> None:
    raw = read_case(written(tmp_path, layer="unseen", **disk_full()))
    assert raw["truth"]["removed"] == ["SYSTEM_SOFTWARE.STORAGE.Root_FS_Full"]
    assert marked(work(Job(raw, ("B10",)))[0], raw).right


def test_names_of_any_spelling_and_overridden_outputs_are_run(tmp_path: Path) -> None:
    names = ["ip-10-2-0-5", "Rack3.Node_07", "gpu-017.cluster.local", "7node"]
    more = disk_full("7node") | {"nodes": names, "t0": "2025-12-31T23:58:00+02:00", "profile": "hgx-a100-8"}
    more |= {"outputs": {"Rack3.Node_07": {"disk": {"stderr": "boom", "status": 1}}}, "modifiers": ["R7(tz=Asia/Tokyo, skew=90)@7node"]}
    raw = read_case(written(tmp_path, **more))
    row = marked(work(Job(raw, ("B8",)))[0], raw)
    assert row.answer.labels == ("SYSTEM_SOFTWARE.STORAGE.Root_FS_Full",)
    assert row.answer.hosts == ("7node",)


@pytest.mark.parametrize("control", sorted(CONTROLS))
@pytest.mark.parametrize("form", ["{}", "{}@n1", "{}(gpu=5)@n2"])
def test_controls_may_come_without_arguments_or_host(control: str, form: str, tmp_path: Path) -> None:
    assert problems(read_case(written(tmp_path, layer="control", modifiers=[form.format(control)]))) == []


def test_all_difficulties_may_come_without_arguments(tmp_path: Path) -> None:
    kinds = ["R1", "R2", "R3", "R4", "R5", "R6(check=env)", "R7", "R8", "R9", "R10", "R11", "R12"]
    raw = read_case(written(tmp_path, modifiers=kinds, **disk_full()))
    assert "crashed" not in work(Job(raw, ("B8",)))[0]


def test_harmless_errors_may_be_put_on_a_machine_without_a_healthy_gpu(tmp_path: Path) -> None:
    raw = read_case(written(tmp_path, faults=[{"id": "S03", "node": "n1"}], modifiers=["R3@n1"]))
    assert "crashed" not in work(Job(raw, ("B8",)))[0]


def test_files_of_the_same_name_stay_apart(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        written(tmp_path / folder)
    assert [raw["id"] for raw in read_folder(tmp_path)] == ["case", "case@b/case"]


BAD = (
    ("nodes: []", "nodes: must be a count"),
    ("nodes: 2\nprofile: dgx-b200", "profile: 'dgx-b200' is not one of"),
    ("nodes: 2\nfaults: [{id: Z99, node: n0}]", r"faults\[0\].id: 'Z99'"),
    ("nodes: 2\nfaults: [{id: G01, node: n7}]", r"faults\[0\].node: not among the nodes: n7"),
    ("nodes: 2\nmodifiers: [R99]", r"modifiers\[0\]: there is no modifier R99"),
    ("nodes: 2\nlayer: [hard]", "layer: must be text"),
    ("nodes: 2\ntruth: {primry: {label: A}}", "truth.primary: is missing"),
    ("nodes: 2\ntruth: {primary: {label: A, hosts: n0}}", "truth.primary.hosts: must be a list"),
    ("nodes: 2\ntruth: {primary: {label: A}, remediation: {correct: reboot}}", "truth.remediation.correct: must be a list"),
    ("nodes: 2\ntruth: {primary: {label: A}, decisive_evidence: [smi]}", "truth.decisive_evidence.0: must be a mapping"),
    ("nodes: [n1\nprofile: x", "is not YAML"),
    ("- a", "is no case; it must be a mapping"),
    ("", "is no case; it must be a mapping"),
)


@pytest.mark.parametrize(("text", "words"), BAD)
def test_what_is_malformed_is_refused_with_file_field_and_reason(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "odd.yaml").write_text(
        text + ("\ntruth: {primary: {label: NO_FAULT}}" if text.startswith("nodes: ") and "truth" not in text else "")
    )
    with pytest.raises(Refusal, match=rf"odd\.yaml: .*{words}") as why:
        read_case(tmp_path / "odd.yaml")
    assert why.value.code == 2
    assert lint(tmp_path, lambda line: None) == 1


def test_all_bad_files_are_named_at_once(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text("nodes: 0")
    (tmp_path / "two.yaml").write_text("- 1")
    with pytest.raises(Refusal, match=r"(?s)one\.yaml.*two\.yaml"):
        run_bench(PLAIN, Wanted(tmp_path / "r.json", cases=tmp_path), print)
