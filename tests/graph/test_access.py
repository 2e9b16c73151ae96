"""Failed access is reported by its reason: a changed key, a refused login or a bastion failure is no dead host."""

import pytest

from graph.engine.assessment import Assessment, assess_facts
from graph.engine.reference_data import ReferenceData
from kb.taxonomy.loader import load_taxonomy
from tests.support.clock import T0
from tests.support.fakes_graph import fact
from tools.checks import CHECKS
from tools.fact import Fact, Status
from tools.transport import AccessBarrier

DEAD, CHANGED = "OTHER.INFRA.Node_Unreachable", "OTHER.INFRA.Host_Key_Changed"
LENS = ReferenceData(load_taxonomy(), CHECKS)


def kept_out(status: Status, barrier: AccessBarrier | None) -> Assessment:
    attrs = {"barrier": barrier.value} if barrier else {}
    silent = [Fact(check, "", status=status, line="said so", host="n2", time=T0, attrs=attrs) for check in ("smi", "sysd", "sched")]
    return assess_facts([fact("n1", "smi", "gpu.count", 8), *silent], LENS, ("n1", "n2"), {}, T0)


@pytest.mark.parametrize(
    ("status", "barrier", "label"),
    [
        (Status.UNREACHABLE, None, DEAD),
        (Status.TIMEOUT, AccessBarrier.SILENT, DEAD),
        (Status.UNREACHABLE, AccessBarrier.CHANGED_KEY, CHANGED),
        (Status.UNREACHABLE, AccessBarrier.UNLISTED_KEY, ""),
        (Status.UNREACHABLE, AccessBarrier.REFUSED, ""),
        (Status.DENIED, AccessBarrier.LOGIN, ""),
        (Status.UNREACHABLE, AccessBarrier.SITE, ""),
        (Status.TIMEOUT, AccessBarrier.SITE, ""),
    ],
)
def test_only_a_host_that_says_nothing_is_called_dead(status: Status, barrier: AccessBarrier | None, label: str) -> None:
    now = kept_out(status, barrier)
    assert [(row.label, row.hosts) for row in now.list_root_causes()] == ([(label, ("n2",))] if label else [])
    assert DEAD in (label, "") or now.label_verdicts[DEAD].verdict != "confirmed"
    assert now.finding == ("diagnosed" if label else "abstained")


def test_a_changed_key_puts_up_no_action_and_says_what_it_may_be() -> None:
    leaf = LENS.taxonomy.get_leaf(CHANGED)
    assert all(plan.strip() == "none" for plan in leaf.remedies) or not leaf.remedies
    assert kept_out(Status.UNREACHABLE, AccessBarrier.CHANGED_KEY).list_root_causes()[0].confidence >= 0.95


def test_a_command_that_took_too_long_on_a_host_that_answers_is_no_silence() -> None:
    now = kept_out(Status.TIMEOUT, None)
    assert not [row for row in now.abnormal_facts if row.key in ("host.reachable", "host.access")]
