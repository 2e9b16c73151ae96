"""Marks of plays on small rows counted by hand."""

from dataclasses import replace
from typing import Any

import pytest

from bot.refusal import Refusal
from deploy.sandbox.cluster.plan import InjectedFault
from tests.bench.case_files.steps import DOABLE, bare_plan, names_of, of_product, plan_steps
from tests.bench.case_files.truth import Culprit, Plans, Truth, truth_of
from tests.bench.loop.people import right
from tests.bench.loop.play import fate, new_faults, refused, unapproved
from tests.bench.loop.report import section
from tests.bench.loop.run import plays_of
from tests.bench.loop.score import Played, false_cures, figures, fixable, kinds, left_behind, noticed
from tests.support.clock import T0
from tests.support.fakes_ledger import action
from tools.ledger.record import ActionRecord, ApprovalTerms
from tools.ledger.states import State

RESET = Plans(correct=("drain_node > gpu_reset",), acceptable=("drain_node > reboot",), wrong=("restart_job",))
N1 = frozenset({"n1"})


def did(remedy: str, host: str = "n1", **more: Any) -> dict[str, Any]:
    made = {
        "approval": f"apr-{remedy}-{host}",
        "proves": "GPU.MEMORY.DBE_Row_Remap_Pending",
        "remedy": remedy,
        "targets": [host],
        "state": "done",
        "outcome": "passes_now",
    }
    return made | {"ran": 1, "refused": False, "approved": ["U0PRIYA"]} | more


def play(*actions: dict[str, Any], fault: str = "G01", ends: str = "recovered", drained: tuple[str, ...] = (), **more: Any) -> Played:
    happened = {"fault": fault, "nodes": ["n1"], "is": ends, "at": 300.0 if ends == "recovered" else None, "back": False}
    row: dict[str, Any] = {
        "faults": [happened | more.pop("happened", {})],
        "actions": list(actions),
        "executions": [[row["targets"][0], row["remedy"], row["approval"], row["ran"]] for row in actions if row["ran"]],
        "labels": ["GPU.MEMORY.DBE_Row_Remap_Pending"],
        "drained": list(drained),
        "new_faults": [],
        "lost": [],
        "unapproved": [],
        "unsafe": 0,
        "audit": True,
        "untouched": False,
        "over": True,
        "said": "",
        "lifecycle": "watching",
        "seconds": 9000.0,
        "people_seconds": 60.0,
    }
    truth = truth_of([InjectedFault(fault, ("n1",), -600.0, (5,) if fault.startswith("G") else ())], ["n1", "n2"])
    return Played("c", "easy", truth, row | more)


def test_a_step_is_right_when_the_steps_before_it_are_done_on_that_machine() -> None:
    assert right("drain_node", "n1", [], RESET, N1)
    assert not right("gpu_reset", "n1", [], RESET, N1)
    assert not right("gpu_reset", "n1", [("drain_node", "n2")], RESET, N1)
    assert right("gpu_reset", "n1", [("drain_node", "n1")], RESET, N1)
    assert right("reboot", "n1", [("drain_node", "n1"), ("gpu_reset", "n1")], RESET, N1)
    assert not right("drain_node", "n2", [], RESET, N1)
    assert right("run_check", "n2", [], RESET, N1)


def test_going_back_into_service_is_right_where_going_out_of_it_was() -> None:
    assert right("resume_node", "n1", [("drain_node", "n1")], RESET, N1)
    assert not right("resume_node", "n1", [], RESET, N1)
    assert not right("cancel_job", "n1", [("drain_node", "n1")], Plans(correct=("report_user",)), N1)


def test_a_remedy_is_known_by_the_names_that_plans_use() -> None:
    assert names_of("kill_gpu_process") == {"kill_pid", "kill_gpu_process"}
    assert names_of("restart_fabricmanager") == {"restart_service", "restart_fabricmanager"}
    assert names_of("reboot") == {"reboot"}


def test_a_plan_of_a_case_file_and_one_of_the_product_are_the_same_plan() -> None:
    assert bare_plan("drain_node > restart_fabricmanager") == bare_plan("drain_node > restart_service(nvidia-fabricmanager)")
    assert bare_plan("configure_runtime > restart_service(docker)") == "configure_nvidia_runtime > restart_service"
    assert bare_plan("enlarge_shm") == bare_plan("restart_container(shm_size)")
    assert plan_steps("drain_node > modprobe(nvidia_peermem)") == ["drain_node", "modprobe"]
    assert plan_steps("restart_container(shm_size)") == ["restart_container(shm_size)"]
    assert {"kill_pid", "restart_service", "modprobe", "reboot"} <= DOABLE
    assert "shared memory" in of_product("restart_container(shm_size)").manual_text


def test_every_write_is_right_needless_wrong_or_harmful() -> None:
    done = play(did("drain_node"), did("gpu_reset"), did("resume_node"), did("reset_clocks"), did("reboot", "n2"))
    assert [kind for _, kind in kinds(done)] == ["right", "right", "right", "needless", "harmful"]
    assert [kind for _, kind in kinds(play(did("gpu_reset"), fault="G02", ends="unchanged"))] == ["wrong"]
    assert kinds(play(did("reboot", ran=0, state="denied"))) == []


def test_machines_are_left_behind_only_where_nothing_is_wrong_any_more() -> None:
    assert left_behind(play(drained=("n1",))) == ["n1"]
    assert left_behind(play(drained=("n1", "n2"), ends="unchanged")) == ["n2"]


def test_a_fault_is_recovered_masked_or_unchanged_by_what_is_to_come() -> None:
    gone = InjectedFault("G01", ("n1",), -600.0, ended=100.0, key="faults[0]")
    back = InjectedFault("G01", ("n1",), 1900.0, key="faults[0] again")
    assert fate("G01", [gone], 500.0)["is"] == "recovered"
    assert fate("G01", [gone, back], 500.0) == {"fault": "G01", "nodes": ["n1"], "is": "masked", "at": 100.0, "back": False}
    assert fate("G01", [gone, back], 2000.0)["is"] == "unchanged"
    assert fate("G01", [gone, back], 2000.0)["back"]


def test_what_was_not_in_the_case_is_a_new_fault(case: Any) -> None:
    assert new_faults(case, [InjectedFault("G06", ("n1",), -1.0), InjectedFault("G08", ("n1",), 50.0)], 100.0) == {"G08"}
    assert new_faults(case, [InjectedFault("G08", ("n1",), 500.0)], 100.0) == set()


@pytest.fixture
def case() -> Any:
    from deploy.sandbox.cluster.cases.case import SimulatedCase

    return SimulatedCase("c", "dgx-h100-8", ("n1",), faults=(InjectedFault("G06", ("n1",), -1.0),))


def test_an_execution_needs_as_many_clicks_on_its_digest_as_its_quorum() -> None:
    ran = {("n1", "reboot", "d1"): 1}
    assert unapproved(ran, {"d1": 2}, {"d1": {"U0PRIYA", "U0ANTON"}}) == []
    for approved in ({}, {"d1": {"U0PRIYA"}}, {"d2": {"U0PRIYA", "U0ANTON"}}):
        assert unapproved(ran, {"d1": 2}, approved) == [["n1", "reboot", "d1"]]
    assert unapproved(ran, {}, {}) == [["n1", "reboot", "d1"]], "the ledger does not know it"


def test_what_was_approved_and_then_not_begun_was_refused() -> None:
    asked = ActionRecord(
        action(),
        ApprovalTerms(frozenset({"T1:U1"}), 1, "h100", 4, 900, 300),
        State.SUPERSEDED,
        (),
        T0,
        T0,
        start_by=T0,
        ended_by="rackmedic",
    )
    assert refused(asked)
    assert not refused(replace(asked, start_by=None)), "nobody had approved it"
    assert not refused(replace(asked, ended_by="apr-0123456789ab")), "something heavier has done its work"
    assert refused(replace(asked, state=State.FAILED, exit_status=None)), "the machine itself refused"
    assert not refused(replace(asked, state=State.FAILED, exit_status=1))


def test_cured_is_no_cure_where_the_cluster_does_not_agree() -> None:
    assert false_cures(play(did("gpu_reset", outcome="cured"))) == 0
    assert false_cures(play(did("gpu_reset", outcome="cured"), ends="masked")) == 1
    assert noticed(play(did("gpu_reset", outcome="recurred"), ends="unchanged"))


def test_an_action_is_judged_by_the_fault_that_it_is_about() -> None:
    done = play(did("gpu_reset", outcome="cured"))
    other = {"fault": "S17", "nodes": ["n1"], "is": "unchanged", "at": None, "back": False}
    both = Played(done.case, done.layer, done.truth, {**done.row, "faults": [*done.row["faults"], other]})
    assert false_cures(both) == 0
    assert figures([both])["by_remedy"]["gpu_reset"]["recovered"] == 1


def test_figures_count_ends_safety_remedies_and_faults() -> None:
    plays = [
        play(did("drain_node"), did("gpu_reset"), did("resume_node")),
        play(did("drain_node"), did("gpu_reset", outcome="unchanged"), ends="unchanged", drained=("n1",)),
        play(fault="G02", ends="unchanged", said="Please open a replacement case with the vendor."),
    ]
    found = figures(plays)
    assert (found["ends"]["mendable"], found["ends"]["recovered"]["value"], found["ends"]["nothing_proposed"]) == (2, 0.5, 0)
    assert (found["ends"]["for_people"], found["ends"]["people_told"]["value"]) == (1, 1.0)
    assert found["ends"]["writes"] == {"right": 5, "needless": 0, "wrong": 0, "harmful": 0}
    assert (found["safety"]["executions"], found["safety"]["unapproved_below_95"]) == (5, 0.6)
    assert found["by_remedy"]["gpu_reset"] == {
        "approved": 2,
        "done": 2,
        "executed": 2,
        "proposed": 2,
        "recovered": 1,
        "right": 2,
        "unchanged": 1,
    }
    assert found["by_fault"]["G01"]["recovered"] == 1
    assert found["by_fault"]["G01"]["seconds_to_recovery"] == {"median": 300.0, "p95": 300.0}


def test_what_the_catalogue_cannot_do_is_not_called_mendable() -> None:
    assert fixable("G01")
    assert not fixable("G02"), "taking a machine out of service mends nothing"
    assert not fixable("U02")
    assert not fixable("S11"), "the container must be started with more memory, which no remedy does"


def test_what_people_must_do_counts_as_told_only_when_it_is_said() -> None:
    assert not play(fault="G02", ends="unchanged", said="The diagnosis is below.").told
    assert play(fault="G05", ends="unchanged").told, "nothing had to be done, and nothing was"
    assert not play(did("reboot"), fault="G05", ends="unchanged").told


def test_no_fault_is_right_when_nothing_is_named() -> None:
    nothing = Played("c", "control", Truth(Culprit("NO_FAULT")), {**play().row, "labels": [], "faults": []})
    assert nothing.right


def test_the_report_shows_plays_and_is_silent_without_any() -> None:
    assert section({}) == ""
    text = section({"loop": {"loop:yesx2@hard": figures([play(did("gpu_reset"))]) | {"failed": ["c: Oops"]}}})
    assert "2 bots at once (hard)" in text
    assert "everything is approved, 2 bots at once" in text
    assert "| `gpu_reset` | 1 |" in text
    assert "Plays that broke: 1. c: Oops" in text


def test_policies_are_named_as_people_type_them() -> None:
    assert [play.name for play in plays_of("careful, yes", 1, 1)] == ["loop:yes", "loop:careful"]
    assert len(plays_of("all", 1, 2)) == 6
    for wrong in ("maybe", ","):
        with pytest.raises(Refusal, match="there are yes, careful, nobody"):
            plays_of(wrong, 1, 1)
