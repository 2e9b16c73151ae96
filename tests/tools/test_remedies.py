"""The remedy catalogue is consistent, and an action consists exactly of its row and its validated values."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.cli.catalogue_tables import build_remedy_rows
from tools.action import Action, Condition, FaultCondition
from tools.checks import CHECKS
from tools.execution.build import (
    ActionRequest,
    HostIdentity,
    NoController,
    build_action,
    build_check_action,
    compute_catalogue_hash,
    find_execution_host,
    hash_catalogue,
)
from tools.inventory.inventory import parse_inventory
from tools.nodekit.generate import CONDITION_FUNCTIONS
from tools.remedies import REMEDIES, REMEDY_VARIANTS, get_executed_remedy
from tools.remedies.remedy import ARGUMENT_KINDS, BadArgument, Remedy, fill_slots
from tools.remedies.scripts import CLEANED_FOLDERS

FLEET = parse_inventory(
    {
        "groups": {
            "h100": {"hosts": "gpu-[001-004]", "controller": "head"},
            "lone": {"hosts": "lone-1"},
            "heads": {"hosts": "head"},
            "pods": {"hosts": "pod-[1-2]", "controller": "head", "scheduler": "kubernetes"},
        },
        "hosts": {"pod-2": {"node": "ip-10-0-0-2.cloud.example"}},
    }
)
SEEN = HostIdentity("0f2c6a4e-8b1d-4c3a-9e5f-7a6b5c4d3e2f", "SHA256:abc")
GOOD = {
    "bdf": "0000:9b:00.0",
    "job": "4711",
    "pid": "4711",
    "ticks": "123",
    "signal": "TERM",
    "watts": "700",
    "check": "nccl1",
    "container": "0f" * 32,
    "hours": "72",
    "service": "docker",
}
LATER = ("sched",)  # checks that a proof may name before the catalogue has them: unobserved, so never passed


def _build(remedy: str, target: str = "", **more: Any) -> Action:
    row, host = REMEDIES[remedy], FLEET.hosts[target or _home(REMEDIES[remedy])]
    args = more.pop("args", {name: GOOD[name] for name in row.args if name in GOOD})
    return build_action(
        ActionRequest(remedy, args, "inc-1", **more), host, find_execution_host(row, host, FLEET.hosts), SEEN, policy="p", catalogue="c"
    )


def _home(row: Remedy) -> str:
    """Return a host whose scheduler supports the remedy."""
    return "pod-1" if row.only == "kubernetes" else "gpu-001"


ROWS = [row for row in REMEDIES.values() if row.at != "fleet"]
each = pytest.mark.parametrize("row", [*REMEDIES.values(), *REMEDY_VARIANTS.values()], ids=lambda row: row.id)


@each
def test_every_slot_of_a_row_is_one_of_its_arguments(row: Remedy) -> None:
    words = [*row.command, row.does, *(word for c in row.conditions for word in (*c.argv, c.expects))]
    slots = {slot for word in words for slot in re.findall(r"{([a-z_]+)}", word)}
    assert slots <= set(row.args)
    assert {*row.args.values()} <= set(ARGUMENT_KINDS)
    assert {slot for word in row.command for slot in re.findall(r"{([a-z_]+)}", word)} | {"ticks"} >= set(row.args)


def _over(way: Remedy) -> list[str]:
    """Return the rows that have this one as a variant."""
    return [row.id for row in REMEDIES.values() if way in row.ways.values()]


@each
def test_every_remedy_named_by_a_row_exists(row: Remedy) -> None:
    assert {row.undo, row.heavier, *row.covers} - {""} <= set(REMEDIES)
    assert row.id not in row.covers
    assert get_executed_remedy((REMEDIES[row.undo].undo,), REMEDIES[row.undo].undo).id in (row.id, *_over(row)) if row.undo else True


@each
def test_a_row_says_what_people_need_to_decide(row: Remedy) -> None:
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", row.id)
    assert row.does[0].isupper()
    assert not row.does.endswith(".")
    assert len(row.blast) > 8
    assert row.at == "fleet" or (row.proof and row.refusals)
    assert set(row.proof) <= {*CHECKS, *LATER}
    assert 0 < row.limit_seconds <= 600
    assert all(words.strip() and len(meaning) > 20 for words, meaning in row.refusals.items())
    assert row.completion.kind == "exit_zero" or row.completion.seconds >= 600


@each
def test_a_condition_can_be_read_and_says_what_must_hold(row: Remedy) -> None:
    for condition in row.conditions:
        assert condition.says
        assert condition.argv
        assert not condition.argv[0].startswith("@") or (condition.kind == "node" and condition.argv[0][1:] in CONDITION_FUNCTIONS)
        assert row.at != "fleet"


def test_remedies_that_end_work_need_an_idle_or_drained_node_or_the_exact_process() -> None:
    for row in REMEDIES.values():
        if row.at == "target" and row.risk in ("disruptive", "destructive"):
            assert row.needs or any(condition.kind == "node" for condition in row.conditions), row.id


def test_no_command_goes_through_a_shell_that_sees_values_as_code() -> None:
    for row in ROWS:
        if row.command[0] in ("sh", "bash"):
            assert row.command[1] == "-c"
            assert "{" not in row.command[2], f"{row.id}: values are positional parameters of the script, never its text"


def test_undo_and_heavier_never_lead_round_in_a_ring() -> None:
    for row in REMEDIES.values():
        seen, name = set(), row.heavier
        while name and name != row.id and name not in seen:
            seen.add(name)
            name = REMEDIES[name].heavier
        assert not name or name == row.id == row.heavier, "only the same remedy with a stronger argument may follow itself"


def test_the_rows_for_people_hold_every_remedy_whole() -> None:
    rows = build_remedy_rows()
    assert [row["id"] for row in rows] == list(REMEDIES)
    assert json.loads(json.dumps(rows)) == rows
    wanted = {"id", "does", "risk", "at", "args", "command", "conditions", "completion", "proof", "undo", "heavier", "blast", "refusals"}
    assert all(wanted <= set(row) for row in rows)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_an_action_is_its_row_with_the_values_put_in(row: Remedy) -> None:
    action = _build(row.id)
    assert action.argv == (row.id, *action.args.values())
    assert action.command == tuple(fill_slots(word, action.args) for word in row.command)
    assert not [word for word in (*action.argv, *action.command) if re.search(r"{[a-z_]+}", word)]
    assert (action.target, action.via) == (_home(row), "head" if row.at == "controller" else _home(row))
    assert (action.risk, action.limit_seconds, action.proof, action.undo) == (row.risk, row.limit_seconds, row.proof, row.undo)
    assert (action.boot_id, action.host_key) == (SEEN.boot_id, SEEN.host_key)
    assert not [word for c in action.conditions for word in (*c.argv, c.expects) if re.search(r"{[a-z_]+}", word)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_an_action_comes_back_from_its_canonical_text_byte_for_byte(row: Remedy) -> None:
    action = _build(row.id, devices=("gpu-001/gpu4",), label="GPU.ECC.Uncorrectable", requested_by="T1:ANN")
    again = Action.from_canonical_json(action.to_canonical_json())
    assert again == action
    assert again.digest == action.digest
    assert "\n" not in action.to_canonical_json()


def test_asking_for_the_same_again_is_another_action() -> None:
    assert _build("gpu_reset").digest != _build("gpu_reset").digest


def _changed(value: Any) -> Any:
    match value:
        case str():
            return value + "x"
        case int():
            return value + 1
        case tuple() if value and isinstance(value[0], Condition):
            return tuple(value[1:])
        case tuple():
            return (*value, "x")
        case None:
            return FaultCondition("GPU.BUS.Fallen_Off_Bus", "n1", "Xid 79")
        case _:
            return {**value, "x": "y"}


@pytest.mark.parametrize("field", [field.name for field in fields(Action)])
def test_the_digest_covers_every_field(field: str) -> None:
    action = _build("gpu_reset", needs_drained=True)
    other = replace(action, **{field: _changed(getattr(action, field))})
    assert other.digest != action.digest


@given(st.sampled_from(["kind", "says", "argv", "expects"]), st.text(min_size=1, max_size=9))
def test_the_digest_covers_every_word_of_a_condition(field: str, text: str) -> None:
    action = _build("gpu_reset")
    first = action.conditions[0]
    value: Any = (*first.argv, text) if field == "argv" else text
    other = replace(action, conditions=(replace(first, **{field: value}), *action.conditions[1:]))
    assert other.digest != action.digest


@given(st.lists(st.text(max_size=6), max_size=5), st.lists(st.text(max_size=6), max_size=5))
def test_words_cannot_be_shifted_into_each_other(one: list[str], two: list[str]) -> None:
    action = _build("reboot")
    same = replace(action, command=tuple(one)).digest == replace(action, command=tuple(two)).digest
    assert same == (one == two)


@pytest.mark.parametrize(
    ("remedy", "args", "names"),
    [
        ("gpu_reset", {}, ["bdf=''"]),
        ("gpu_reset", {"bdf": "0000:9b:00.0; reboot"}, ["bdf='0000:9b:00.0; reboot'", "PCI address"]),
        ("gpu_reset", {"bdf": "0000:9b:00.0\n"}, ["bdf="]),
        ("gpu_reset", {"bdf": "0000:9b:00.0", "force": "yes"}, ["force: not an argument of gpu_reset"]),
        ("kill_gpu_process", {"pid": "1", "ticks": "x", "signal": "HUP"}, ["pid='1'", "ticks='x'", "signal='HUP'"]),
        ("cancel_job", {"job": "--user=root"}, ["job='--user=root'"]),
        ("drain_node", {"node": "gpu-002"}, ["node='gpu-002'", "must be the target, gpu-001"]),
        ("drain_node", {"node": "ALL"}, ["node='ALL'"]),
    ],
)
def test_bad_arguments_are_refused_by_name_all_at_once(remedy: str, args: Mapping[str, str], names: list[str]) -> None:
    with pytest.raises(BadArgument) as refusal:
        _build(remedy, args=args)
    assert all(name in str(refusal.value) for name in names)


@given(st.sampled_from([row.id for row in ROWS]), st.dictionaries(st.sampled_from([*GOOD, "node", "approval"]), st.text(max_size=12)))
def test_no_text_at_all_becomes_more_than_one_word(remedy: str, args: dict[str, str]) -> None:
    try:
        action = _build(remedy, args=args)
    except BadArgument:
        return
    assert all(re.fullmatch(r"[A-Za-z0-9._:-]+", value) for value in action.args.values())
    assert not [value for value in action.args.values() if value.startswith("-")]


def test_values_that_look_like_slots_stay_as_they_are() -> None:
    assert fill_slots("a {x} b {y}", {"x": "{y}", "y": "1"}) == "a {y} b 1"


def test_the_approval_stands_in_the_drain_reason_and_cannot_be_chosen() -> None:
    action = _build("drain_node", args={"approval": "apr-000000000000"})
    assert action.args == {"node": "gpu-001", "approval": action.approval}
    assert action.command[-1] == f"Reason=rackmedic:{action.approval}"
    assert action.approval != "apr-000000000000"


def test_what_runs_via_a_controller_is_not_built_without_one() -> None:
    for row in ROWS:
        if row.at == "controller":
            with pytest.raises(NoController, match=r"controller: for group 'lone'|`controller:` for group 'lone'"):
                _build(row.id, target="lone-1")


def _drained(action: Action) -> list[Condition]:
    return [condition for condition in action.conditions if "drained" in condition.says]


def test_a_reset_needs_a_drained_node_if_a_scheduler_can_tell() -> None:
    assert len(_drained(_build("gpu_reset"))) == 1
    assert _drained(_build("gpu_reset", target="lone-1")) == []


def test_what_relaxed_the_quorum_becomes_a_condition_or_the_action_is_not_built() -> None:
    action = _build("kill_gpu_process", needs_drained=True)
    assert len(_drained(action)) == 1
    assert _drained(action)[0].argv == ("sinfo", "-h", "-N", "-n", "gpu-001", "-O", "StateLong:20,StateComplete:80")
    with pytest.raises(NoController):
        _build("kill_gpu_process", target="lone-1", needs_drained=True)


@pytest.mark.parametrize(("remedy", "way"), [("drain_node", "cordon_node"), ("resume_node", "uncordon_node")])
def test_one_rung_is_carried_out_as_the_hosts_scheduler_does_it(remedy: str, way: str) -> None:
    """Ledger and remediations know one remedy; kit and text use the scheduler's variant."""
    action = _build(remedy, "pod-2")
    assert (action.remedy, action.argv[0], action.args["node"]) == (remedy, way, "ip-10-0-0-2.cloud.example")
    assert get_executed_remedy(action.argv, action.remedy) is REMEDY_VARIANTS[way]
    assert action.argv == (way, *action.args.values())
    assert all("kubectl" in " ".join(condition.argv) for condition in action.conditions)
    assert not any("pod-2" in word for word in (*action.argv, *action.command, *(w for c in action.conditions for w in c.argv)))
    assert _build(remedy).argv[0] == remedy, "Slurm's own is as it was"


def test_a_way_asks_for_the_same_decision_as_its_row() -> None:
    for row in REMEDIES.values():
        for way in row.ways.values():
            assert (way.risk, way.at, way.completion, way.proof, way.undo) == (row.risk, row.at, row.completion, row.proof, row.undo)
            assert list(way.args) == list(row.args)
            assert (way.only, way.ways, way.id in REMEDIES) == ("", {}, False)


@pytest.mark.parametrize(
    ("remedy", "target", "says"), [("cancel_job", "pod-1", "is Slurm's"), ("evict_pods", "gpu-001", "is Kubernetes's")]
)
def test_what_only_another_scheduler_knows_is_not_built(remedy: str, target: str, says: str) -> None:
    with pytest.raises(NoController, match=says):
        _build(remedy, target)


def test_drained_is_said_in_two_readings_where_kubernetes_is_asked() -> None:
    readings = [condition for condition in _build("gpu_reset", "pod-2").conditions if condition.id == "drained"]
    assert [condition.kind for condition in readings] == ["controller", "controller"]
    assert ["get node" in " ".join(condition.argv) for condition in readings] == [True, False]
    assert all("ip-10-0-0-2.cloud.example" in " ".join(condition.argv) for condition in readings)


def test_a_check_on_a_set_of_hosts_is_one_action_in_one_order() -> None:
    wanted = ActionRequest("run_check", {"check": "nccl1"}, "inc-1")
    one = build_check_action(wanted, ["gpu-002", "gpu-001"], policy="p", catalogue="c")
    assert (one.target, one.via, one.boot_id) == ("gpu-001,gpu-002", "gpu-001,gpu-002", "")
    for check in ("smi", "nosuch", ""):
        with pytest.raises(BadArgument, match="check="):
            build_check_action(replace(wanted, args={"check": check}), ["gpu-001"], policy="p", catalogue="c")


def test_a_conditions_id_is_part_of_the_digest() -> None:
    named, nameless = (Condition("node", "x", ("y",), "z", id=name) for name in ("idle", ""))
    with_id, without = (replace(_build("gpu_reset"), conditions=(row,)) for row in (named, nameless))
    assert with_id.digest != without.digest
    assert [Action.from_canonical_json(one.to_canonical_json()) for one in (with_id, without)] == [with_id, without]


@pytest.mark.parametrize("field", [field.name for field in fields(Remedy)])
def test_the_catalogues_hash_changes_with_any_field_of_any_row(field: str) -> None:
    before = compute_catalogue_hash()
    for row in REMEDIES.values():
        value = getattr(row, field)
        other: Any = replace(value, seconds=1) if field == "completion" else _changed(value)
        if field == "conditions" and not value:
            other = (Condition("node", "x", ("y",), "z"),)
        assert hash_catalogue({**REMEDIES, row.id: replace(row, **{field: other})}, ARGUMENT_KINDS) != before, row.id


def test_the_catalogues_hash_changes_with_kinds_and_rows_and_is_stable() -> None:
    before = compute_catalogue_hash()
    assert before == hash_catalogue(dict(REMEDIES), dict(ARGUMENT_KINDS))
    assert re.fullmatch(r"[0-9a-f]{16}", before)
    for name, kind in ARGUMENT_KINDS.items():
        for field in asdict(kind):
            assert hash_catalogue(REMEDIES, {**ARGUMENT_KINDS, name: replace(kind, **{field: _changed(getattr(kind, field))})}) != before
    assert hash_catalogue({name: row for name, row in REMEDIES.items() if name != "reboot"}, ARGUMENT_KINDS) != before


_DURATION = re.compile(r"([0-9]+) (s|min)\b")


def _seconds(words: str) -> list[int]:
    return [int(number) * (60 if unit == "min" else 1) for number, unit in _DURATION.findall(words)]


@each
def test_each_row_tells_the_outage_and_what_waiting_costs(row: Remedy) -> None:
    for words in (row.outage, row.waiting):
        assert 3 < len(words) < 160
        assert not words.endswith(".")
    told = _seconds(row.outage)
    if row.completion.kind == "new_boot":
        assert max(told) == row.completion.seconds
        assert len(told) > 1, "how long it usually takes, and from when on it counts as lost"
    elif not row.outage.startswith("none") and row.risk != "intrusive":
        assert told, "an outage names its length"
        assert max(told) <= row.limit_seconds


@each
def test_each_row_tells_the_files_that_it_touches_and_the_processes_that_end(row: Remedy) -> None:
    for words in (row.files, row.ends):
        assert 3 < len(words) < 220
        assert not words.endswith(".")
        assert set(re.findall(r"{([a-z_]+)}", words)) <= row.args.keys()
    assert row.files.startswith("none") or "/" in row.files or row.only == "kubernetes"
    assert row.ends.startswith("nothing") or row.risk != "intrusive", "what ends a process is no mild change"
    assert ("checkpoint" in row.ends) <= (row.risk in ("disruptive", "destructive"))


def test_cleanup_names_each_folder_that_it_deletes_from() -> None:
    assert all(f"{folder}," in REMEDIES["cleanup"].files for folder in CLEANED_FOLDERS)


@each
def test_a_row_that_takes_a_node_or_its_gpus_names_their_jobs(row: Remedy) -> None:
    takes_node = (
        row.at == "fleet" or "drained" in row.needs or row.id in ("drain_node", "cordon_node", "evict_pods", "restart_fabricmanager")
    )
    assert row.names_jobs or not takes_node


@pytest.mark.parametrize(("remedy", "kind"), [("reboot", "warm"), ("power_cycle", "cold")])
def test_a_restart_says_whether_it_is_warm_or_cold(remedy: str, kind: str) -> None:
    assert f"({kind})" in REMEDIES[remedy].does
