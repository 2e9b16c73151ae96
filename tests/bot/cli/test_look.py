"""`rackmedic look`: differences among hosts, unobserved checks, facts for scripts, and the heat map."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from bot.app.diagnosis_runtime import DiagnosisRuntime
from bot.cli.cluster_access import open_command_world, open_stage
from bot.cli.command_requests import LookRequest, parse_picture_format
from bot.cli.host_differences import HostDifferences
from bot.cli.look import render_heatmap_tables, run_checks, write_heatmap_image
from bot.cli.safe_console import open_table_console
from bot.refusal import Refusal
from bot.reports.charts.heatmap import compute_scale
from bot.settings import load_settings
from tests.support.terminal import rackmedic
from tools.fact import Fact, Status, Value, build_unobserved_fact
from tools.fleet.answers import CheckAnswer
from tools.heatmap import Heatmap
from tools.inventory.host_ranges import expand_host_range

CASE = """
id: t1
profile: dgx-h100-8
nodes: [gpu-001, gpu-002, gpu-003, gpu-004, gpu-005]
ticket: {text: "job 4711 hangs"}
faults: [{id: G07, node: gpu-003, gpu: 5, t: -620}]
modifiers: ["R6(check=dmesg@gpu-005, how=timeout)"]
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[DiagnosisRuntime]:
    """Return the case's simulated cluster, shared because looking changes nothing."""
    async for world in opened(tmp_path_factory.mktemp("case"), CASE):
        yield world


async def opened(folder: Path, case: str) -> AsyncIterator[DiagnosisRuntime]:
    (folder / "case.yaml").write_text(case)
    async with open_command_world(load_settings(environ={}), None, open_stage(folder / "case.yaml")) as world:
        yield world


def seen(rows: dict[str, Value], key: str = "driver.version", device: str | None = None, expected: Value = None) -> HostDifferences:
    """Return the differences of one fact per host."""
    found = HostDifferences(lambda host, k, d: expected, lambda host: "same")
    for host, value in rows.items():
        found.add_answer(CheckAnswer(host, "smi", (Fact("smi", key, value, device, host=host),)))
    return found


def test_every_drained_node_is_listed() -> None:
    found = HostDifferences(lambda *_: None, lambda host: "same")
    drained = (Fact("sched", "sched.state", "IDLE+DRAIN", host="n2"), Fact("sched", "sched.reason", "bad fan, ask anton", host="n2"))
    found.add_answer(CheckAnswer("n1", "sched", (Fact("sched", "sched.state", "ALLOCATED", host="n1"),)))
    found.add_answer(CheckAnswer("n2", "sched", drained))
    assert lines(found, "sched") == ["n1: ok", "n2: sched.state IDLE+DRAIN · sched.reason bad fan, ask anton"]


def lines(found: HostDifferences, check: str = "smi") -> list[str]:
    return [str(group) for group in found.list_host_groups(check)]


def test_hosts_that_agree_are_one_line() -> None:
    assert lines(seen(dict.fromkeys(expand_host_range("gpu-[001-119]"), "550.1"))) == ["gpu-[001-119]: ok"]


def test_the_one_that_differs_from_most_is_told_with_what_most_say() -> None:
    rows: dict[str, Value] = dict.fromkeys(expand_host_range("gpu-[001-119]"), "550.1")
    assert lines(seen({**rows, "gpu-118": "535.9"})) == [
        "gpu-[001-117,119]: ok",
        "gpu-118: driver.version 535.9 (most: 550.1)",
    ]


def test_without_a_majority_no_host_is_called_different() -> None:
    assert lines(seen({"n1": "1", "n2": "2", "n3": "3", "n4": "4"})) == ["n[1-4]: ok"]
    assert lines(seen({"n1": "1", "n2": "2"})) == ["n[1-2]: ok"]


def test_what_the_machine_should_be_counts_also_for_a_single_host() -> None:
    assert lines(seen({"n1": 7}, "gpu.count", expected=8)) == ["n1: gpu.count 7 (expected 8)"]
    assert lines(seen({"n1": 300.0}, "nccl.busbw_max", expected=480.0)) == ["n1: nccl.busbw_max 300 (expected 480)"]
    assert lines(seen({"n1": 470.0}, "nccl.busbw_max", expected=480.0)) == ["n1: ok"]


def test_temperatures_differ_by_nature() -> None:
    assert lines(seen({"n1": 30, "n2": 30, "n3": 30, "n4": 41}, "gpu.temp.core", "gpu0")) == ["n[1-4]: ok"]


def test_hosts_behind_another_leaf_switch_do_not_differ() -> None:
    assert lines(seen({"n1": "leaf-1", "n2": "leaf-1", "n3": "leaf-1", "n4": "leaf-2"}, "fabric.leaf")) == ["n[1-4]: ok"]


def test_a_host_that_lacks_what_most_have_is_not_ok() -> None:
    found = seen({"n1": True, "n2": True, "n3": True}, "gpu.persistence", "gpu5")
    found.add_answer(CheckAnswer("n4", "smi", (Fact("smi", "gpu.count", 7, host="n4"),)))
    assert "n4: gpu.count 7 · gpu5: no gpu.persistence (most hosts have)" in lines(found)


def test_hosts_of_another_kind_are_compared_among_themselves() -> None:
    found = HostDifferences(lambda *_: None, lambda host: host[0])
    for host in ("a1", "a2", "a3", "b1", "b2", "b3"):
        found.add_answer(CheckAnswer(host, "smi", (Fact("smi", "gpu.product", f"model {host[0]}", "gpu0", host=host),)))
    assert lines(found) == ["a[1-3],b[1-3]: ok"]


def test_an_event_is_notable_and_an_old_one_is_not() -> None:
    found = HostDifferences(lambda *_: None, lambda host: "")
    found.add_answer(CheckAnswer("n1", "dmesg", (Fact("dmesg", "kernel.xid", 79, "gpu5", host="n1"),)))
    found.add_answer(CheckAnswer("n2", "dmesg", (Fact("dmesg", "kernel.xid", 79, "gpu5", host="n2", stale=True),)))
    assert lines(found, "dmesg") == ["n2: ok", "n1: gpu5: kernel.xid 79"]


def test_devices_that_say_the_same_are_folded() -> None:
    found = HostDifferences(lambda *_: None, lambda host: "")
    facts = tuple(Fact("ibstat", "pcie.downgraded", True, f"gpu{n}", host="n1") for n in range(4))
    found.add_answer(CheckAnswer("n1", "lspci", facts))
    assert lines(found, "lspci") == ["n1: gpu[0-3]: pcie.downgraded True"]


def test_what_could_not_be_looked_at_is_apart_and_never_ok() -> None:
    found = seen({"n1": "1", "n2": "1"})
    for host in ("n3", "n4"):
        for check in ("smi", "dmesg"):
            found.add_answer(
                CheckAnswer(host, check, (build_unobserved_fact(check, Status.UNREACHABLE, "no route", host),), could_not="no route")
            )
    assert lines(found) == ["n[1-2]: ok"]
    assert [str(row) for row in found.list_unobserved_hosts()] == ["n[3-4]: smi dmesg: no route"]


def test_a_host_of_which_a_part_could_not_be_looked_at_is_not_called_ok() -> None:
    found = seen({"n1": "1", "n2": "1"})
    rows = (Fact("smi", "driver.version", "1", host="n3"), build_unobserved_fact("smi", Status.TIMEOUT, "no answer within 20 s", "n3"))
    found.add_answer(CheckAnswer("n3", "smi", rows, could_not="no answer within 20 s"))
    assert lines(found) == ["n[1-2]: ok", "n3: nothing in the part that could be looked at"]


def test_a_dead_host_is_one_line_however_many_checks_were_asked() -> None:
    found = seen({"n1": "1"})
    for check in ("smi", "dmesg", "mem"):
        found.add_answer(
            CheckAnswer("n2", check, (build_unobserved_fact(check, Status.UNREACHABLE, "no route", "n2"),), could_not="no route")
        )
    (row,) = found.list_unobserved_hosts()
    assert row.format_among_checks(3) == "n2: all 3 checks: no route"
    assert row.format_among_checks(4) == "n2: smi dmesg mem: no route"
    assert seen({"n1": "1"}).list_unobserved_hosts() == ()


def test_what_hosts_print_is_shown_literally() -> None:
    rows: dict[str, Value] = {"n1": "1", "n2": "1", "n3": "1", "n4": "[red]\x1b[2J"}
    assert "\x1b" not in "".join(lines(seen(rows)))


@given(st.dictionaries(st.sampled_from(expand_host_range("n[1-12]")), st.sampled_from(["a", "b", "c"]), min_size=1))
def test_every_host_is_in_exactly_one_group(rows: dict[str, Value]) -> None:
    groups = seen(rows).list_host_groups("smi")
    assert sorted(host for group in groups for host in group.hosts) == sorted(rows)
    assert len({group.notes for group in groups}) == len(groups)


@pytest.mark.asyncio(loop_scope="module")
async def test_look_folds_a_cluster(cluster: DiagnosisRuntime, capsys: pytest.CaptureFixture[str]) -> None:
    assert await run_checks(cluster, LookRequest("gpu-[001-005]", ("smi", "dmesg"))) == 0
    out = capsys.readouterr().out
    assert "  gpu-[001-002,004-005]: ok" in out
    assert "  gpu-005: nothing in the part that could be looked at" in out
    assert "gpu5: gpu.lost True" in out
    assert "gpu5: kernel.xid 79" in out
    assert "gpu-005: dmesg: dmesg.ring: no answer within" in out


@pytest.mark.asyncio(loop_scope="module")
async def test_checks_in_which_every_host_is_well_are_one_line(cluster: DiagnosisRuntime, capsys: pytest.CaptureFixture[str]) -> None:
    await run_checks(cluster, LookRequest("gpu-[001-005]", ("disk", "mem", "smi")))
    assert "ok on every host that answered\n  gpu-[001-005]: disk mem\n" in capsys.readouterr().out


@pytest.mark.asyncio(loop_scope="module")
async def test_look_prints_facts_with_their_host_as_json_lines(cluster: DiagnosisRuntime, capsys: pytest.CaptureFixture[str]) -> None:
    await run_checks(cluster, LookRequest("gpu-003,gpu-005", ("dmesg",), as_json=True))
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {"host", "check", "key", "device", "value", "unit", "status"} <= set(rows[0])
    assert ("gpu-003", "gpu5", 79) in {(row["host"], row["device"], row["value"]) for row in rows if row["key"] == "kernel.xid"}
    assert {row["status"] for row in rows if row["host"] == "gpu-005"} >= {"timeout"}
    assert all(len(row["sha256"]) == 64 for row in rows if row["status"] == "ok")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("gpu-001", "nccl1"), "--exclusive"),
        (("gpu-001", "sim"), "there is no check 'sim'"),
        (("gpu-009",), "not in the inventory"),
        (("gpu-[", "smi"), "unbalanced"),
        (("gpu-001", "--heat", "driver.version"), "no number of a GPU"),
        (("gpu-001", "--out", "x.png"), "--heat"),
        (("gpu-001", "--heat", "gpu.temp.core", "--out", "x.gif"), ".png or .svg"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_the_mend(tmp_path: Path, words: tuple[str, ...], told: str) -> None:
    (tmp_path / "case.yaml").write_text(CASE)
    ran = rackmedic("look", *words, "--sandbox", str(tmp_path / "case.yaml"))
    assert (ran.returncode, told in ran.stderr) == (2, True), ran.stderr
    assert not ran.stdout


@pytest.mark.asyncio(loop_scope="module")
async def test_an_exclusive_check_runs_on_idle_hosts_when_allowed(cluster: DiagnosisRuntime, capsys: pytest.CaptureFixture[str]) -> None:
    await run_checks(cluster, LookRequest("gpu-001", ("nccl1",), exclusive=True, as_json=True))
    assert any(json.loads(line)["key"] == "nccl.busbw_max" for line in capsys.readouterr().out.splitlines())


async def test_an_exclusive_check_is_not_run_where_gpus_are_in_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    busy = "profile: dgx-h100-8\nnodes: [n1]\nticket: {text: x}\nfaults: [{id: S12, node: n1, t: -620}]\n"
    async for world in opened(tmp_path, busy):
        await run_checks(world, LookRequest("n1", ("nccl1",), exclusive=True))
    assert "n1: nccl1: nccl1 was not run on n1" in capsys.readouterr().out


def test_the_heat_map_is_a_table_and_a_picture(tmp_path: Path) -> None:
    (tmp_path / "case.yaml").write_text(CASE)
    out = tmp_path / "temp.png"
    ran = rackmedic("look", "gpu-[001-005]", "--heat", "gpu.temp.core", "--out", str(out), "--sandbox", str(tmp_path / "case.yaml"))
    assert ran.returncode == 0, ran.stderr
    assert "gpu7" in ran.stdout
    assert "gpu-003" in ran.stdout
    assert out.read_bytes().startswith(b"\x89PNG")


def test_what_is_not_known_is_not_zero(tmp_path: Path) -> None:
    heat = Heatmap("gpu.temp.core", ("n1", "n2", "n3"))
    heat.add_facts([Fact("smi", "gpu.temp.core", 30, "gpu0", host="n1"), Fact("smi", "gpu.temp.core", 40, "gpu1", host="n2")])
    assert heat.get_row("n1") == [30.0, None]
    assert heat.compute_spread() == (30.0, 35.0, 40.0)
    assert render_heatmap_tables(heat)[-1].caption == "no value: n3"
    write_heatmap_image(heat, tmp_path / "map.svg")
    assert "<svg" in (tmp_path / "map.svg").read_text()


def test_many_gpus_are_split_over_tables_so_that_no_number_is_broken(capsys: pytest.CaptureFixture[str]) -> None:
    heat = Heatmap("gpu.temp.core", ("n1", "n2"))
    heat.add_facts([Fact("smi", "gpu.temp.core", 1_000_000 + n, f"gpu{n}", host=host) for host in ("n1", "n2") for n in range(20)])
    tables = render_heatmap_tables(heat)
    assert [len(table.columns) for table in tables] == [9, 9, 5]
    assert [table.title is None for table in tables] == [False, True, True]
    console = open_table_console()
    for table in tables:
        console.print(table)
    assert max(map(len, capsys.readouterr().out.splitlines())) <= console.width


def test_where_nothing_was_read_no_number_is_told_and_no_picture_made(tmp_path: Path) -> None:
    (tmp_path / "known_hosts").touch()
    (tmp_path / "inventory.yaml").write_text(
        f"groups: {{g: {{hosts: n1}}}}\nhosts: {{n1: {{address: 127.0.0.1, port: 1, known_hosts: {tmp_path / 'known_hosts'}}}}}\n"
    )
    ran = rackmedic("look", "n1", "--heat", "gpu.temp.core", "--out", str(tmp_path / "x.png"), "-i", str(tmp_path / "inventory.yaml"))
    assert "no value was read" in ran.stdout
    assert "median" not in ran.stdout
    assert "no heat map" in ran.stderr
    assert not (tmp_path / "x.png").exists()


def test_a_map_of_nothing_can_still_be_drawn(tmp_path: Path) -> None:
    write_heatmap_image(Heatmap("gpu.temp.core", ("n1",)), tmp_path / "map.svg")
    with pytest.raises(Refusal, match="no folder"):
        parse_picture_format(tmp_path / "absent" / "map.png")


def test_small_differences_look_small_and_large_ones_fill_the_scale() -> None:
    assert compute_scale([29, 32]) == pytest.approx((26.69, 34.31), abs=0.01)
    assert compute_scale([30, 90]) == (30, 90)
    assert compute_scale([0, 0]) == (-0.5, 0.5)
    assert compute_scale([]) == (0.0, 1.0)
