"""The node kit's generated text follows from the catalogues, and no row's value escapes its quotes."""

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.cli.node_kit import write_kit
from tests.support.fakes_nodekit import BOOT, SHELLS, Node, digest
from tools.action import Condition
from tools.checks import CHECKS
from tools.checks.check_types import Check, Command
from tools.nodekit.generate import BadRow, KitPaths, build_kit_files, compute_kit_version
from tools.remedies import REMEDIES
from tools.remedies.remedy import ARGUMENT_KINDS, Remedy

FILES = build_kit_files(CHECKS, REMEDIES)
VISUDO = shutil.which("visudo") or ("/usr/sbin/visudo" if Path("/usr/sbin/visudo").exists() else "")
HOSTILE = """'; touch owned; ' $(touch owned) `touch owned` "$(touch owned)" \\ *) ;; esac
touch owned # @PATH@"""


def _cases(text: str, after: str) -> list[str]:
    """Return the labels of the `case` after `after`."""
    body = text.split(after, 1)[1].split("esac\n}", 1)[0]
    return [
        line.strip().split(")")[0]
        for line in body.splitlines()
        if line.startswith("    ") and line.rstrip().endswith(")") and "*)" not in line
    ]


def test_every_privileged_command_is_a_question_of_the_kit_and_no_other_is() -> None:
    privileged = {f"{check.id}.{command.name}" for check in CHECKS.values() for command in check.commands if command.privileged}
    body = FILES["rackmedic-look"].split("case $1 in\n")[-1]
    asked = [line.strip().split(")")[0] for line in body.splitlines() if line.startswith("  ") and ") " in line]
    assert privileged
    assert asked == [*sorted(privileged, key=asked.index), "version", "*"]


def test_every_remedy_that_runs_on_a_host_is_in_the_kit_and_no_other_is() -> None:
    rows = [row.id for remedy in REMEDIES.values() for row in (remedy, *remedy.ways.values()) if row.at != "fleet"]
    assert _cases(FILES["rackmedic-act"], "\narguments() {") == rows
    assert _cases(FILES["rackmedic-act"], "\nperform() {") == rows
    assert "run_check" not in FILES["rackmedic-act"]


def test_the_version_stands_in_every_file() -> None:
    version = compute_kit_version(CHECKS, REMEDIES)
    assert all(version in text for text in FILES.values())
    assert not [name for name, text in FILES.items() if re.search(r"@[A-Z]+@", text)]


def test_the_version_changes_exactly_when_what_is_allowed_changes() -> None:
    version = compute_kit_version(CHECKS, REMEDIES)
    smi, dmesg, reset = CHECKS["smi"], CHECKS["dmesg"], REMEDIES["gpu_reset"]
    same: list[tuple[Mapping[str, Check], Mapping[str, Remedy]]] = [
        ({**CHECKS, "smi": replace(smi, commands=(Command("query", ("nvidia-smi", "-a")),), asks="other words")}, REMEDIES),
        (CHECKS, {**REMEDIES, "gpu_reset": replace(reset, does="other words", blast="more", heavier="")}),
        (CHECKS, {**REMEDIES, "run_check": replace(REMEDIES["run_check"], limit_seconds=1)}),
    ]
    other: list[tuple[Mapping[str, Check], Mapping[str, Remedy]]] = [
        ({**CHECKS, "dmesg": replace(dmesg, commands=(Command("ring", ("dmesg", "-C"), privileged=True),))}, REMEDIES),
        ({**CHECKS, "smi": replace(smi, commands=(Command("query", ("nvidia-smi", "-a"), privileged=True),))}, REMEDIES),
        (CHECKS, {name: row for name, row in REMEDIES.items() if name != "reboot"}),
        (CHECKS, {**REMEDIES, "gpu_reset": replace(reset, command=("nvidia-smi", "-r"))}),
        (CHECKS, {**REMEDIES, "gpu_reset": replace(reset, conditions=())}),
        (CHECKS, {**REMEDIES, "gpu_reset": replace(reset, limit_seconds=1)}),
        (CHECKS, {**REMEDIES, "gpu_reset": replace(reset, args={"bdf": "node"})}),
    ]
    assert {compute_kit_version(*tables) for tables in same} == {version}
    assert len({compute_kit_version(*tables) for tables in other} | {version}) == len(other) + 1


def test_where_the_kit_lives_does_not_change_its_version() -> None:
    elsewhere = build_kit_files(CHECKS, REMEDIES, KitPaths(directory="/opt/rm", state="/srv/rm", user="medic"))
    assert compute_kit_version(CHECKS, REMEDIES) in elsewhere["rackmedic-act"]
    assert "medic ALL=(root) NOPASSWD: NOSETENV: /opt/rm/rackmedic-look, /opt/rm/rackmedic-act\n" in elsewhere["sudoers"]
    assert "/var/lib/rackmedic" not in elsewhere["rackmedic-act"]


@pytest.mark.skipif(not VISUDO, reason="sudo is not installed: apt-get install sudo (make setup-system)")
def test_sudo_reads_the_sudoers_file(tmp_path: Path) -> None:
    (tmp_path / "sudoers").write_text(FILES["sudoers"])
    ran = subprocess.run([VISUDO, "-c", "-f", str(tmp_path / "sudoers")], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    rules = [line for line in FILES["sudoers"].splitlines() if line and not line.startswith("#")]
    assert len(rules) == 2
    assert "*" not in "".join(rules)


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_reads_the_scripts(shell: str) -> None:
    for name in ("rackmedic-look", "rackmedic-act", "install.sh"):
        subprocess.run([*SHELLS[shell], "-n"], input=FILES[name].encode(), check=True)


def test_hostile_words_of_a_row_stay_words(tmp_path: Path) -> None:
    row = Remedy(
        id="odd", does=HOSTILE, at="target", args={"bdf": "bdf"}, command=("echo", HOSTILE, "pre{bdf}post", ""), risk="intrusive",
        limit_seconds=5, proof=(), blast=HOSTILE, outage=HOSTILE, waiting=HOSTILE, files="none", ends="nothing",
        conditions=(Condition("node", HOSTILE, ("echo", HOSTILE), "*touch*|{bdf}"),),
    )  # fmt: skip
    check = replace(CHECKS["smi"], commands=(Command("query", ("echo", HOSTILE), privileged=True),))
    node = Node(tmp_path, remedies={"odd": row}, checks={"smi": check})
    assert node.start(digest(1), "odd", "0000:9b:00.0").first == "started"
    assert node.ended(digest(1)).rest == f"{HOSTILE} pre0000:9b:00.0post \n"
    said = node.look("smi.query")
    assert f"{said.first}\n{said.rest}" == HOSTILE + "\n"
    assert node.act("start", digest(2), BOOT, "odd", "x").first == "refused bdf must be a PCI address such as 0000:9b:00.0"
    assert not list(tmp_path.rglob("owned"))


@pytest.mark.parametrize(
    ("row", "names"),
    [
        (replace(REMEDIES["gpu_reset"], command=("nvidia-smi", "{gpu}")), "gpu"),
        (replace(REMEDIES["gpu_reset"], conditions=(Condition("node", "x", ("@rm_rf", "/"), ""),)), "@rm_rf"),
    ],
)
def test_a_row_that_does_not_fit_the_kit_is_refused_by_name(row: Remedy, names: str) -> None:
    with pytest.raises(BadRow, match=names):
        build_kit_files(CHECKS, {row.id: row})


def test_a_privileged_command_with_a_slot_is_refused() -> None:
    check = replace(CHECKS["smi"], commands=(Command("tail", ("tail", "{job_logs}"), privileged=True),))
    with pytest.raises(BadRow, match=r"smi\.tail"):
        build_kit_files({"smi": check}, REMEDIES)


@given(st.sampled_from([field.name for field in fields(KitPaths)]), st.text(max_size=20))
def test_paths_and_names_that_would_not_stand_plainly_in_the_files_are_refused(field: str, text: str) -> None:
    if not all(c.isascii() and (c.isalnum() or c in "/._+-:") for c in text):
        with pytest.raises(ValueError, match=field):
            KitPaths(**{field: text})


def test_no_kind_admits_a_character_that_means_something_in_a_pattern() -> None:
    for kind in ARGUMENT_KINDS.values():
        given(st.from_regex(kind.pattern, fullmatch=True))(lambda value: _plain(value))()


def _plain(value: str) -> None:
    assert not set(value) & set("*?[]|\\!'\"$` \n{}"), value


def test_the_kit_is_written_as_files_ready_to_copy(tmp_path: Path) -> None:
    paths = write_kit(tmp_path / "kit")
    assert [path.name for path in paths] == list(FILES)
    assert {path.name: path.read_text() for path in paths} == FILES
    assert [path.name for path in paths if path.stat().st_mode & 0o111] == ["rackmedic-look", "rackmedic-act", "install.sh"]
    assert write_kit(tmp_path / "kit") == paths


def test_the_installer_refuses_everybody_but_root(tmp_path: Path) -> None:
    write_kit(tmp_path)
    (tmp_path / "id").write_text("#!/bin/sh\necho 1000\n")
    (tmp_path / "id").chmod(0o755)
    ran = subprocess.run(
        ["sh", "install.sh"], cwd=tmp_path, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (1, "run as root\n")
