"""Remedy scripts under real shells: the order of commands, cleanup after failures, and what `find` deletes."""

import os
import subprocess
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.support.fakes_nodekit import SHELLS, Node, Said, digest
from tools.execution.runner import explain_refusal
from tools.remedies import REMEDIES, scripts

BDF, CONTAINER = "0000:9b:00.0", "0f" * 32
MODULES = "nvidia_uvm 1540096 0 - Live 0x0\nnvidia 56717312 1 nvidia_uvm, Live 0x0\n"
LOADED = ("nvidia_drm 1 0", "nvidia_peermem 1 0", "nvidia_uvm 1 0", "nvidia_modeset 1 1 nvidia_drm", "nvidia 1 3 nvidia_uvm", "ext4 1 1")
LSMOD = "printf '%s\\n' " + " ".join(f"'{row}'" for row in ("Module Size Used by", *LOADED))


@pytest.fixture(params=SHELLS)
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path, SHELLS[request.param])
    (tmp_path / "proc/modules").write_text(MODULES)
    made.stub("lsmod", LSMOD)
    yield made
    made.kill_all()


def ran(node: Node, remedy: str, *args: str) -> Said:
    said = node.start(digest(1), remedy, *args)
    return node.ended(digest(1)) if said.word == "started" else said


def running(*units: str) -> str:
    names = " | ".join(f"*{unit}.service" for unit in units)
    return f'case "$*" in is-active*) case "$3" in {names}) exit 0 ;; *) exit 3 ;; esac ;; esac'


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("name", [name for name in vars(scripts) if name.isupper() and isinstance(getattr(scripts, name), str)])
def test_every_shell_reads_every_script(shell: str, name: str) -> None:
    text: str = getattr(scripts, name)
    subprocess.run([*SHELLS[shell], "-n"], input=text.encode(), check=True)
    assert "{" not in text


def test_a_driver_goes_from_the_top_down_and_comes_back_with_its_services(node: Node) -> None:
    node.stub("systemctl", running("nvidia-persistenced", "nvidia-fabricmanager"))
    assert ran(node, "reload_driver").first == "done 0"
    assert [call for call in node.calls if "is-active" not in call and not call.startswith("lsmod")] == [
        *("systemctl stop nvidia-persistenced.service", "systemctl stop nvidia-fabricmanager.service"),
        *(f"rmmod {name}" for name in ("nvidia_peermem", "nvidia_drm", "nvidia_modeset", "nvidia_uvm", "nvidia")),
        *(f"modprobe {name}" for name in ("nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_drm", "nvidia_peermem")),
        *("systemctl start nvidia-fabricmanager.service", "systemctl start nvidia-persistenced.service"),
    ]


def test_a_driver_that_is_held_half_way_is_put_back(node: Node) -> None:
    node.stub("systemctl", running("nvidia-persistenced"))
    node.stub("rmmod", 'case $1 in nvidia_uvm) echo "rmmod: ERROR: Module nvidia_uvm is in use" >&2; exit 1 ;; esac')
    said = ran(node, "reload_driver")
    assert said.first == "done 1"
    assert explain_refusal(REMEDIES["reload_driver"], said.rest).startswith("something still holds the driver")
    after = [call for call in node.calls if call.startswith(("rmmod", "modprobe", "systemctl start"))]
    assert after[3:] == [
        *("rmmod nvidia_uvm", "modprobe nvidia_modeset", "modprobe nvidia_drm", "modprobe nvidia_peermem"),
        "systemctl start nvidia-persistenced.service",
    ]


def test_a_driver_in_use_by_cuda_is_not_touched(node: Node) -> None:
    (node.root / "proc/modules").write_text(MODULES.replace("1540096 0", "1540096 12"))
    assert ran(node, "reload_driver").first == "refused no program uses CUDA on this node: found '12'"
    (node.root / "proc/modules").write_text("ext4 1 1 - Live 0x0\n")
    assert node.start(digest(2), "reload_driver").first == "started"
    node.ended(digest(2))


def test_a_build_that_fails_loads_nothing(node: Node) -> None:
    (node.root / "proc/modules").write_text("ext4 1 1 - Live 0x0\n")
    node.stub("dkms", 'echo "Error! Your kernel headers for kernel 6.1 cannot be found" >&2; exit 11')
    said = ran(node, "dkms_rebuild")
    assert said.first == "done 11"
    assert "headers of the running kernel" in explain_refusal(REMEDIES["dkms_rebuild"], said.rest)
    assert node.calls == ["dkms autoinstall"]


def test_a_built_driver_is_loaded_with_what_needs_it(node: Node) -> None:
    (node.root / "proc/modules").write_text("ext4 1 1 - Live 0x0\n")
    node.stub("systemctl", 'case "$*" in "is-enabled --quiet nvidia-fabricmanager.service") exit 1 ;; esac')
    assert ran(node, "dkms_rebuild").first == "done 0"
    assert [call for call in node.calls if "is-enabled" not in call] == [
        *("dkms autoinstall", "modprobe nvidia", "modprobe nvidia-uvm", "systemctl restart systemd-modules-load.service"),
        "systemctl restart nvidia-persistenced.service",
    ]


def test_mig_goes_with_its_instances_and_none_is_no_failure(node: Node) -> None:
    node.stub("nvidia-smi", 'case $1 in mig) echo "No GPU instances found: Not Found"; exit 6 ;; esac')
    said = ran(node, "mig_off", BDF)
    assert (said.first, explain_refusal(REMEDIES["mig_off"], said.rest)) == ("done 0", "")
    assert node.calls[1:] == [f"nvidia-smi mig -i {BDF} -dci", f"nvidia-smi mig -i {BDF} -dgi", f"nvidia-smi -i {BDF} -mig 0"]


def test_the_clock_is_stepped_though_no_source_answered_in_time(node: Node) -> None:
    node.stub("chronyc", "[ $1 = makestep ]")
    assert ran(node, "chrony_makestep").first == "done 0"
    assert node.calls[1:] == ["systemctl start chronyd.service", "chronyc waitsync 6 0 0 5", "chronyc makestep"]


def test_where_the_unit_is_called_as_debian_calls_it_that_one_is_started(node: Node) -> None:
    node.stub("systemctl", 'case "$*" in "cat chronyd.service"|"start chronyd.service") exit 5 ;; esac')
    node.stub("chronyc", "")
    assert ran(node, "chrony_makestep").first == "done 0"
    assert node.calls[1:] == ["systemctl start chrony.service", "chronyc waitsync 6 0 0 5", "chronyc makestep"]


@pytest.mark.parametrize(
    ("says", "answer"),
    [
        ("Failed to initialize NVML: Unknown Error", "started"),
        ("GPU 0: NVIDIA H100 80GB HBM3", "refused the container runs and has lost its GPUs: found 'GPU 0: NVIDIA H100 80GB HBM3'"),
        ("lost lost", "refused the container runs and has lost its GPUs: found 'lost lost'"),
    ],
)
def test_a_container_is_asked_as_nobody_and_restarted_only_when_it_lost_its_gpus(node: Node, says: str, answer: str) -> None:
    node.stub("docker", f'case $1 in exec) echo "{says}"; exit 255 ;; esac')
    assert node.start(digest(1), "restart_container", CONTAINER).first == answer
    if answer == "started":
        assert node.ended(digest(1)).first == "done 0"
    asked = f"docker exec --user 65534:65534 --workdir / {CONTAINER} nvidia-smi -L"
    assert node.calls == [asked, *([f"docker restart --time 30 {CONTAINER}"] if answer == "started" else [])]


def test_a_container_that_does_not_stop_talking_fills_neither_memory_nor_disk(node: Node) -> None:
    node.stub("docker", "case $1 in exec) head -c 3000000 /dev/zero | tr '\\000' x ;; esac")
    assert node.start(digest(1), "restart_container", CONTAINER).word == "refused"
    assert (Path(node.paths.state) / "actions" / digest(1) / "seen").stat().st_size < 5000


# -- deletions, by this machine's find ------------------------------------------------------------------------------


def old(path: Path, hours: float = 100) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x" * 11)
    then = (datetime.now().astimezone() - timedelta(hours=hours)).timestamp()
    os.utime(path, (then, then))
    return path


def cleaned(*folders: Path, hours: str = "72") -> str:
    row = REMEDIES["cleanup"].command
    assert row[-len(scripts.CLEANED_FOLDERS) :] == scripts.CLEANED_FOLDERS
    words = [*row[: -len(scripts.CLEANED_FOLDERS) - 1], hours, *map(str, folders)]
    return subprocess.run(words, capture_output=True, text=True, check=True, env={"PATH": "/usr/bin:/bin"}).stdout


def test_only_old_plain_files_go_and_each_is_named(tmp_path: Path) -> None:
    here, elsewhere = tmp_path / "tmp", tmp_path / "home"
    gone = [old(here / "a.pt"), old(here / "deep/er/b.core"), old(here / "odd name*;$(x)")]
    kept = [old(here / "young", 71), old(elsewhere / "precious"), old(here / "systemd-private-1-chrony/tmp/state")]
    (here / "link").symlink_to(elsewhere / "precious")
    (here / "folder").symlink_to(elsewhere)
    (here / "empty").mkdir()
    said = cleaned(here)
    assert not [path for path in gone if path.exists()]
    assert all(path.exists() for path in kept)
    assert (here / "link").is_symlink()
    assert (here / "folder").is_symlink()
    assert (here / "empty").is_dir()
    assert all(f" {str(path).replace(' ', chr(92) + ' ')}\n" in said for path in gone)
    assert said.count(" 11 ") == len(gone)
    assert said.splitlines()[-2].split() == ["Use%", "IUse%"]


@pytest.mark.parametrize("words", REMEDIES["cleanup"].refusals)
def test_a_file_named_like_a_refusal_is_only_a_file(tmp_path: Path, words: str) -> None:
    plain, broken = old(tmp_path / "tmp" / words), old(tmp_path / "tmp" / f"x\n{words}")
    said = cleaned(tmp_path / "tmp")
    assert (plain.exists(), broken.exists()) == (False, False)
    assert explain_refusal(REMEDIES["cleanup"], said) == ""


def test_a_folder_that_is_a_link_is_not_entered_and_one_that_is_missing_is_no_failure(tmp_path: Path) -> None:
    precious, plain = old(tmp_path / "home/precious"), old(tmp_path / "tmp/old")
    (tmp_path / "crash").symlink_to(tmp_path / "home")
    cleaned(tmp_path / "missing", tmp_path / "crash", tmp_path / "tmp")
    assert precious.exists()
    assert not plain.exists()


def test_fewer_hours_take_younger_files(tmp_path: Path) -> None:
    young, younger = old(tmp_path / "tmp/young", 30), old(tmp_path / "tmp/younger", 23)
    cleaned(tmp_path / "tmp", hours="24")
    assert (young.exists(), younger.exists()) == (False, True)
