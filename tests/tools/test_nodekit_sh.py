"""rackmedic-act and rackmedic-look on a node: real shells, real locks, stub tools."""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.clock import PATIENCE
from tests.support.fakes_nodekit import BOOT, OTHER_BOOT, SHELLS, Node, digest, kinds_of, limited
from tools.nodekit.generate import build_kit_files
from tools.remedies import REMEDIES
from tools.remedies.remedy import ARGUMENT_KINDS

pytestmark = pytest.mark.slow


BDF = "0000:9b:00.0"
ONE, TWO = digest(1), digest(2)
QUERY = f"nvidia-smi --query-compute-apps=pid --format=csv,noheader -i {BDF}"
RESET = f"nvidia-smi --gpu-reset -i {BDF}"

needs_root_mounts = pytest.mark.skipif(
    os.geteuid() != 0, reason="a full disk or a /run of its own is a tmpfs, which only root can mount: run as root"
)


@pytest.fixture(params=SHELLS)
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path, SHELLS[request.param])
    yield made
    made.kill_all()


# -- start, settle ---------------------------------------------------------------------------------------------------------


def test_a_remedy_runs_once_and_its_end_is_remembered(node: Node) -> None:
    node.stub("nvidia-smi", 'case $1 in --gpu-reset) echo "GPU was reset."; echo "and a warning" >&2 ;; esac')
    assert node.start(ONE, "gpu_reset", BDF).first == "started"
    said = node.ended(ONE)
    assert (said.first, said.rest) == ("done 0", "GPU was reset.\nand a warning\n")
    assert node.calls == [QUERY, RESET]
    assert node.start(ONE, "gpu_reset", BDF).first == "done 0"
    assert node.settle(ONE).rest == said.rest
    assert node.calls == [QUERY, RESET]


def test_the_exit_status_of_the_command_is_what_is_told(node: Node) -> None:
    node.stub("modprobe", 'echo "modprobe: FATAL: Module nvidia-peermem not found"; exit 42')
    node.start(ONE, "modprobe_peermem")
    assert node.ended(ONE).first == "done 42"


@pytest.mark.parametrize("said", ["", "slurm_load_jobs error: Invalid job id specified", "COMPLETED"])
def test_a_job_that_slurm_does_not_have_is_not_called_cancelled_though_scancel_ends_well(node: Node, said: str) -> None:
    node.stub("squeue", f"echo '{said}'; exit {int('error' in said)}")
    refused = node.start(ONE, "cancel_job", "4711")
    assert refused.first.startswith(f"refused Slurm still has the job: found '{said}")
    assert not any(call.startswith("scancel") for call in node.calls)


def test_a_job_of_several_tasks_is_cancelled(node: Node) -> None:
    node.stub("squeue", "echo PENDING; echo RUNNING; echo RUNNING")
    assert node.start(ONE, "cancel_job", "4711").first == "started"
    assert node.ended(ONE).first == "done 0"
    assert node.calls[-1] == "scancel 4711"


def test_a_running_command_is_running_for_every_caller(node: Node) -> None:
    node.stub("modprobe", node.stop_at("work"))
    assert node.start(ONE, "modprobe_peermem").first == "started"
    node.reached("work")
    assert node.settle(ONE).first == "running"
    assert node.start(ONE, "modprobe_peermem").first == "running"
    node.open_gate("work")
    assert node.ended(ONE).first == "done 0"
    assert node.calls == ["modprobe nvidia-peermem"]


def test_a_digest_that_was_settled_first_can_never_start(node: Node) -> None:
    assert node.settle(ONE).first == "never"
    assert node.start(ONE, "modprobe_peermem").first == "never"
    assert node.settle(ONE).first == "never"
    assert node.calls == []


def test_twenty_starts_at_once_run_the_command_once(node: Node) -> None:
    calls = [node.popen("start", ONE, BOOT, "modprobe_peermem") for _ in range(20)]
    words = [call.communicate(timeout=PATIENCE)[0].decode().split("\n")[0] for call in calls]
    assert words.count("started") == 1
    assert set(words) <= {"started", "running", "done 0"}
    assert node.ended(ONE).first == "done 0"
    assert node.calls == ["modprobe nvidia-peermem"]


def test_start_and_settle_at_once_agree_on_one_story(node: Node) -> None:
    for n in range(12):
        one = digest(n)
        before = len(node.calls)
        pair = [node.popen("start", one, BOOT, "modprobe_peermem"), node.popen("settle", one)][:: 1 if n % 2 else -1]
        words = {call.args[len(node.shell) + 1]: call.communicate(timeout=PATIENCE)[0].decode().split("\n")[0] for call in pair}  # type: ignore[index]  # our own list
        ran = len(node.calls) - before if words["start"] == "never" else (node.ended(one), len(node.calls) - before)[1]
        node.idle()
        assert ran == (0 if words["settle"] == "never" else 1), words
        assert words["start"] == ("never" if words["settle"] == "never" else "started")
        assert node.settle(one).first == ("never" if words["settle"] == "never" else "done 0")


# -- failures --------------------------------------------------------------------------------------------


def test_a_lost_connection_neither_stops_nor_hides_the_effect(node: Node) -> None:
    node.stub("modprobe", f"{node.stop_at('work')}; echo effect >>{node.root}/effect")
    caller = node.popen("start", ONE, BOOT, "modprobe_peermem")
    node.reached("work")
    os.killpg(caller.pid, signal.SIGKILL)
    caller.communicate()
    assert node.settle(ONE).first == "running"
    node.open_gate("work")
    assert node.ended(ONE).first == "done 0"
    assert (node.root / "effect").read_text() == "effect\n"


def test_a_start_that_dies_at_its_conditions_never_begins(node: Node) -> None:
    node.stub("nvidia-smi", f"case $1 in --query*) {node.stop_at('looking')} ;; esac")
    caller = node.popen("start", ONE, BOOT, "gpu_reset", BDF)
    node.reached("looking")
    assert node.settle(ONE).first == "running"
    os.killpg(caller.pid, signal.SIGKILL)
    caller.communicate()
    assert node.settle(ONE).first == "never"
    node.open_gate("looking")
    assert node.start(ONE, "gpu_reset", BDF).first == "never"
    assert node.calls == [QUERY]


def test_a_killed_runner_is_lost_and_the_digest_stays_dead(node: Node) -> None:
    node.stub("modprobe", f"echo half way; {node.stop_at('work')}")
    node.start(ONE, "modprobe_peermem")
    node.reached("work")
    node.kill_all()
    assert node.settle(ONE).first == "lost"
    assert node.settle(ONE).rest in ("half way\n", ""), "what had been written down by then"
    assert node.start(ONE, "modprobe_peermem").first == "lost"
    assert len(node.calls) == 1


def test_after_a_boot_in_the_middle_the_action_is_lost_and_nothing_new_starts_under_the_old_boot(node: Node) -> None:
    node.stub("systemctl", node.stop_at("work"))
    node.start(ONE, "reboot")
    node.reached("work")
    node.kill_all()
    node.boot(OTHER_BOOT)
    assert node.settle(ONE).first == "lost"
    said = node.start(TWO, "reboot")
    assert said.first == "refused the host has booted since the approval"
    assert node.calls == ["systemctl reboot"]


def test_a_start_for_another_boot_leaves_no_record_and_runs_nothing(node: Node) -> None:
    assert node.start(ONE, "modprobe_peermem", boot=OTHER_BOOT).word == "refused"
    assert not (node.root / "state/actions" / ONE).exists()
    assert node.calls == []


def test_a_failing_condition_refuses_and_the_digest_can_never_start(node: Node) -> None:
    node.stub("nvidia-smi", "case $1 in --query*) echo 4711; printf '\\033[31mred\\n' ;; esac")
    said = node.start(ONE, "gpu_reset", BDF)
    assert said.first == "refused no process uses this GPU: found '4711  [31mred'"
    node.stub("nvidia-smi")
    assert node.settle(ONE).first == said.first
    assert node.start(ONE, "gpu_reset", BDF).first == said.first
    assert RESET not in node.calls


def test_a_condition_that_cannot_be_read_is_not_fulfilled(node: Node) -> None:
    node.stub("nvidia-smi", "exit 9")
    assert node.start(ONE, "gpu_reset", BDF).first == "refused no process uses this GPU: found ' (exit status 9)'"
    (node.root / "proc/modules").unlink()
    assert "nvidia-peermem is not loaded" in node.start(TWO, "modprobe_peermem").first
    assert node.calls == [QUERY]


@pytest.mark.parametrize(
    "prints", ["printf '\\000\\000'", "printf '\\000'; echo", "yes '' | head -c 90000; echo 4711"], ids=["zeros", "zero", "late"]
)
def test_a_condition_that_prints_what_looks_like_nothing_is_not_fulfilled(node: Node, prints: str) -> None:
    node.stub("nvidia-smi", f"case $1 in --query*) {prints} ;; esac")
    assert node.start(ONE, "gpu_reset", BDF).first.startswith("refused")
    assert node.calls == [QUERY]


def test_what_a_condition_prints_is_capped_on_disk(node: Node) -> None:
    node.stub("nvidia-smi", "case $1 in --query*) yes 4711 | head -c 30000000 ;; esac")
    assert "4711" in node.start(ONE, "gpu_reset", BDF).first
    assert (node.root / "state/actions" / ONE / "seen").stat().st_size <= 65536


def test_a_condition_that_hangs_is_given_up_and_lets_go_of_the_host(node: Node) -> None:
    node.short_waits()
    node.stub("nvidia-smi", node.stop_at("hung"))
    caller = node.popen("start", ONE, BOOT, "gpu_reset", BDF)
    node.reached("hung")
    said = node.ended(ONE)
    assert said.first == "refused no process uses this GPU: found ' (no answer)'"
    node.idle()
    assert node.start(TWO, "modprobe_peermem").first == "started"
    node.open_gate("hung")
    assert caller.communicate()[0].decode().strip() == said.first
    assert RESET not in node.calls


def test_a_command_that_nothing_can_kill_lets_go_of_the_host_and_still_tells_its_end(node: Node) -> None:
    node.short_waits()
    node.stub("modprobe", f"setsid sh -c {_quoted(node.stop_at('stuck'))}")
    node.start(ONE, "modprobe_peermem")
    node.reached("stuck")
    node.idle()
    assert node.settle(ONE).first == "running"
    assert node.start(TWO, "reset_clocks", BDF).first == "started"
    node.open_gate("stuck")
    assert node.ended(ONE).first == "done 0"


def test_a_time_limit_ends_the_command_with_status_124(tmp_path: Path) -> None:
    node = Node(tmp_path, remedies=limited("modprobe_peermem", 1))
    node.stub("modprobe", f"echo begun; exec sleep 60 # {node.gate('x')}")
    node.start(ONE, "modprobe_peermem")
    said = node.ended(ONE)
    assert (said.first, said.rest) == ("done 124", "begun\n")


def test_a_busy_host_refuses_and_the_digest_may_start_later(node: Node) -> None:
    node.stub("modprobe", node.stop_at("work"))
    node.start(ONE, "modprobe_peermem")
    node.reached("work")
    assert node.start(TWO, "reset_clocks", BDF).first == "refused another action is running on this host"
    node.open_gate("work")
    node.ended(ONE)
    node.idle()
    assert node.start(TWO, "reset_clocks", BDF).first == "started"


def test_output_is_capped_on_disk_and_in_the_answer(node: Node) -> None:
    node.stub("modprobe", "head -c 5000000 /dev/zero | tr '\\000' x; echo end >&2")
    node.start(ONE, "modprobe_peermem")
    said = node.ended(ONE)
    assert said.first == "done 0"
    assert len(said.rest) == 65536
    assert (node.root / "state/actions" / ONE / "output").stat().st_size <= 512 * 4000


def test_a_missing_tool_is_an_ended_command_not_a_riddle(node: Node) -> None:
    (node.root / "bin/modprobe").write_text("#!/nonexistent/interpreter\n")
    node.start(ONE, "modprobe_peermem")
    assert node.ended(ONE).first in ("done 126", "done 127")


# -- under systemd ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def systemd(node: Node) -> Node:
    """Return a node that seems to run systemd, by a private /run."""
    make = 'mount -t tmpfs none /run && mkdir -p /run/systemd/system && exec "$@"'
    node.shell = ("unshare", "--mount", "sh", "-c", make, "sh", *node.shell)
    return node


@needs_root_mounts
def test_under_systemd_the_command_runs_in_a_scope_of_its_own(systemd: Node) -> None:
    systemd.stub("systemd-run", 'shift 4; exec "$@"')
    assert systemd.start(ONE, "modprobe_peermem").first == "started"
    assert systemd.ended(ONE).first == "done 0"
    assert systemd.calls[0].startswith("systemd-run --scope --quiet --collect --description=rackmedic sh -c ")
    assert systemd.calls[-1] == "modprobe nvidia-peermem"


@needs_root_mounts
def test_a_scope_that_cannot_be_had_is_a_refusal_not_a_doubt(systemd: Node) -> None:
    systemd.stub("systemd-run", "echo 'Failed to connect to bus: No such file or directory' >&2; exit 1")
    said = systemd.start(ONE, "modprobe_peermem")
    assert said.first.startswith("refused it could not be launched: Failed to connect to bus")
    assert systemd.settle(ONE).first == said.first
    assert "modprobe nvidia-peermem" not in systemd.calls


# -- where records live ----------------------------------------------------------------------------------------------------


@pytest.fixture
def full(node: Node) -> Iterator[Node]:
    """Return a node whose state directory has free inodes but no free bytes."""
    state = node.root / "state"
    state.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k,mode=700", "none", str(state)], check=True)
    try:
        (state / "actions").mkdir()
        (state / "filler").write_bytes(b"x" * 16384)
        yield node
    finally:
        subprocess.run(["umount", "-l", str(state)], check=True)


@needs_root_mounts
def test_on_a_full_disk_nothing_runs_and_nothing_can_run_later(full: Node) -> None:
    for one, words in ((ONE, ("modprobe_peermem",)), (TWO, ("reset_clocks", BDF))):
        assert full.start(one, *words).word == "refused"
        (full.root / "state/filler").unlink(missing_ok=True)
        assert full.start(one, *words).word in ("never", "refused")
        (full.root / "state/filler").write_bytes(b"x" * 8192)
    assert full.calls == []


def test_a_state_directory_that_others_may_write_is_not_used(node: Node) -> None:
    state = node.root / "state"
    state.mkdir(mode=0o755)
    assert "mode 0700" in node.start(ONE, "modprobe_peermem").first
    assert (node.settle(ONE).first, node.settle(ONE).status) == ("", 4)
    state.rmdir()
    (node.root / "elsewhere").mkdir(mode=0o700)
    state.symlink_to(node.root / "elsewhere")
    assert "mode 0700" in node.start(ONE, "modprobe_peermem").first
    assert node.calls == []
    assert list((node.root / "elsewhere").iterdir()) == []


def test_records_are_for_their_owner_alone(node: Node) -> None:
    node.start(ONE, "modprobe_peermem")
    node.ended(ONE)
    state = node.root / "state"
    assert state.stat().st_mode & 0o777 == 0o700
    assert all(path.stat().st_mode & 0o077 == 0 for path in state.rglob("*"))
    assert (state / "actions" / ONE / "command").read_text() == "modprobe nvidia-peermem\n"


# -- conditions of the kit's own -------------------------------------------------------------------------------------------


def _process(node: Node, pid: int, name: str, ticks: int) -> None:
    (node.root / "proc" / str(pid)).mkdir(exist_ok=True)
    fields = " ".join(str(n) for n in range(4, 22))
    (node.root / "proc" / str(pid) / "stat").write_text(f"{pid} ({name}) S {fields} {ticks} 23 24\n")


@pytest.mark.parametrize("name", ["python3", "a b", "x) R 1 2 3 (y", "* ? [a-z]", "two\nlines) S 9", ")", ""])
def test_a_process_is_killed_only_while_it_is_the_one_that_was_looked_at(node: Node, name: str) -> None:
    _process(node, 4711, name, 123456)
    said = node.start(ONE, "kill_gpu_process", "4711", "123457", "KILL")
    assert said.first == "refused the process is still the one that was looked at: found '123456'"
    assert node.start(TWO, "kill_gpu_process", "4711", "123456", "TERM").first == "started"
    assert node.ended(TWO).first == "done 0"
    assert node.start(digest(3), "kill_gpu_process", "4712", "123456", "TERM").first.endswith("found 'gone'")
    assert node.calls == ["kill -TERM 4711"]


def test_a_module_is_known_by_its_whole_name(node: Node) -> None:
    assert node.start(ONE, "modprobe_peermem").first == "started"
    node.ended(ONE)
    node.idle()
    (node.root / "proc/modules").write_text("nvidia 1 2 - Live 0x0\nnvidia_peermem 16384 0 - Live 0x0\n")
    assert node.start(TWO, "modprobe_peermem").first == "refused nvidia-peermem is not loaded: found 'yes'"


# -- arguments and environment ---------------------------------------------------------------------------------------------

NASTY = (
    "", " ", "-", "--help", "-i", "-oProxyCommand=id", "*", "?", "[a]", "~root", "/etc/passwd", "../../x", "$(id)", "`id`", "${IFS}",
    ";id", "|id", "&", "\n", "a\nb", f"{BDF}\n", f"{BDF} ", f" {BDF}", f"{BDF};reboot", f"{BDF}\nreboot", "0000:9B:00.0", "0000:9b:00.8",
    "0000꞉9b꞉00.0", "TERM\n", "term", "KILL KILL", "apr-0123456789ab\n", "apr-0123456789AB", "gpu‑017", "gpu–017", "ALL", "all", "aLL",
    "n" * 64, "n" * 63, "9" * 21, "1" * 100_000, "٣", "१२", "\udcff", "\x7f", "\t4711", "4711\t", "+1", "0x10", "1e9", "1_2_3", "1_",
    "-9", "0", "1", "9", "12.345", "700.", ".5", "10.50", "\u202e", "a,b", "a[1-9]", "NodeName=ALL", "State=DOWN", "'", '"', "\\", "!x", "#",
)  # fmt: skip


def test_sh_admits_exactly_what_python_admits(tmp_path: Path) -> None:
    scripts = {}
    names = [name for name in ARGUMENT_KINDS if name != "check"]
    for shell, argv in SHELLS.items():
        body = kinds_of(Node(tmp_path / shell, argv).root.joinpath("sbin/rackmedic-act").read_text())
        asks = "".join(f'is_{name} "$value" && printf {name}:; ' for name in names)
        scripts[shell] = (*argv, "-c", f'set -fu; LC_ALL=C; export LC_ALL\n{body}\nfor value in "$@"; do {asks} echo; done', "sh")

    @given(st.lists(st.one_of(_values(), st.sampled_from(NASTY)), min_size=1, max_size=40))
    @settings(max_examples=40)
    @example(list(NASTY))
    def agree(values: list[str]) -> None:
        told = [":".join([*(name for name in names if _admits(name, value)), ""]) for value in values]
        for argv in scripts.values():
            ran = subprocess.run([*argv, *map(os.fsencode, values)], capture_output=True, check=True)
            assert ran.stdout.decode().split("\n")[:-1] == told

    agree()


def _admits(name: str, value: str) -> bool:
    return re.fullmatch(ARGUMENT_KINDS[name].pattern, value) is not None


def _values() -> st.SearchStrategy[str]:
    """Generate admitted values, spoiled ones, and any text."""
    good = st.one_of(*(st.from_regex(kind.pattern, fullmatch=True) for kind in ARGUMENT_KINDS.values()))
    bits = st.sampled_from(["\n", " ", "-", "*", "'", ";", "0", "a", "_", ".", "é", "\u2010", "\x00"[:0]])
    spoiled = st.builds(lambda text, at, bit: text[:at] + bit + text[at:], good, st.integers(0, 20), bits)
    return st.one_of(good, spoiled, st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=300))


def test_nothing_runs_for_arguments_that_are_not_admitted(tmp_path: Path) -> None:
    node = Node(tmp_path)
    words = st.one_of(_values(), st.sampled_from([*NASTY, *REMEDIES, BOOT, ONE, BDF, "4711", "start", "settle"]))

    @given(st.sampled_from([*REMEDIES, "sh", "", "*", "gpu_reset)"]), st.lists(words, max_size=4))
    @settings(max_examples=60)
    def refused(remedy: str, given: list[str]) -> None:
        row = REMEDIES.get(remedy)
        if row and row.at != "fleet" and len(given) == len(row.args) and all(map(_admits, row.args.values(), given)):
            return
        said = Node.act(node, "start", ONE, BOOT, remedy, *given)
        assert (said.word, said.status, said.rest) == ("refused", 3, "")
        assert node.calls == []

    refused()
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    "words",
    [
        (), ("start",), ("start", ONE), ("start", ONE, BOOT), ("settle",), ("settle", ONE, ONE), ("settle", "../../etc"), ("settle", ONE[:-1]),
        ("settle", ONE.upper().replace("0", "A")), ("start", "../" + ONE[3:], BOOT, "reboot"), ("start", ONE, "-" * 37, "reboot"),
        ("start", ONE + "\n", BOOT, "reboot"), ("start", ONE, "*", "reboot"), ("run", "id"), ("perform", "reboot"), ("launch", "1", "id"),
        ("-c", "id"), ("start", ONE, BOOT, "run_check", "nccl1"), ("start", ONE, BOOT, "reboot", "now"),
    ],
)  # fmt: skip
def test_calls_of_another_shape_do_nothing(node: Node, words: tuple[str, ...]) -> None:
    said = node.act(*words)
    assert said.status in (3, 4)
    assert said.word in ("", "refused")
    assert node.calls == []
    assert not (node.root / "state/actions").exists()


def test_the_callers_environment_reaches_neither_script_nor_command(node: Node) -> None:
    trap = node.root / "trap"
    trap.mkdir()
    for tool in ("flock", "timeout", "modprobe", "cat", "stat", "setsid", "nvidia-smi", "mkdir"):
        (trap / tool).write_text(f"#!/bin/sh\ntouch {node.root}/trapped\n")
        (trap / tool).chmod(0o755)
    node.stub("modprobe", f"env >{node.root}/env; pwd >>{node.root}/env")
    hostile = {"PATH": str(trap), "IFS": "/0", "CDPATH": str(trap), "STATE": str(trap), "KIT": "x", "PROC": str(trap), "TMPDIR": str(trap)}
    hostile |= {"record": str(trap), "LC_ALL": "tr_TR.UTF-8", "LD_LIBRARY_PATH": str(trap), "PS4": "$(touch trapped)", "boot": OTHER_BOOT}
    shell = shutil.which(node.shell[0])
    assert shell
    node.shell = (shell, *node.shell[1:])
    assert node.act("start", ONE, BOOT, "modprobe_peermem", **hostile).first == "started"
    assert node.ended(ONE).first == "done 0"
    seen = (node.root / "env").read_text().splitlines()
    assert not (node.root / "trapped").exists()
    assert f"PATH={node.paths.search}" in seen
    assert seen[-1] == "/"
    assert not [line for line in seen if line.startswith(("LD_", "IFS=", "TMPDIR=", "CDPATH="))]


def test_the_scripts_read_nothing_from_their_callers_stdin(node: Node) -> None:
    node.stub("modprobe", "cat")
    ran = subprocess.run(node.argv("start", ONE, BOOT, "modprobe_peermem"), input=b"typed\n", capture_output=True, check=True)
    assert ran.stdout == b"started\n"
    assert node.ended(ONE).rest == ""


def test_version_is_told_by_both_scripts(node: Node) -> None:
    version = node.act("version").first
    assert version == node.look("version").first
    assert version in build_kit_files(node.checks, node.remedies)["sudoers"]


# -- rackmedic-look ---------------------------------------------------------------------------------------------------------------


def test_look_runs_exactly_the_questions_of_the_catalogue(node: Node) -> None:
    node.stub("dmesg", 'echo "kern  :err   : 2026-05-20T03:10:00,000000+00:00 NVRM: Xid"; exit 3')
    said = node.look("dmesg.ring")
    assert said.status == 3
    assert "NVRM: Xid" in said.first
    assert node.calls == ["dmesg --decode --time-format iso"]
    for words in ((), ("dmesg",), ("dmesg.ring", "x"), ("dmesg.ring;id",), ("*",), ("smi.query",), ("dmesg.ring\n",), ("",), ("-h",)):
        assert node.look(*words).status == 64
    assert len(node.calls) == 1


def test_look_tells_the_communication_settings_of_gpu_processes_and_nothing_else(node: Node) -> None:
    node.stub("nvidia-smi", "echo 4711; echo '[N/A]'; echo 4712; echo 4713")
    for pid, environ in {
        "4711": b"NCCL_DEBUG=INFO\0HF_TOKEN=secret\0LD_LIBRARY_PATH=/opt/*\0RANK=0\0",
        "4712": b"SECRET=a\nNCCL_FORGED=1\0UCX_TLS=rc\0TORCH_X=\xff y",
    }.items():
        (node.root / "proc" / pid).mkdir()
        (node.root / "proc" / pid / "environ").write_bytes(environ)
    said = node.look("env.job")
    lines = [said.first, *said.rest.splitlines()]
    assert lines[:4] == ["4711 NCCL_DEBUG=INFO", "4711 LD_LIBRARY_PATH=/opt/*", "4711 RANK=0", "4712 UCX_TLS=rc"]
    assert "NCCL_FORGED" not in said.rest
    assert "secret" not in said.rest
    assert said.status == 0


def test_look_tells_the_settings_of_what_started_the_ranks_where_no_rank_is_left(node: Node) -> None:
    node.stub("nvidia-smi", ":")
    for pid, environ in {
        "900": b"HOME=/root\0MASTER_ADDR=n0\0HF_TOKEN=secret\0NCCL_DEBUG=INFO\0",
        "901": b"HOME=/root\0PATH=/bin\0",
        "902": b"XNCCL_A=1\0",
    }.items():
        (node.root / "proc" / pid).mkdir()
        (node.root / "proc" / pid / "environ").write_bytes(environ)
    said = node.look("env.job")
    assert [said.first, *said.rest.splitlines()] == ["== no GPU process", "900 MASTER_ADDR=n0", "900 NCCL_DEBUG=INFO"]
    assert said.status == 0


def test_look_says_when_it_could_not_look(node: Node) -> None:
    node.stub("nvidia-smi", "echo NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver; exit 9")
    said = node.look("env.job")
    assert (said.first, said.status) == ("", 1)
    assert "could not communicate" in said.stderr


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
