"""A node that accepts no jobs is reported with who drained it, when and why."""

import json

import pytest

from graph.engine.abnormal_facts import is_abnormal
from graph.engine.assessment import assess_facts
from tests.support.clock import T0
from tests.support.fakes_graph import healthy, lens
from tools.checks import CHECKS
from tools.fact import Fact

WHO = "[priya@2026-11-22T18:18:41]"


def state(words: str, reason: str = "") -> Fact:
    text = f"NodeName=gpu-003 State={words} Partitions=train{f' Reason={reason}' if reason else ''}\n"
    return next(fact for fact in CHECKS["sched"].parse_output(text) if fact.key == "sched.state")


@pytest.mark.parametrize(
    "words",
    [
        *("IDLE+DRAIN", "DRAINED", "ALLOCATED+DRAIN", "MIXED+DRAIN", "DOWN", "DOWN*", "DOWN+DRAIN", "FAIL", "IDLE+MAINT", "IDLE+RESERVED"),
        *("MAINT", "RESERVED", "IDLE*", "IDLE+INVALID_REG", "IDLE+POWERED_DOWN", "IDLE+REBOOT_REQUESTED", "DOWN+NOT_RESPONDING", "ERROR"),
    ],
)
def test_a_node_out_of_service_is_abnormal_with_who_when_and_why(words: str) -> None:
    found = state(words, f"bad fan, see ticket 4211 {WHO}")
    assert is_abnormal(found)
    assert (found.attrs["by"], found.attrs["since"], found.attrs["reason"]) == ("priya", "2026-11-22T18:18:41", "bad fan, see ticket 4211")
    assert all(word in found.format_sentence() for word in ("priya", "2026-11-22T18:18:41", "ticket 4211"))
    assert is_abnormal(state(words)), "without a reason too"


@pytest.mark.parametrize("words", ["IDLE", "ALLOCATED", "MIXED", "COMPLETING", "IDLE+CLOUD", "IDLE+PLANNED", "IDLE+DYNAMIC_NORM"])
def test_a_node_in_service_is_not(words: str) -> None:
    assert not is_abnormal(state(words))


def test_what_rackmedic_took_out_itself_is_no_finding() -> None:
    assert not is_abnormal(state("IDLE+DRAIN", "rackmedic:apr-0123456789ab [root@2026-11-22T18:18:41]"))


@pytest.mark.parametrize("at", [1779261660, {"set": True, "infinite": False, "number": 1779261660}])
def test_who_and_when_are_read_from_json_too(at: object) -> None:
    node = {"name": "n1", "state": ["IDLE", "DRAIN"], "reason": "swap PSU", "reason_set_by_user": "root", "reason_changed_at": at}
    (found, _) = CHECKS["sched"].parse_output(json.dumps({"nodes": [node]}))
    assert (found.attrs["by"], found.attrs["since"], found.attrs["reason"]) == ("root", "2026-05-20T07:21:00", "swap PSU")


@pytest.mark.parametrize("words", ["NotReady", "Ready+SchedulingDisabled", "Ready+DiskPressure"])
def test_a_node_that_kubernetes_gives_nothing_is_abnormal(words: str) -> None:
    assert is_abnormal(Fact("sched", "sched.state", words, host="n1"))
    assert not is_abnormal(Fact("sched", "sched.state", "Ready", host="n1"))
    assert not is_abnormal(Fact("sched", "sched.state", words, host="n1", attrs={"reason": "rackmedic:apr-1"}))


def test_a_drained_node_is_never_no_fault_and_is_told_before_anything_else() -> None:
    drained = Fact(
        "sched", "sched.state", "IDLE+DRAIN", host="n2", time=T0, attrs={"reason": "swap PSU", "why": "by root since today: swap PSU"}
    )
    now = assess_facts([*healthy("n1", "n2", "n3"), drained], lens(), ("n1", "n2", "n3"), {}, T0)
    assert now.finding == "abstained"
    assert all(word in now.why_unsure[0] for word in ("n2", "root", "today", "swap PSU"))
