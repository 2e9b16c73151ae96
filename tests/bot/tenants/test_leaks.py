"""Text for a tenant: leaks of other tenants' or internal data are named, and allowed text passes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.tenants.leak_detector import Leak, LeakDetector
from tests.support.inventories import inventory

SITE = inventory(
    groups={
        "acme": {"hosts": "gpu-[003-004]", "tenant": "acme", "controller": "ctl"},
        "globex": {"hosts": "gpu-[001-002]", "tenant": "globex"},
        "ctl": {"hosts": "ctl"},
    },
    hosts={"gpu-003": {"leaf": "leaf-sw-7", "alias": "train-01"}, "gpu-001": {"alias": "render-a"}, "gpu-002": {"alias": "train-01"}},
    channels=[
        {"channel": "C0OPS", "name": "gpu-incidents", "kind": "operators", "approvers": "S0APPROVE"},
        {"channel": "C0ACME", "kind": "tenant", "tenant": "acme", "internal": "C0OPS"},
        {"channel": "C0INIT", "kind": "tenant", "tenant": "Initech", "internal": "C0OPS"},
    ],
)
INSIDE = LeakDetector(SITE, "acme", "inc-aaaaaa", ("priya", "Anton Weber", "Bo Li"))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Globex had the same yesterday.", "another customer"),
        ("like INITECH's", "another customer"),
        ("glo\u200bbex had it too", "another customer"),
        ("im Globex-Cluster war es auch so", "another customer"),
        ("dem Initech-Knoten fehlt das auch", "another customer"),
        ("globex_train had it", "another customer"),
        ("it is the same as on gpu-001", "a machine that is not theirs"),
        ("-gpu-001 is fine", "a machine that is not theirs"),
        ("look at...gpu-001", "a machine that is not theirs"),
        ("gpu-001- was slow", "a machine that is not theirs"),
        ("der gpu-001-Lüfter", "a machine that is not theirs"),
        ("fe80::1ff:fe23:4567:890a is down", "an address"),
        ("at 2001:db8:0:0:0:0:0:17", "an address"),
        ("as in INC-ABCDEF", "another incident"),
        ("render-a is fine", "a machine that is not theirs"),
        ("GPU-002 is fine", "a machine that is not theirs"),
        ("all of gpu-[001-004] were slow", "a machine that is not theirs"),
        ("gpu\u2011001 is fine", "a machine that is not theirs"),
        ("gpu\u2212001 is fine", "a machine that is not theirs"),
        ("gpu-002..004 were slow", "a machine that is not theirs"),
        ("gpu-002 … gpu-004 were slow", "a machine that is not theirs"),
        ("gpu-000 to 004 were slow", "a machine that is not theirs"),
        ("Bo looks at it", "a person"),
        ("ask in C0OPS", "an internal word"),
        ("ask in #gpu-incidents", "an internal word"),
        ("see http://grafana.internal/d/1", "an address"),
        ("see https://grafana:3000/d/1", "an address"),
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
    assert kind in {leak.kind for leak in INSIDE.find_leaks(text)}


@pytest.mark.parametrize(
    "text",
    [
        "We repaired gpu-003; please try again.",
        "gpu-[003-004] are free again. Your ticket is inc-aaaaaa.",
        "Use NCCL 2.21.5 and start with --exclude=gpu-003.",
        "A network switch slows your nodes; the network team is on it until 14:30 UTC.",
        "Acme's job can start again.",
        "std::vector at 14:30:12 took 3::",
        "Der Acme-Cluster ist wieder frei, gpu-003-Lüfter inklusive.",
        "Your ticket is INC-AAAAAA.",
    ],
)
def test_what_a_customer_may_read_goes_through(text: str) -> None:
    assert INSIDE.find_leaks(text) == ()


@pytest.mark.parametrize("text", ["gpu-001..004 were slow", "gpu-002 to gpu-003", "gpu-[001-004]", "gpu\u2011001\u2013004 again"])
def test_a_range_that_begins_with_ones_own_and_ends_with_anothers_is_anothers(text: str) -> None:
    site = inventory(
        groups={"us": {"hosts": "gpu-[001-002]", "tenant": "acme"}, "eu": {"hosts": "gpu-[003-004]", "tenant": "globex"}}, channels=[]
    )
    assert {leak.kind for leak in LeakDetector(site, "acme").find_leaks(text)} == {"a machine that is not theirs"}
    assert LeakDetector(site, "acme").find_leaks("gpu-001..002 are free, gpu-001 to 002 too") == ()


def test_ones_own_name_that_holds_anothers_is_ones_own() -> None:
    site = inventory(groups={"eu": {"hosts": "gpu-001-b", "tenant": "acme-eu"}, "us": {"hosts": "gpu-001", "tenant": "acme"}}, channels=[])
    assert LeakDetector(site, "acme-eu").find_leaks("Acme-EU's gpu-001-b is back") == ()
    assert {leak.kind for leak in LeakDetector(site, "acme-eu").find_leaks("Acme-US, gpu-001-c")} == {
        "another customer",
        "a machine that is not theirs",
    }


def test_all_of_them_are_named_at_once_and_a_secret_is_not_repeated() -> None:
    found = INSIDE.find_leaks("Globex on gpu-001: password=hunter2secretX")
    assert found == (Leak("another customer", "globex"), Leak("a machine that is not theirs", "gpu-001"), Leak("a secret"))
    assert "hunter2" not in " ".join(map(str, found))


@given(st.text(max_size=200), st.sampled_from(["globex", "gpu-002", "leaf-sw-7", "Anton Weber", "10.1.2.3"]), st.text(max_size=200))
def test_a_name_is_found_wherever_it_stands(before: str, name: str, after: str) -> None:
    assert INSIDE.find_leaks(f"{before} {name} {after}")
