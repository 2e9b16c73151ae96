"""A node with a full disk: space reserved beforehand for an action's record allows a cleanup."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fakes_nodekit import SHELLS, Node, digest

ONE, TWO = digest(1), digest(2)
FULL = "echo ' 100%  3%'"
FILLER = "filler"

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="a disk that can be filled is a tmpfs or an ext4 in a file, mounted by root: run as root"),
    pytest.mark.slow,
]


def mounted(kind: str, at: Path) -> None:
    """Mount a small file system: short of bytes, short of inodes, or a real ext4."""
    if kind == "ext4":
        image = at.with_name("disk")
        subprocess.run(["truncate", "-s", "4M", str(image)], check=True)
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", str(image)], check=True)
        subprocess.run(["mount", "-o", "loop", str(image), str(at)], check=True)
        at.chmod(0o700)
        return
    size = {"bytes": "size=2m,nr_inodes=2000", "names": "size=4m,nr_inodes=100"}[kind]
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"{size},mode=700", "none", str(at)], check=True)


def fill(state: Path) -> None:
    """Write until no byte and no name fits."""
    (state / FILLER).mkdir(exist_ok=True)
    try:
        with (state / FILLER / "core").open("ab", buffering=0) as core:
            while core.write(b"x" * 4096):
                os.fsync(core.fileno())
    except OSError:
        pass
    for name in range(4000):
        try:
            (state / FILLER / f"{name}").write_bytes(b"")
        except OSError:
            return
    raise AssertionError("the disk is not full")


@pytest.fixture(params=SHELLS)
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path, SHELLS[request.param])
    made.stub("df", FULL)
    made.stub("find", f"rm -rf {made.root}/state/{FILLER}; echo /var/crash/core")
    yield made
    made.kill_all()


@pytest.fixture(params=["bytes", "names", "ext4"])
def full(request: pytest.FixtureRequest, node: Node) -> Iterator[Node]:
    """Return a node whose kit was installed while there was space, and has none now."""
    state = node.root / "state"
    state.mkdir(mode=0o700)
    mounted(request.param, state)
    try:
        assert node.act("reserve").status == 0
        fill(state)
        yield node
        node.kill_all()
    finally:
        subprocess.run(["umount", "-l", str(state)], check=True)


def pieces(node: Node) -> int:
    return sum(path.stat().st_size == 32768 for path in (node.root / "state/reserve").iterdir())


def test_a_full_disk_is_cleaned_up_and_the_record_lasts(full: Node) -> None:
    assert full.start(ONE, "cleanup", "72").first == "started"
    said = full.ended(ONE)
    assert (said.first, said.rest.splitlines()[0]) == ("done 0", "/var/crash/core")
    assert full.start(ONE, "cleanup", "72").first == "done 0"
    assert sum(call.startswith("find") for call in full.calls) == 1
    assert pieces(full) == 20
    assert not (full.root / "state/room").exists()


def test_a_cleanup_that_frees_nothing_and_says_much_still_has_its_end_written_down(full: Node) -> None:
    full.stub("find", "head -c 2000000 /dev/zero | tr '\\000' x; exit 1")
    assert full.start(ONE, "cleanup", "72").first == "started"
    assert full.ended(ONE).first == "done 0"


def test_room_that_was_used_up_is_set_aside_again_by_the_next_remedy_that_finds_some(full: Node) -> None:
    full.stub("find", ":")
    full.start(ONE, "cleanup", "72")
    full.ended(ONE)
    full.idle()
    assert pieces(full) < 20
    subprocess.run(["rm", "-rf", str(full.root / "state" / FILLER)], check=True)
    assert full.start(TWO, "modprobe_peermem").first == "started"
    full.ended(TWO)
    assert pieces(full) == 20


def test_where_even_what_was_set_aside_is_gone_nothing_runs(full: Node) -> None:
    for piece in (full.root / "state/reserve").iterdir():
        piece.unlink()
    fill(full.root / "state")
    said = full.start(ONE, "cleanup", "72")
    assert (said.word, "with room left" in said.first) == ("refused", True)
    assert full.calls == []


def test_where_there_is_room_nothing_of_it_is_touched(node: Node) -> None:
    node.act("reserve")
    before = {path.name: path.stat().st_ino for path in (node.root / "state/reserve").iterdir()}
    node.start(ONE, "modprobe_peermem")
    node.ended(ONE)
    assert {path.name: path.stat().st_ino for path in (node.root / "state/reserve").iterdir()} == before


def test_a_node_whose_kit_set_nothing_aside_does_so_with_its_first_remedy(node: Node) -> None:
    node.start(ONE, "modprobe_peermem")
    node.ended(ONE)
    assert pieces(node) == 20
