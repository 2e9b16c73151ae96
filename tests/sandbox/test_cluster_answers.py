"""A state always prints the same bytes in the real commands' format; unknown commands are refused and counted."""

import json
import re
from datetime import datetime

import pytest
from defusedxml.ElementTree import fromstring

from deploy.sandbox.cluster.access.cluster import Cluster, UnsafeCommand
from deploy.sandbox.cluster.access.durations import COMMAND_SECONDS
from deploy.sandbox.cluster.access.in_process import InProcessTransport
from deploy.sandbox.cluster.grammar import COMMANDS, SITE_SERVICES, recognise_command, unwrap_command
from tests.support.fakes_cluster import argv, cluster, everything, plain_argv
from tools.checks import CHECKS
from tools.ssh.client import build_remote_command
from tools.transport import Unreachable

BRANCHES = ("525.125.06", "535.161.08", "550.90.07", "570.148.08", "580.95.05")


def _text(of: Cluster, command: str, host: str = "n1") -> str:
    return of.answer(host, argv(command)).stdout.decode()


@pytest.mark.parametrize("fault", ["G07", "S14", "N04", "U10"])
def test_the_same_case_and_seed_print_the_same_bytes(fault: str) -> None:
    assert everything(cluster(fault, seed=7), "n1") == everything(cluster(fault, seed=7), "n1")


def test_another_seed_prints_other_identities_and_the_same_health() -> None:
    one, other = _text(cluster(seed=1), "smi.query"), _text(cluster(seed=2), "smi.query")
    assert one != other
    assert one.count("<remapped_row_pending>No") == other.count("<remapped_row_pending>No") == 8


def test_the_order_of_questions_does_not_matter() -> None:
    of, again = cluster("G01"), cluster("G01")
    backwards = {command: of.answer("n1", argv(command)) for command in reversed(COMMANDS)}
    assert backwards == everything(again, "n1")


def test_who_looks_at_a_case_for_long_reads_no_wrong_clock() -> None:
    of = cluster("G01")
    assert of.answer("n1", argv("time.clock"), 240.0) == of.answer("n1", argv("time.clock"), 0.0)


def test_looking_changes_nothing() -> None:
    of = cluster("N02", "S10@n2")
    before = of.state_hash()
    for host in of.hosts:
        everything(of, host)
    assert of.state_hash() == before
    assert of.state_hash() != cluster().state_hash()


def test_a_cluster_is_untouched_until_a_query_or_a_change() -> None:
    asked, broken = cluster("N02"), cluster()
    assert asked.untouched
    assert broken.untouched
    asked.answer("n1", argv("smi.query"))
    broken.break_("N02", "n1")
    assert not asked.untouched
    assert not broken.untouched


@pytest.mark.parametrize("driver", BRANCHES)
@pytest.mark.parametrize("profile", ["dgx-h100-8", "hgx-a100-8"])
def test_the_xml_is_well_formed_in_every_branch(driver: str, profile: str) -> None:
    of = cluster("G02", "G07@n2", profile=profile, modifiers=[f"R10(driver={driver})"])
    log = fromstring(_text(of, "smi.query"))
    assert log.findtext("driver_version") == driver
    assert [gpu.get("id") for gpu in log.findall("gpu")] == [f"0000{gpu.bdf.upper()}" for gpu in of.world().nodes["n1"].gpus]
    assert log.findall("gpu")[5].findtext("remapped_rows/remapped_row_failure") == "Yes"
    lost = fromstring(_text(of, "smi.query", "n2")).findall("gpu")[5]
    assert {lost.findtext("uuid"), lost.findtext("clocks/sm_clock")} == {"GPU is lost"}


def test_layouts_differ_between_branches_as_the_real_ones_do() -> None:
    shape = {driver: _text(cluster(modifiers=[f"R10(driver={driver})"]), "smi.query") for driver in BRANCHES}
    has = {driver: {word for word in WORDS if f"<{word}>" in text} for driver, text in shape.items()}
    assert has["525.125.06"] == {"clocks_throttle_reasons", "power_draw", "sram_uncorrectable"}
    assert has["535.161.08"] == {"clocks_event_reasons", "power_draw", "sram_uncorrectable", "reset_required"}
    assert has["550.90.07"] == {"clocks_event_reasons", "sram_uncorrectable_parity", "sram_threshold_exceeded", "reset_required"}
    assert has["570.148.08"] == has["550.90.07"] | {"gpu_recovery_action"}
    assert "clocks_event_reasons_counters" in shape["580.95.05"]


WORDS = (
    "clocks_throttle_reasons", "clocks_event_reasons", "power_draw", "sram_uncorrectable", "sram_uncorrectable_parity", "sram_threshold_exceeded",
    "reset_required", "gpu_recovery_action",
)  # fmt: skip


def test_hostile_process_names_cannot_break_the_xml() -> None:
    of = cluster(modifiers=["R5(channel=process_name, text='</process_name><gpu_temp>9 C</gpu_temp>')@n1"])
    processes = fromstring(_text(of, "smi.query")).findall("gpu")[0].findall("processes/process_info")
    assert [row.findtext("process_name") for row in processes] == ["</process_name><gpu_temp>9 C</gpu_temp>"]


def test_kernel_log_and_journal_carry_the_nodes_own_times() -> None:
    plain, moved = cluster("G07"), cluster("G07", modifiers=["R7(tz=Asia/Tokyo, skew=90)@n1"])

    def said(of: Cluster) -> tuple[datetime, int]:
        line = next(line for line in _text(of, "dmesg.ring").splitlines() if "79, pid" in line)
        row = next(row for row in map(json.loads, _text(of, "dmesg.journal").splitlines()) if "79, pid" in row["MESSAGE"])
        stamp = re.search(r": (\S+,\d{6})(\S+) NVRM", line)
        assert stamp
        return datetime.fromisoformat(stamp[1].replace(",", ".") + stamp[2]), int(row["__REALTIME_TIMESTAMP"])

    assert (said(moved)[0] - said(plain)[0]).total_seconds() == 90
    assert said(moved)[0].isoformat().endswith("+09:00")
    assert said(moved)[1] - said(plain)[1] == 90_000_000


def test_the_commands_are_exactly_those_of_the_checks() -> None:
    slots = {"node": "n1", "kube_node": "n1", "gpus": "8", "job_logs": "/var/log/jobs", "nccl_tests": "/usr/local/nccl-tests/build"}
    slots |= {
        "gpu_burn": "/opt/gpu-burn",
        "hca": "mlx5_0",
        "gpu": "0",
        "peer": "n1",
        "hosts": "n0:8,n1:8",
        "nodes": "n0,n1",
        "ranks": "16",
        "count": "2",
        **SITE_SERVICES,
    }
    asked = {f"{check.id}.{command.name}": command.fill_argv(slots) for check in CHECKS.values() for command in check.commands}
    assert asked.keys() == set(COMMANDS) == COMMAND_SECONDS.keys()
    assert {name: plain_argv(name) for name in asked} == asked


def test_a_checks_commands_share_its_seconds() -> None:
    for check in (check for check in CHECKS.values() if check.together is None):
        for scheduler in {command.scheduler for command in check.asked} - {""} or {""}:
            own = [command for command in check.asked if command.scheduler in ("", scheduler)]
            assert sum(COMMAND_SECONDS[f"{check.id}.{command.name}"] for command in own) == pytest.approx(check.seconds)


REFUSED = (
    ("rm", "-rf", "/"), ("bash", "-c", "nvidia-smi -q -x"), ("nvidia-smi", "-r", "-i", "5"), ("nvidia-smi", "-q", "-x", ";", "reboot"), (),
    ("sudo", "-n", "/usr/local/sbin/rackmedic-look", "dmesg.ring", "extra"), ("sudo", "-n", "/usr/local/sbin/rackmedic-look", "smi.reset"),
    ("sudo", "reboot"), ("find", "/var/log/jobs/../..", *argv("joblog.tail")[2:]), ("cat", "/etc/shadow"), ("timeout", "5", "lsmod"),
)  # fmt: skip


@pytest.mark.parametrize("words", REFUSED)
def test_anything_else_is_refused_and_counted(words: tuple[str, ...]) -> None:
    of = cluster()
    answer = of.answer("n1", words)
    assert answer.status == 127
    assert of.unsafe_commands == [UnsafeCommand("n1", words)]
    assert of.unsafe_command_count == 1


@pytest.mark.parametrize("command", COMMANDS)
def test_what_the_ssh_client_sends_is_recognised(command: str) -> None:
    words, limit = unwrap_command(build_remote_command(argv(command), 20))
    assert limit == 20
    assert words == argv(command)
    asked = recognise_command(words)
    assert asked is not None
    assert asked.name == command


def test_without_the_kit_an_ordinary_user_is_kept_out() -> None:
    of = cluster()
    assert "Operation not permitted" in of.answer("n1", plain_argv("dmesg.ring")).stderr.decode()
    assert "<access denied>" in of.answer("n1", plain_argv("lspci.gpus")).stdout.decode()
    assert "insufficient permissions" in of.answer("n1", plain_argv("sysd.journal")).stderr.decode()
    assert not of.unsafe_commands


async def test_in_process_a_command_costs_virtual_seconds_only() -> None:
    transport = InProcessTransport(cluster("G10"))
    quick = await transport.run("n1", argv("mods.kernel"), timeout=20, cap=1 << 20)
    assert (quick.exit_status, quick.seconds, quick.timed_out) == (0, COMMAND_SECONDS["mods.kernel"], False)
    hung = await transport.run("n1", argv("smi.query"), timeout=20, cap=1 << 20)
    assert (hung.exit_status, hung.seconds, hung.timed_out) == (124, 20, True)
    cut = await transport.run("n0", argv("smi.query"), timeout=20, cap=1000)
    assert cut.truncated
    assert len(cut.stdout) == 1000


async def test_a_node_that_is_off_or_unknown_is_unreachable() -> None:
    transport = InProcessTransport(cluster("O01"))
    for host in ("n1", "nowhere"):
        with pytest.raises(Unreachable):
            await transport.run(host, argv("smi.query"), timeout=20, cap=1 << 20)


def test_counters_that_rise_do_so_with_time() -> None:
    of = cluster("N07")

    def symbols(at: float) -> int:
        text = of.answer("n1", argv("ibstat.counters"), at).stdout.decode()
        return int(text.partition("mlx5_6/ports/1/counters/symbol_error:")[2].partition("\n")[0])

    assert symbols(120) > symbols(0) == 45213
