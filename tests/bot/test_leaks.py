"""What our people may not send to a customer: slips are named, and what a customer may read goes through."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.policy.leaks import Inside, Leak
from tests.support.inventories import inventory

SITE = inventory(
    groups={
        "acme": {"hosts": "gpu-[003-004]", "tenant": "acme", "controller": "ctl"},
        "globex": {"hosts": "gpu-[001-002]", "tenant": "globex"},
        "ctl": {"hosts": "ctl"},
    },
    hosts={"gpu-003": {"leaf": "leaf-sw-7", "alias": "train-01"}, "gpu-001": {"alias": "render-a"}, "gpu-002": {"alias": "train-01"}},
    channels=[
        {"channel": "C0OPS", "kind": "operators", "approvers": "S0APPROVE"},
        {"channel": "C0ACME", "kind": "tenant", "tenant": "acme", "internal": "C0OPS"},
        {"channel": "C0INIT", "kind": "tenant", "tenant": "Initech", "internal": "C0OPS"},
    ],
)
INSIDE = Inside(SITE, "acme", "inc-aaaaaa", ("priya", "Anton Weber"))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Globex had the same yesterday.", "another customer"),
        ("like INITECH's", "another customer"),
        ("glo\u200bbex had it too", "another customer"),
        ("it is the same as on gpu-001", "a machine that is not theirs"),
        ("render-a is fine", "a machine that is not theirs"),
        ("GPU-002 is fine", "a machine that is not theirs"),
        ("all of gpu-[001-004] were slow", "a machine that is not theirs"),
        ("ctl says so", "a machine that is not theirs"),
        ("behind leaf-sw-7", "a machine that is not theirs"),
        ("Priya repairs it", "a person"),
        ("Weber has it", "a person"),
        ("write to noc@rackwise.example", "a person"),
        ("ask <@U0PRIYA>", "a person"),
        ("password=hunter2secretX", "a secret"),
        ("we ran scontrol update", "an internal word"),
        ("its BMC does not answer", "an internal word"),
        ("waits for an approver", "an internal word"),
        ("see apr-0966d9fc3921", "an internal word"),
        ("10.0.4.17 is down", "an address"),
        ("as in inc-abcdef", "another incident"),
    ],
)
def test_a_slip_is_named_by_what_it_is(text: str, kind: str) -> None:
    assert kind in {leak.kind for leak in INSIDE.leaks(text)}


@pytest.mark.parametrize(
    "text",
    [
        "We repaired gpu-003; please try again.",
        "gpu-[003-004] are free again. Your ticket is inc-aaaaaa.",
        "Use NCCL 2.21.5 and start with --exclude=gpu-003.",
        "A network switch slows your nodes; the network team is on it until 14:30 UTC.",
        "Acme's job can start again.",
    ],
)
def test_what_a_customer_may_read_goes_through(text: str) -> None:
    assert INSIDE.leaks(text) == ()


def test_all_of_them_are_named_at_once_and_a_secret_is_not_repeated() -> None:
    found = INSIDE.leaks("Globex on gpu-001: password=hunter2secretX")
    assert found == (Leak("another customer", "globex"), Leak("a machine that is not theirs", "gpu-001"), Leak("a secret"))
    assert "hunter2" not in " ".join(map(str, found))


@given(st.text(max_size=200), st.sampled_from(["globex", "gpu-002", "leaf-sw-7", "Anton Weber", "10.1.2.3"]), st.text(max_size=200))
def test_a_name_is_found_wherever_it_stands(before: str, name: str, after: str) -> None:
    assert INSIDE.leaks(f"{before} {name} {after}")
