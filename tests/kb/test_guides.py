"""Guides: invalid ones are refused with their place, and a run reports the state of each step."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bot.app.site_files import build_guide_parts
from kb.guides.guide import Guide, GuideStep, MarkReason, StepCondition, compute_step_statuses, find_best_guide, slugify_guide_name
from kb.guides.loader import BadGuides, load_guides
from kb.taxonomy.expressions import Expression
from tools.checks import CHECKS
from tools.remedies import REMEDIES

PARTS = build_guide_parts(CHECKS)
OURS = load_guides(parts=PARTS)
NOW = datetime(2026, 5, 20, 3, 10, tzinfo=UTC)
LOST = StepCondition("gpu.lost", "any", Expression("value == true"))


def test_five_guides_ship_and_hold_together() -> None:
    assert set(OURS) == {"nccl_hang", "slow_job", "gpu_lost", "node_drained", "new_node"}
    for guide in OURS.values():
        seen: set[str] = set()
        for step in guide.steps:
            assert seen >= set(step.after), f"{guide.id}.{step.id} stands before what it waits for"
            seen.add(step.id)
            assert set(step.look) <= CHECKS.keys()
            assert not step.remedy or step.remedy in REMEDIES
        assert any(not step.after for step in guide.steps[1:]), f"nothing of {guide.id} goes side by side"
        assert any(step.when for step in guide.steps), f"{guide.id} never decides anything"
        assert guide.symptoms or guide.words


def test_a_guide_is_found_by_what_was_reported_and_called_by_any_spelling() -> None:
    assert (fits := find_best_guide(OURS, ("hang",), "job 4711 hangs"))
    assert fits.id == "nccl_hang"
    assert (drained := find_best_guide(OURS, ("vague",), "gpu-003 is DRAINED and nobody told us"))
    assert drained.id == "node_drained"
    assert find_best_guide(OURS, ("loss_nan",), "the loss is nan") is None
    assert {slugify_guide_name(name) for name in ("nccl_hang", "NCCL hang", "the nccl-hang guide")} == {"nccl_hang"}


STEP = "- {id: one, look: [smi]}"


def written(folder: Path, *steps: str, head: str = "id: ours\n    title: Our guide", name: str = "ours.yaml") -> Path:
    rows = "\n".join(f"      {step}" for step in steps)
    (folder / name).write_text(f"guides:\n  - {head}\n    steps:\n{rows}\n")
    return folder


@pytest.mark.parametrize(
    ("step", "why"),
    [
        ("- {id: two, look: [smy]}", "ours.two: unknown check smy"),
        ("- {id: two, remedy: pray}", "ours.two: unknown remedy pray"),
        ("- {id: two, remedy: run_check}", "unknown remedy run_check"),
        ("- {id: two, after: [three], look: [smi]}", "there is no step three"),
        ("- {id: one, look: [smi]}", "there is a step of this id already"),
        ("- {look: [smi]}", "id is missing"),
        ("- {id: two, look: [smi], ask: Why}", "exactly one of look, wait, remedy and ask"),
        ("- {id: two}", "exactly one of look, wait, remedy and ask"),
        ("- {id: two, look: [nccl1]}", "nccl1 needs GPUs for itself: set `approve: true`"),
        ("- {id: two, look: [smi, nccl1], approve: true}", "stands in a step of its own"),
        ("- {id: two, remedy: reboot, approve: true}", "a remedy always needs approval"),
        ("- {id: two, wait: 3h}", "wait must be a time such as 90s or 5min"),
        ("- {id: two, wait: soon}", "wait must be a time such as 90s or 5min"),
        ("- {id: two, look: [dmesg], when: [{key: gpu.lots, any: value > 0}]}", "unknown fact key gpu.lots"),
        ("- {id: two, look: [dmesg], when: [{key: gpu.lost, any: volue > 0}]}", "unknown variable volue"),
        ("- {id: two, look: [dmesg], when: [{key: gpu.lost, any: value >}]}", "when: "),
        ("- {id: two, look: [dmesg], when: [{key: gpu.lost, any: value == majority}]}", "a guide knows no majority"),
        ("- {id: two, look: [dmesg], when: [{key: gpu.lost}]}", "a condition has either any or none"),
        ("- {id: two, look: [dmesg], when: [{key: ib.state, any: 'true'}]}", "no step before it looks for ib.state"),
        ("- {id: two, look: [dmesg], whenever: []}", "unknown field whenever"),
    ],
)
def test_what_a_guide_gets_wrong_is_told_with_its_line(tmp_path: Path, step: str, why: str) -> None:
    with pytest.raises(BadGuides) as bad:
        load_guides(written(tmp_path, STEP, step), parts=PARTS)
    told = next(one for one in bad.value.problems if why in one)
    assert told.startswith(f"{tmp_path / 'ours.yaml'}:6: ")


def test_steps_in_a_circle_and_too_many_waves_are_refused_and_everything_is_told_at_once(tmp_path: Path) -> None:
    written(tmp_path, "- {id: a1, after: [b1], look: [smi]}", "- {id: b1, after: [a1], look: [smi]}", name="circle.yaml")
    written(tmp_path, *(f"- {{id: s{n}, look: [smi]}}" for n in range(7)), head="id: long\n    title: Too long", name="long.yaml")
    written(tmp_path, STEP, head="id: long\n    title: Again\n    symptoms: [sad]", name="longer.yaml")
    with pytest.raises(BadGuides) as bad:
        load_guides(tmp_path, parts=PARTS)
    told = "\n".join(bad.value.problems)
    for why in ("in a circle", "7 looks one after the other, more than 6", "there is a guide of this id already", "unknown symptom sad"):
        assert why in told


def test_without_after_a_step_follows_the_one_above_it_and_a_sites_guide_takes_ours_place(tmp_path: Path) -> None:
    written(
        tmp_path,
        "- {id: late, after: [soon], ask: Go on}",
        "- {id: soon, after: [], look: [smi]}",
        "- {id: last, wait: 5min}",
        head="id: gpu_lost\n    title: Ours",
    )
    guide = load_guides(tmp_path, parts=PARTS)["gpu_lost"]
    assert [(step.id, step.after) for step in guide.steps] == [("soon", ()), ("late", ("soon",)), ("last", ("soon",))]
    assert guide.steps[2].wait == timedelta(minutes=5)
    assert len(OURS["gpu_lost"].steps) > 3


def test_a_markdown_guide_holds_its_plan_between_fences_and_its_lines_are_told(tmp_path: Path) -> None:
    plan = "guides:\n  - id: ours\n    title: Our hang\n    steps:\n      - {id: one, look: [%s]}\n"
    prose = f"# Our hang\n\nFirst breathe.\n\n```guide\n{plan}```\n\nThen sleep: well.\n"
    (tmp_path / "hang.md").write_text(prose % "smi")
    assert load_guides(tmp_path, parts=PARTS)["ours"].steps[0].look == ("smi",)
    (tmp_path / "hang.md").write_text(prose % "smy")
    with pytest.raises(BadGuides, match=r"hang\.md:10: ours\.one: unknown check smy"):
        load_guides(tmp_path, parts=PARTS)
    (tmp_path / "hang.md").write_text("# No plan\n")
    with pytest.raises(BadGuides, match=r"hang\.md:1: holds no plan between ```guide and ```"):
        load_guides(tmp_path, parts=PARTS)


@dataclass
class Ground:
    """A world with scripted conditions."""

    truths: Mapping[str, bool | None] = field(default_factory=dict)
    taken: Mapping[str, MarkReason] = field(default_factory=dict)
    begun: Mapping[str, datetime] = field(default_factory=dict)
    now: datetime = NOW

    def is_condition_met(self, condition: StepCondition) -> bool | None:
        return self.truths.get(condition.key)

    def get_look_status(self, step: GuideStep) -> MarkReason:
        return self.taken.get(step.id, MarkReason("next"))

    def get_remedy_status(self, step: GuideStep) -> MarkReason:
        return self.taken.get(step.id, MarkReason("people", "nothing asks for it"))

    def get_wait_start(self, step: GuideStep) -> datetime | None:
        return self.begun.get(step.id)


PLAN = Guide(
    "plan",
    "A plan",
    (
        GuideStep("left", look=("smi",)),
        GuideStep("right", look=("dmesg",)),
        GuideStep("deep", after=("left", "right"), when=(LOST,), look=("lspci",)),
        GuideStep("pause", after=("right",), wait=timedelta(seconds=60)),
        GuideStep("again", after=("pause",), look=("smi",)),
        GuideStep("drain", after=("deep",), remedy="drain_node"),
        GuideStep("call", after=("drain",), ask="Call somebody."),
    ),
)


def marks(ground: Ground) -> dict[str, str]:
    return {row.step.id: row.mark for row in compute_step_statuses(PLAN, ground)}


def test_steps_that_wait_for_nothing_are_one_wave() -> None:
    found = marks(Ground())
    assert [name for name, mark in found.items() if mark == "next"] == ["left", "right"]
    assert {found[name] for name in ("deep", "pause", "again", "drain", "call")} == {"later"}


def test_a_condition_is_so_or_not_or_could_not_be_told() -> None:
    taken = {"left": MarkReason("done"), "right": MarkReason("done")}
    assert marks(Ground({"gpu.lost": True}, taken))["deep"] == "next"
    (no,) = (row for row in compute_step_statuses(PLAN, Ground({"gpu.lost": False}, taken)) if row.step.id == "deep")
    assert (no.mark, no.says) == ("skipped", "nothing shows gpu.lost with value == true")
    (unknown,) = (row for row in compute_step_statuses(PLAN, Ground({"gpu.lost": None}, taken)) if row.step.id == "deep")
    assert (unknown.mark, unknown.says) == ("unsure", "could not tell whether there is gpu.lost with value == true")
    assert marks(Ground({"gpu.lost": None}, taken))["call"] == "people", "what is behind it goes on"


def test_a_wait_does_not_block_and_ends_by_the_clock() -> None:
    taken = {"right": MarkReason("done")}
    (fresh,) = (row for row in compute_step_statuses(PLAN, Ground(taken=taken)) if row.step.id == "pause")
    assert (fresh.mark, fresh.due, fresh.says) == ("waiting", NOW + timedelta(seconds=60), "60 s left")
    later = Ground(taken=taken, begun={"pause": NOW}, now=NOW + timedelta(seconds=59))
    assert (marks(later)["pause"], marks(later)["again"]) == ("waiting", "later")
    later.now = NOW + timedelta(seconds=60)
    assert (marks(later)["pause"], marks(later)["again"]) == ("done", "next")


def test_what_waits_for_a_decision_holds_up_what_is_behind_it() -> None:
    taken = {
        "left": MarkReason("done"),
        "right": MarkReason("done"),
        "deep": MarkReason("done"),
        "drain": MarkReason("waiting", "its card is up"),
    }
    assert marks(Ground({"gpu.lost": True}, taken))["call"] == "later"
