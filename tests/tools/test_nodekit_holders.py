"""Whether a program uses CUDA on a kernel without a module list: told by open driver devices, or unobserved."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fakes_nodekit import BOOT, SHELLS, Node, digest

NONE = "Character devices:\n  1 mem\n195 nvidia\n\nBlock devices:\n259 blkext\n"
# devices with /dev/null's number count as the driver's, because a test cannot open the real one
MEM_IS_UVM = NONE.replace("1 mem", "1 nvidia-uvm")
REFUSED = "refused no program uses CUDA on this node: found "
MAPPED = "7f1200000000-7f1200200000 rw-s 00000000 00:05 812 {}\n"


@pytest.fixture(params=SHELLS)
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Node]:
    """Return a kernel without loadable modules, and two programs without CUDA."""
    made = Node(tmp_path, SHELLS[request.param])
    (made.root / "proc/modules").unlink()
    made.stub("find", 'exec /usr/bin/find "$@"')
    (made.root / "proc/devices").write_text(NONE.replace("1 mem", "1 mem\n508 nvidia-uvm"))
    for pid in (101, 102):
        program(made, pid)
    yield made
    made.kill_all()


def program(node: Node, pid: int, *opened: str, maps: str = "") -> None:
    folder = node.root / "proc" / str(pid) / "fd"
    folder.mkdir(parents=True)
    for number, path in enumerate(("/dev/null", *opened)):
        (folder / str(number)).symlink_to(path)
    (folder.parent / "maps").write_text(MAPPED.format("/usr/bin/python3.11") + maps)


def ask(node: Node) -> str:
    said = node.act("start", digest(1), BOOT, "restart_service", "docker")
    if said.word == "started":
        node.ended(digest(1))
    return said.first


def test_a_kernel_without_the_driver_runs_nothing_that_uses_it(node: Node) -> None:
    (node.root / "proc/devices").write_text("Character devices:\n  1 mem\n\nBlock devices:\n")
    assert ask(node) == "started"


def test_no_process_has_the_drivers_device_open(node: Node) -> None:
    assert ask(node) == "started"
    assert "systemctl restart docker.service" in node.calls


def test_a_program_that_has_it_open_is_counted_by_the_devices_number(node: Node) -> None:
    (node.root / "proc/devices").write_text(MEM_IS_UVM)
    program(node, 103, "/dev/zero", "/dev/null")
    assert ask(node) == f"{REFUSED}'3'"
    assert not [call for call in node.calls if call.startswith("systemctl")]


@pytest.mark.parametrize("path", ["/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-uvm (deleted)"])
def test_a_program_that_has_it_mapped_is_counted_once(node: Node, path: str) -> None:
    program(node, 103, maps=MAPPED.format(path) * 2)
    assert ask(node) == f"{REFUSED}'1'"


def test_a_process_that_ends_meanwhile_is_no_trouble(node: Node) -> None:
    node.stub("grep", 'echo "grep: $2: No such process" >&2; exit 2')
    assert ask(node) == "started"


@pytest.mark.parametrize(
    ("tool", "does"),
    [
        ("find", "echo \"find: '/proc/7/fd': Permission denied\" >&2; exit 1"),
        ("find", ":"),
        ("find", "exit 127"),
        ("stat", 'case "$*" in -L*) echo odd ;; *) exec /usr/bin/stat "$@" ;; esac'),
        ("grep", 'echo "grep: /proc/7/maps: Permission denied" >&2; exit 2'),
        ("awk", "exit 2"),
    ],
)
def test_what_could_not_be_looked_at_is_no_answer(node: Node, tool: str, does: str) -> None:
    node.stub(tool, does)
    assert ask(node).startswith(f"{REFUSED}'")


@pytest.mark.parametrize("devices", [None, "", "Block devices:\n259 blkext\n"])
def test_without_the_kernels_list_of_drivers_there_is_no_answer(node: Node, devices: str | None) -> None:
    path = node.root / "proc/devices"
    path.unlink() if devices is None else path.write_text(devices)
    said = ask(node)
    assert (said.startswith(REFUSED), said.endswith("(exit status 1)'")) == (True, True), said
