"""rackmedic-look's own functions under real shells with stub tools."""

import os
import socket
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.support.fakes_nodekit import SHELLS, Node
from tests.tools.test_checks_surroundings import values
from tools.checks import CHECKS
from tools.checks.check_types import Check, Command, Format
from tools.checks.containers import split_container_answers
from tools.checks.kernel import KERNEL_GREP_PATTERN
from tools.checks.storage import LOCAL_FUSE_FILE_SYSTEMS, SHARED_FILE_SYSTEMS
from tools.execution.previews import DeletePreview, parse_delete_preview
from tools.fact import Status
from tools.nodekit.generate import BadRow, build_kit_files
from tools.remedies import REMEDIES

FULL, OTHER = "3f2a" + "0" * 60, "77aa" + "0" * 60


@pytest.fixture(params=SHELLS)
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path, SHELLS[request.param])
    yield made
    made.kill_all()


def environ(node: Node, pid: int, **variables: str) -> None:
    (node.root / "proc" / str(pid)).mkdir()
    text = "".join(f"{name}={value}\0" for name, value in {"HOME": "/root", **variables}.items())
    (node.root / "proc" / str(pid) / "environ").write_bytes(text.encode())


def look(node: Node, question: str) -> str:
    said = node.look(question)
    assert said.status == 0, said.stderr
    return "\n".join(filter(None, (said.first, said.rest)))


def test_the_master_is_looked_up_and_reached_and_no_word_of_it_is_run(node: Node) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        hostile = {
            11: ("$(touch /tmp/never)", "1"), 12: ("-x", "1"), 13: ("127.0.0.1", "1; reboot"), 14: ("a b", "29500"), 15: ("127.0.0.1", "123456"),
        }  # fmt: skip
        for pid, (address, wanted) in hostile.items():
            environ(node, pid, MASTER_ADDR=address, MASTER_PORT=wanted)
        environ(node, 20, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        environ(node, 21, MASTER_PORT=str(port), MASTER_ADDR="127.0.0.1")
        said = look(node, "net.master")
    assert said.splitlines() == [f"master 127.0.0.1 {port} ok"]
    assert values(list(CHECKS["net"].parse_output(said))) == {("net.master_reach", None): "ok"}


def test_a_closed_port_is_refused_and_an_unknown_name_has_no_address(node: Node) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    node.stub("getent", "case $2 in nowhere) exit 2 ;; esac")
    environ(node, 20, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    environ(node, 21, MASTER_ADDR="nowhere", MASTER_PORT="29500")
    assert set(look(node, "net.master").splitlines()) == {f"master 127.0.0.1 {port} refused", "master nowhere 29500 no_name"}


def test_at_most_four_masters_are_tried(node: Node) -> None:
    node.stub("getent", "exit 2")
    for n in range(9):
        environ(node, 30 + n, MASTER_ADDR=f"host-{n}", MASTER_PORT="29500")
    assert len(look(node, "net.master").splitlines()) == 4


def test_each_shared_mount_is_asked_by_itself(node: Node) -> None:
    (node.root / "proc/mounts").write_text(
        "/dev/sda / ext4 rw 0 0\nsrv:/a /data nfs4 rw 0 0\nsrv:/b /with\\040space nfs rw 0 0\nsrv:/c /old lustre rw 0 0\nsrv:/d /late nfs4 rw 0 0\n"
    )
    node.stub("stat", 'case $5 in /old) echo "stat: Stale file handle" >&2; exit 1 ;; /late) exit 124 ;; esac')
    said = look(node, "store.mounts")
    assert values(list(CHECKS["store"].parse_output(said))) == {
        ("store.mount", "/data"): "ok",
        ("store.mount", "/with\\040space"): "ok",
        ("store.mount", "/old"): "stale",
        ("store.mount", "/late"): "timeout",
    }
    assert any(call.endswith("-- /with space") for call in node.calls)
    assert not any(call.endswith("-- /") for call in node.calls)


def test_every_kind_of_shared_file_system_is_asked(node: Node) -> None:
    kinds = (*SHARED_FILE_SYSTEMS, "fuse.something-new")
    rows = [f"srv /data/{n} {kind} rw 0 0\n" for n, kind in enumerate(kinds)]
    rows += [
        f"x /here/{n} {kind} rw 0 0\n" for n, kind in enumerate((*LOCAL_FUSE_FILE_SYSTEMS, "ext4", "tmpfs", "fusectl", "autofs", "overlay"))
    ]
    (node.root / "proc/mounts").write_text("".join(rows))
    node.stub("stat")
    found = values(list(CHECKS["store"].parse_output(look(node, "store.mounts"))))
    assert found == {("store.mount", f"/data/{n}"): "ok" for n, _ in enumerate(kinds)}


def test_a_mount_whose_server_never_answers_is_not_waited_for(node: Node) -> None:
    (node.root / "proc/mounts").write_text("a /silent fuse.sshfs rw 0 0\n")
    node.stub("timeout", node.gate("silent"))
    node.stub("sleep")
    assert values(list(CHECKS["store"].parse_output(look(node, "store.mounts")))) == {("store.mount", "/silent"): "timeout"}
    node.open_gate("silent")


def test_mounts_beyond_those_that_are_asked_are_said_not_to_be(node: Node) -> None:
    (node.root / "proc/mounts").write_text("".join(f"srv:/{n} /data/{n} nfs4 rw 0 0\n" for n in range(66)))
    node.stub("stat")
    facts = CHECKS["store"].parse_output(look(node, "store.mounts"))
    assert [fact.status for fact in facts].count(Status.OK) == 64
    assert [fact.line for fact in facts if fact.status.blind] == ["2 more shared file systems were not asked"]


DOCKER = f"""
case "$1 $2" in
  'ps -q') printf '%s\\n' {FULL} {OTHER} 'rm -rf' ;;
  'ps -aq') printf '%s\\n' {FULL} ;;
  'inspect --type')
    case "$5 $6" in
      *HostConfig.ShmSize*) echo '{{"id":"'"$6"'","shm":67108864,"ipc":"private","runtime":"nvidia","status":"running","started":"now"}}' ;;
      *{FULL}*) echo 'nvidia 0' ;;
      *) echo 'runc 0' ;;
    esac ;;
  'exec --user') echo 'Failed to initialize NVML: Unknown Error'; exit 255 ;;
esac"""


def test_only_gpu_containers_are_entered_and_as_nobody(node: Node) -> None:
    node.stub("docker", DOCKER)
    said = look(node, "docker.devices")
    assert values(list(CHECKS["docker"].parse_output(said))) == {("container.nvml", FULL[:12]): "unknown_error"}
    entered = [call for call in node.calls if call.startswith("docker exec")]
    assert entered == [f"docker exec --user 65534:65534 --workdir / {FULL} nvidia-smi -L"]


def test_containers_beyond_the_fourth_are_named_as_not_asked(node: Node) -> None:
    ids = [f"{number:064x}" for number in range(1, 7)]
    node.stub("docker", DOCKER.replace(f"{FULL} {OTHER} 'rm -rf'", " ".join(ids)).replace("echo 'runc 0'", "echo 'nvidia 0'"))
    facts = CHECKS["docker"].parse_output(look(node, "docker.devices"))
    assert [fact.status for fact in facts] == [Status.OK] * 4 + [Status.UNREADABLE] * 2
    assert "not asked" in facts[-1].line


def test_a_container_that_does_not_answer_in_time_could_not_be_looked_at() -> None:
    [fact] = CHECKS["docker"].parse_output(f"== container {FULL}\n\n== status 124\n")
    assert fact.status is Status.TIMEOUT


LIE = f"GPU 0: fine@== status 0@== container {OTHER}@Failed to initialize NVML: Unknown Error@== status 255"


def test_a_container_cannot_speak_for_another_one(node: Node) -> None:
    node.stub("docker", DOCKER.replace("echo 'Failed to initialize NVML: Unknown Error'; exit 255", f"printf '{LIE}' | tr @ '\\n'; exit 7"))
    said = look(node, "docker.devices")
    assert [(name, status) for name, _, status in split_container_answers(said)] == [(FULL, 7)]
    assert {fact.attrs["id"] for fact in CHECKS["docker"].parse_output(said)} == {FULL}


def test_a_container_that_does_not_stop_talking_is_cut_off(node: Node) -> None:
    flood = "head -c 3000000 /dev/zero | tr '\\000' x; exit 7"
    node.stub("docker", DOCKER.replace("echo 'Failed to initialize NVML: Unknown Error'; exit 255", flood))
    said = look(node, "docker.devices")
    assert len(said) < 70_000
    assert [(name, status) for name, _, status in split_container_answers(said)] == [(FULL, 7)]


@pytest.mark.parametrize("end", ["\r", "\v", "\f", "\x1c", "\x85", "\u2028"])
def test_only_a_new_line_begins_a_new_frame(end: str) -> None:
    text = f"== container {FULL}\n{LIE.replace('@', end)}\n== status 7\n"
    assert [(name, status) for name, _, status in split_container_answers(text)] == [(FULL, 7)]


def test_the_program_for_python_arrives_word_for_word(node: Node) -> None:
    node.stub("docker", DOCKER)
    look(node, "vers.images")
    probe = next(command for command in CHECKS["vers"].commands if command.name == "images").argv[-1]
    assert any(call.endswith(f"{FULL} python3 -c {probe}") for call in node.calls)


def test_the_pattern_for_the_journal_arrives_word_for_word(node: Node) -> None:
    node.stub("journalctl", "echo '-- No entries --'")
    for question in ("newest", "recent"):
        assert look(node, f"dmesg.{question}") == "-- No entries --"
    assert [call.partition(" --grep=")[2] for call in node.calls if "journalctl" in call] == [
        f"{KERNEL_GREP_PATTERN} _TRANSPORT=kernel"
    ] * 2


def test_containers_are_inspected_once_each_and_odd_names_never(node: Node) -> None:
    node.stub("docker", DOCKER)
    found = values(list(CHECKS["docker"].parse_output(look(node, "docker.inspected"))))
    assert found[("container.shm_bytes", FULL[:12])] == 64 << 20
    inspected = [call for call in node.calls if "HostConfig.ShmSize" in call]
    assert [call.rpartition(" ")[2] for call in inspected] == [FULL, OTHER]


def test_an_engine_that_does_not_answer_is_a_failure_and_no_empty_list(node: Node) -> None:
    node.stub("docker", "echo 'Cannot connect to the Docker daemon at unix:///var/run/docker.sock.' >&2; exit 1")
    for question in ("docker.inspected", "docker.devices"):
        said = node.look(question)
        assert (said.first, said.status) == ("", 1)
        assert "Cannot connect" in said.stderr


def test_a_question_that_the_kit_does_not_know_cannot_be_generated() -> None:
    row = Check(
        "x", "Is it?", (Command("y", ("rackmedic-look", "nonsense"), privileged=True),), (Format("f", bool, lambda t: ()),), (), 1.0
    )
    with pytest.raises(BadRow, match="nonsense"):
        build_kit_files({"x": row}, REMEDIES)


# -- previews of deletions, by this machine's find ---------------------------------------------------------------------


@pytest.fixture
def folders(node: Node, tmp_path: Path) -> list[Path]:
    """Return the folders of this node's cleanup: `tmp`, `crash`, and a missing one."""
    found = [tmp_path / name for name in ("tmp", "crash", "missing")]
    node.remedies = {"cleanup": replace(REMEDIES["cleanup"], preview=("old_files", "{hours}", *map(str, found)))}
    node.__post_init__()
    (node.root / "bin/find").unlink()
    for folder in found[:2]:
        folder.mkdir()
    return found


def left(path: Path, kib: int, hours: float = 100) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * 1024 * kib)
    then = (datetime.now().astimezone() - timedelta(hours=hours)).timestamp()
    os.utime(path, (then, then))
    return path


def deletes(node: Node, hours: str = "72") -> DeletePreview:
    seen = parse_delete_preview(look_with(node, "cleanup.preview", hours))
    assert seen is not None
    return seen


def look_with(node: Node, *words: str) -> str:
    said = node.look(*words)
    assert said.status == 0, said.stderr
    return f"{said.first}\n{said.rest}"


def test_what_would_be_deleted_is_counted_and_the_largest_are_named(node: Node, folders: list[Path]) -> None:
    for number in range(9):
        left(folders[0] / f"ckpt-{number}.pt", 64 + 8 * number)
    core = left(folders[1] / "deep/er/core with blanks", 512, 24 * 30)
    left(folders[0] / "young", 2048, 71)
    left(folders[0] / "systemd-private-1-x/tmp/state", 2048)
    (folders[0] / "link").symlink_to(core)
    seen = deletes(node)
    assert (seen.files, seen.whole, seen.why) == (10, True, "")
    assert seen.size == sum(path.stat().st_blocks * 512 for path in (*folders[0].glob("ckpt-*"), core))
    assert [Path(file.path).name for file in seen.largest] == ["core with blanks", *(f"ckpt-{number}.pt" for number in range(8, -1, -1))]
    assert seen.largest[0].path == str(core)
    assert seen.largest[0].owner == core.owner()
    assert 30 * 24 * 60 - 2 <= seen.largest[0].minutes <= 30 * 24 * 60 + 60
    assert core.exists()


def test_a_file_that_a_process_has_open_is_marked_by_its_inode(node: Node, folders: list[Path]) -> None:
    used, link = left(folders[0] / "ckpt-1.pt.tmp", 64), folders[0] / "hard"
    link.hardlink_to(used)
    left(folders[0] / "ckpt-2.pt.tmp", 128)
    with link.open():
        seen = deletes(node)
    assert {Path(file.path).name: file.open for file in seen.largest} == {"ckpt-1.pt.tmp": True, "hard": True, "ckpt-2.pt.tmp": False}
    assert [file.open for file in deletes(node).largest] == [False] * 3


def test_a_hundred_files_are_listed_and_the_others_counted(node: Node, folders: list[Path]) -> None:
    for number in range(120):
        left(folders[0] / f"{number:03}", 8 + 4 * (number % 7))
    seen = deletes(node)
    assert (seen.files, len(seen.largest)) == (120, 100)


def test_no_name_of_a_file_poses_as_another_line_of_the_answer(node: Node, folders: list[Path]) -> None:
    names = ["a\nend 0\ntotal 0 0", "b\nfile 1 1 root /etc/shadow", "c\r\x1b[2K", "d" * 240]
    for name in names:
        left(folders[0] / name, 64)
    seen = deletes(node)
    assert seen.files == len(seen.largest) == len(names)
    assert all(file.path.startswith(str(folders[0])) for file in seen.largest)


def test_folders_of_which_none_is_there_hold_nothing(node: Node, folders: list[Path]) -> None:
    for folder in folders[:2]:
        folder.rmdir()
    assert deletes(node) == DeletePreview()
    left(folders[0] / "young", 8, 30)
    assert (deletes(node).files, deletes(node, "24").files) == (0, 1)


def test_a_search_that_runs_out_of_time_says_that_there_may_be_more(node: Node, folders: list[Path]) -> None:
    node.stub("find", "printf '8 1700000000.0000000000 root 1:2 /tmp/a\\0\\0008 17000'; exit 124")
    seen = deletes(node)
    assert (seen.files, seen.size, seen.whole) == (1, 4096, False)


@pytest.mark.parametrize("words", [(), ("72", "/etc"), ("7",), ("1000",), ("-delete",), ("72 -delete",), ("$(id)",)])
def test_the_question_takes_the_arguments_of_its_remedy_and_no_others(node: Node, words: tuple[str, ...]) -> None:
    node.stub("find")
    said = node.look("cleanup.preview", *words)
    assert (said.first, said.status) == ("", 64)
    assert not [call for call in node.calls if call.startswith("find")]


def test_a_preview_that_the_kit_does_not_know_cannot_be_generated() -> None:
    with pytest.raises(BadRow, match="nonsense"):
        build_kit_files(CHECKS, {"cleanup": replace(REMEDIES["cleanup"], preview=("nonsense", "{hours}"))})
