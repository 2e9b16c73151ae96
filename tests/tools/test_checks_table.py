"""The check catalogue as a whole: ids, argv, slots and keys are consistent."""

import re

import pytest

from kb.fact_keys import find_key
from tests.support.samples_checks import SAMPLES
from tools.checks import CHECKS
from tools.checks.check_types import SLOT_PATTERNS, BadSlot, Check
from tools.checks.smi.gpu import FIELDS

PASSIVE = ["smi", "topo", "nvlink", "dmesg", "lspci", "ibstat", "sysd", "mods", "disk", "mem", "env", "joblog", "procs"]  # fmt: skip
PASSIVE += ["docker", "time", "sched", "cpu", "net", "store", "ipmi", "vers", "fabric", "base"]
EXCLUSIVE = ["cuda", "dcgm1", "dcgm2", "bw", "p2p", "nccl1", "gemm", "sdc", "ibbw", "nccl2", "e2e"]
TOGETHER = {"hca": "mlx5_0", "gpu": "0", "peer": "n2", "hosts": "n1:8,n2:8", "nodes": "n1,n2", "ranks": "16", "count": "2"}
FILLED = TOGETHER | {
    "gpu_burn": "/opt/gpu-burn",
    "gpus": "8",
    "node": "gpu-017",
    "kube_node": "gpu-017",
    "job_logs": "/var/log/jobs",
    "nccl_tests": "/opt/nccl-tests",
    "object_store": "https://objects.example/bucket",
    "tracker": "https://tracker.example:8443/",
}
EVERY = [pytest.param(check, id=check.id) for check in CHECKS.values()]


def test_the_catalogue_holds_these_checks_and_these_of_them_need_the_gpus_for_themselves() -> None:
    assert [check.id for check in CHECKS.values() if not check.exclusive] == PASSIVE
    assert [check.id for check in CHECKS.values() if check.exclusive] == EXCLUSIVE
    assert all(key == check.id for key, check in CHECKS.items())


@pytest.mark.parametrize("check", EVERY)
def test_every_command_can_be_filled_and_takes_no_shell(check: Check) -> None:
    assert len({command.name for command in check.commands}) == len(check.commands)
    for command in check.commands:
        assert re.fullmatch(r"[a-z]+", command.name)
        assert {slot for word in command.argv for slot in re.findall(r"{([a-z_]+)}", word)} <= set(SLOT_PATTERNS)
        argv = command.fill_argv(FILLED)
        assert argv[0]
        assert not any(re.search(r"[|;&$`<>\n]", word) for word in argv)
        assert argv[0] not in ("sh", "bash", "sudo")


def test_a_slot_that_is_missing_or_hostile_is_refused() -> None:
    command = CHECKS["nccl1"].commands[0]
    for gpus in ("", "0", "8; reboot", "8 8"):
        with pytest.raises(BadSlot, match="gpus"):
            command.fill_argv({**FILLED, "gpus": gpus})
    with pytest.raises(BadSlot, match="job_logs"):
        CHECKS["joblog"].commands[0].fill_argv({"job_logs": "/var/../etc"})


@pytest.mark.parametrize("check", EVERY)
def test_every_key_a_check_establishes_is_in_the_vocabulary(check: Check) -> None:
    assert check.asks.endswith("?")
    assert len(set(check.establishes)) == len(check.establishes)
    unknown = [key for key in check.establishes if find_key(key) is None]
    assert not unknown


def test_every_field_of_nvidia_smi_has_a_key_a_type_and_a_path() -> None:
    for row in FIELDS:
        assert find_key(row.key) is not None, row
        assert row.reads in ("int", "float", "flag", "text"), row
        kind = {"flag": "bool", "text": "str"}.get(row.reads, row.reads)
        known = find_key(row.key)
        assert known is not None
        assert known.kind == kind, row
        assert row.paths
    assert len({row.key for row in FIELDS}) == len(FIELDS)


@pytest.mark.parametrize("check", EVERY)
def test_what_the_parsers_emit_is_what_the_row_promises(check: Check) -> None:
    emitted = []
    for sample in SAMPLES[check.id]:
        facts = check.parse_output(sample)
        facts = tuple(check.settle(facts)) if check.settle else facts
        emitted += [fact for fact in facts if fact.key]
        assert emitted, f"{check.id} reads nothing of {sample[:60]!r}"
    assert {fact.check for fact in emitted} == {check.id}
    for fact in emitted:
        row = find_key(fact.key)
        assert row is not None, fact.key
        promised = {name for name in check.establishes if find_key(name) == row}
        assert promised, f"{check.id} emits {fact.key} without promising it"
        kinds: dict[str, type | tuple[type, ...]] = {"int": int, "float": float, "bool": bool, "str": str, "list": list}
        if fact.value is not None:
            assert isinstance(fact.value, kinds[row.kind]), (fact.key, fact.value)
            assert row.kind == "bool" or not isinstance(fact.value, bool), (fact.key, fact.value)


@pytest.mark.parametrize("check", EVERY)
def test_foreign_and_empty_texts_are_refused_with_a_reason(check: Check) -> None:
    for text in ("", "\n\n", "Permission denied\n", "command not found\n", "\0\0\0", "{}"):
        facts = check.parse_output(text)
        assert all(fact.line for fact in facts if not fact.key)
        if check.id != "joblog":
            assert [fact.status.blind for fact in facts] == [True], (text, facts)
