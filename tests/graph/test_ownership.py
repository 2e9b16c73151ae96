"""Ownership of facts: without proof of a tenant's ownership a fact is withheld from tenants."""

import pytest

from graph.incident.context import merge_facts
from graph.ownership import TenantMachines, build_tenant_machines, is_withheld_from_tenant
from graph.state import FileSource
from tests.support.inventories import inventory
from tools.fact import FROM_FILE, Fact, Status

SITE = inventory(
    groups={"acme": {"hosts": "gpu-[003-004]", "tenant": "acme"}, "globex": {"hosts": "gpu-005", "tenant": "globex"}},
    hosts={"gpu-004": {"node": "n4"}},
    channels=[{"channel": "C0OPS", "kind": "operators"}],
)
ACME = build_tenant_machines(SITE, ("gpu-003", "gpu-004"))
JOB = {"path": "/shared/812/x.log", "uid": 3001, "job": "812", "nodes": "gpu-003"}


def test_machines_are_known_by_the_schedulers_names() -> None:
    assert TenantMachines(frozenset({"gpu-003", "gpu-004"}), frozenset({"gpu-003", "n4"})) == ACME


@pytest.mark.parametrize("nodes", ["gpu-003", "n4", "gpu-003,n4"])
def test_a_job_on_their_machines_alone_is_theirs(nodes: str) -> None:
    assert ACME.owns_file(FileSource.model_validate(JOB | {"nodes": nodes}))


@pytest.mark.parametrize(
    "wrong",
    [{"uid": None}, {"uid": 0}, {"job": ""}, {"nodes": ""}, {"nodes": "gpu-003,gpu-005"}, {"nodes": "gpu-004"}, {"nodes": "gpu-[003"}, {"nodes": ","}],
    ids=str,
)  # fmt: skip
def test_an_unproven_fact_is_withheld_from_the_tenant(wrong: dict[str, object]) -> None:
    source = FileSource.model_validate(JOB | wrong)
    assert not ACME.owns_file(source)
    assert ACME.is_unowned_file_fact("gpu-003", "joblog", source)
    assert is_withheld_from_tenant(Fact("joblog", "job.error", "cuda_oom", host="gpu-003", attrs={FROM_FILE: JOB | wrong}), ACME)


def test_what_a_look_says_of_itself_and_what_machines_say_withholds_nothing() -> None:
    for fact in (
        Fact("joblog", "job.log", True),
        Fact("joblog", "job.error", status=Status.ABSENT),
        Fact("env", "env.RANK", "0"),
        Fact("smi", "gpu.count", 8),
    ):
        assert not is_withheld_from_tenant(Fact(fact.check, fact.key, fact.value, status=fact.status, host="gpu-003"), ACME)
    assert is_withheld_from_tenant(Fact("joblog", "job.error", "cuda_oom", host="gpu-003"), ACME)
    assert is_withheld_from_tenant(Fact("joblog", "job.error", "cuda_oom", host="gpu-005", attrs={FROM_FILE: JOB}), ACME)


def test_what_a_customer_hands_in_is_kept_beside_the_same_of_our_own_people() -> None:
    ours = Fact("joblog", "job.error", "cuda_oom", line="out of memory")
    theirs = Fact("joblog", "job.error", "cuda_oom", line="out of memory", attrs={FROM_FILE: {"path": "x.log", "by": "customer"}})
    assert merge_facts([ours], [theirs]) == [ours, theirs]
    assert merge_facts([ours, theirs], [theirs]) == [ours, theirs]
    assert [is_withheld_from_tenant(fact, ACME) for fact in (ours, theirs)] == [True, False]
