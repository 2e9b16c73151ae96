"""A site's own checks: allowed commands, facts from their output, and refusals with file and line."""

import json
import re
import shlex
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from bot.app.site_files import BadSite, load_all_checks
from bot.refusal import Refusal
from bot.settings import Settings
from graph.engine.abnormal_facts import is_abnormal
from kb.taxonomy.loader import load_taxonomy
from tests.support.clock import SetClock
from tests.support.terminal import rackmedic
from tests.tools import site_commands
from tests.tools.test_fleet import HOSTS, FakeHosts
from tools.checks import CHECKS
from tools.checks.check_types import Check
from tools.checks.site.loader import BadChecks, load_site_checks
from tools.checks.site.readers import PROGRAM_USAGES
from tools.checks.site.readonly import explain_refused_command, explain_refused_folder
from tools.checks.site.usage import KINDS
from tools.evidence import MemoryEvidence
from tools.fact import Status
from tools.fleet.answers import CheckRequest
from tools.fleet.fleet import Fleet
from tools.transport import CommandResult

SCRATCH: dict[str, Any] = {
    "id": "scratch",
    "asks": "Is the scratch file system mounted?",
    "command": ["cat", "/proc/mounts"],
    "timeout": 10,
    "cap_bytes": 65536,
    "facts": [{"key": "site.scratch", "kind": "bool", "regex": r"^\S+ /scratch ", "wrong_when": "!value", "says": "no scratch here"}],
}


def load(tmp_path: Path, *rows: dict[str, Any]) -> dict[str, Check]:
    (tmp_path / "own.yaml").write_text(yaml.safe_dump({"checks": list(rows)}, sort_keys=False))
    return load_site_checks(tmp_path, known=CHECKS)


def problems(tmp_path: Path, **changes: Any) -> list[str]:
    row = {name: value for name, value in {**SCRATCH, **changes}.items() if value is not None}
    with pytest.raises(BadChecks) as bad:
        load(tmp_path, row)
    return list(bad.value.problems)


def reading(tmp_path: Path, text: str, **fact: Any) -> list[Any]:
    check = load(tmp_path, {**SCRATCH, "facts": [{"key": "site.x", "kind": "str", **fact}]})["scratch"]
    return [(f.value, f.device) if f.status is Status.OK else f.status for f in check.parse_output(text)]


def test_a_check_of_the_site_is_a_check_like_any_other(tmp_path: Path) -> None:
    check = load(tmp_path, SCRATCH)["scratch"]
    assert (check.commands[0].argv, check.timeout, check.cap, check.establishes) == (("cat", "/proc/mounts"), 10, 65536, ("site.scratch",))
    [there] = check.parse_output("/dev/md0 /scratch xfs rw 0 0\n")
    [gone] = check.parse_output("/dev/sda1 / ext4 rw 0 0\n")
    assert (there.value, is_abnormal(there)) == (True, False)
    assert (gone.value, is_abnormal(gone), gone.attrs["wrong"]) == (False, True, "no scratch here")


def test_patterns_find_values_and_devices_in_lines(tmp_path: Path) -> None:
    text = "nic mlx5_0 rate 400\nnic mlx5_1 rate 100\nelse\n"
    assert reading(tmp_path, text, kind="int", regex=r"^nic (?P<device>\S+) rate (?P<value>\d+)") == [(400, "mlx5_0"), (100, "mlx5_1")]
    assert reading(tmp_path, "v 1.2.3\n", regex=r"v ([\d.]+)") == [("1.2.3", None)]
    assert reading(tmp_path, "nothing\n", regex=r"v ([\d.]+)") == [Status.ABSENT]


def test_two_blanks_in_a_pattern_stay_two(tmp_path: Path) -> None:
    assert reading(tmp_path, "a  7\n", kind="int", regex=r"a  (\d)") == [(7, None)]


def test_paths_find_values_and_devices_in_json(tmp_path: Path) -> None:
    text = json.dumps({"ports": [{"name": "p0", "speed": 400}, {"name": "p1"}, {"name": "p2", "speed": 100}], "version": "2.1"})
    assert reading(tmp_path, text, kind="int", json="ports[*].speed", device="name") == [(400, "p0"), (100, "p2")]
    assert reading(tmp_path, text, json="$.version") == [("2.1", None)]
    assert reading(tmp_path, text, json="ports[2].name") == [("p2", None)]
    assert reading(tmp_path, '{"a": {"x": 1, "y": 2}}', kind="int", json="a[*]") == [(1, "x"), (2, "y")]
    assert reading(tmp_path, text, json="absent.name") == [Status.ABSENT]


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("no json", {"json": "a"}),
        ("v 12x\n", {"kind": "int", "regex": "v (.*)"}),
        ('{"a": 1.5}', {"kind": "int", "json": "a"}),
        ('{"a": "maybe"}', {"kind": "bool", "json": "a"}),
    ],
)
def test_what_cannot_be_read_is_unreadable_and_no_value(tmp_path: Path, text: str, fact: dict[str, Any]) -> None:
    assert reading(tmp_path, text, **fact) == [Status.UNREADABLE]


@given(st.text(max_size=400))
def test_any_output_gives_facts_or_a_reason(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    folder = tmp_path_factory.getbasetemp() / "any"
    folder.mkdir(exist_ok=True)
    rows: list[dict[str, Any]] = [
        {"key": "site.a", "kind": "float", "regex": r"(?P<device>\w{1,9}) (?P<value>\S+)"},
        {"key": "site.b", "kind": "int", "json": "a[*].b"},
    ]
    for row in rows:
        for fact in load(folder, {**SCRATCH, "facts": [row]})["scratch"].parse_output(text):
            assert fact.status is not Status.OK or fact.key == row["key"]
            assert fact.status is Status.OK or fact.line


def argvs(rows: str) -> list[list[str]]:
    return [shlex.split(row) for row in rows.strip().splitlines()]


REFUSED = [
    *argvs(site_commands.WRITES),
    *argvs(site_commands.STARTS),
    *argvs(site_commands.SECRETS),
    *argvs(site_commands.SHELL),
    ["cat", "a\nb"],
    [],
]
READS = argvs(site_commands.READS)


def test_what_writes_starts_others_or_reads_secrets_is_refused() -> None:
    assert [shlex.join(argv) for argv in REFUSED if not list(explain_refused_command(argv))] == []
    assert len(REFUSED) > 500


def test_what_people_ask_every_day_may_run() -> None:
    assert [shlex.join(argv) for argv in READS if list(explain_refused_command(argv))] == []
    assert len(READS) > 150


@given(st.text("-_abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=14))
def test_an_unlisted_program_is_refused(name: str) -> None:
    assert name in PROGRAM_USAGES or list(explain_refused_command([name]))


@given(st.sampled_from(READS), st.text("abcdefghijklmnopqrstuvwxyz-", min_size=3, max_size=12))
def test_an_unlisted_option_is_refused(argv: list[str], option: str) -> None:
    told = " ".join(f"{way.options} {way.before} {way.must}" for way in PROGRAM_USAGES[argv[0].rpartition("/")[2]])
    assert f"--{option}" in re.findall(r"--[a-z-]+", told) or list(explain_refused_command([*argv, f"--{option}"]))
    assert list(explain_refused_command([*argv, f"--{option}=/etc/passwd"]))


READS_CONTENTS = [name for name, ways in PROGRAM_USAGES.items() if any("FILE" in f"{way.forms} {way.options}" for way in ways)]


@pytest.mark.parametrize("program", sorted({*READS_CONTENTS, "diff", "sdiff", "diff3", "zgrep", "rg"} - {"sar"}))  # sar -r: memory
@pytest.mark.parametrize("option", ["-r", "-R", "--recursive", "--dereference-recursive", "--directories=recurse", "--include=x"])
def test_who_reads_contents_goes_into_no_folder(program: str, option: str) -> None:
    assert not any(
        way.is_allowed(words) for way in PROGRAM_USAGES.get(program, ()) for words in ([option, "x", "/opt/a"], ["x", "/opt/a", option])
    )
    assert program in READS_CONTENTS or list(explain_refused_command([program, "/opt/a", "/opt/b"])), "goes into folders unasked"


@pytest.mark.parametrize("program", PROGRAM_USAGES)
def test_every_way_of_reading_is_written_in_known_words(program: str) -> None:
    for way in PROGRAM_USAGES[program]:
        told = f"{way.options} {way.before} {way.must}".split()
        kinds = [word.partition("=")[2] for word in told if "=" in word]
        assert all(re.fullmatch(r"--?[A-Za-z0-9][\w-]*=[A-Z]+|--?[A-Za-z0-9][\w-]*|-\[\w*\]", word) for word in told), told
        assert set(kinds) <= KINDS
        assert not way.is_allowed(["--", "x"])


def test_a_program_of_the_site_runs_as_it_is_below_a_folder_that_the_site_names() -> None:
    own = ["/opt/site/checks/health", "--write", "x=y"]
    assert list(explain_refused_command(own))
    assert list(explain_refused_command(own, ["/opt/site/checks"])) == []
    assert list(explain_refused_command(["/opt/site/checks/gpu/health"], ["/opt/site/checks/"])) == []
    for elsewhere in ("/opt/site/checks", "/opt/site/checks/../sh", "/opt/site/checksum", "/opt/site/checks/.x", "health", "/bin/health"):
        assert list(explain_refused_command([elsewhere], ["/opt/site/checks"])), elsewhere
    assert list(explain_refused_command(["/opt/site/checks/health", "a;b"], ["/opt/site/checks"]))


@pytest.mark.parametrize(
    "folder",
    [
        "/",
        "/bin",
        "/usr/bin",
        "/usr/local",
        "/sbin/",
        "/usr/sbin",
        "/lib",
        "/tmp/x",
        "/dev/shm",
        "/opt",
        "/home",
        "x",
        "../x",
        "/a/../bin",
        "",
    ],
)
def test_a_folder_that_others_share_holds_no_programs_of_the_site(folder: str) -> None:
    assert explain_refused_folder(folder)
    assert list(explain_refused_command([f"{folder.rstrip('/')}/sh"], [folder]))


@given(
    st.sampled_from(READS),
    st.sampled_from(["|", ">", "<", ";", "&", "`", "$(", "\n", "\0", "${A}", "$HOME"]),
    st.text(max_size=8),
    st.data(),
)
def test_no_word_of_a_shell_line_gets_through(argv: list[str], mark: str, text: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(argv)))
    assert list(explain_refused_command([*argv[:place], text + mark + text, *argv[place:]]))


@given(
    st.sampled_from([argv for argv in REFUSED if argv and argv[0].isalpha()]),
    st.sampled_from(["/usr/bin/", "/bin/", "/sbin/", "/opt/x/bin/", "/usr/local/sbin/", "/opt/mellanox/bin/"]),
)
def test_a_path_in_front_changes_nothing(argv: list[str], folder: str) -> None:
    assert list(explain_refused_command([folder + argv[0], *argv[1:]]))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"command": "cat /proc/mounts"}, "list of words"),
        ({"command": ["sh", "-c", "id"]}, "'sh' is no program that is known to only read"),
        ({"command": ["cat", "{job}"]}, "unknown slot {job}"),
        ({"timeout": None}, "timeout is missing"),
        ({"cap_bytes": None}, "cap_bytes is missing"),
        ({"timeout": 4000}, "at most 120"),
        ({"cap_bytes": 1 << 40}, "at most"),
        ({"id": "Bad-Id"}, "snake_case"),
        ({"id": "smi"}, "a check of this id already"),
        ({"shell": True}, "unknown field shell"),
        ({"exit_statuses": ["0"]}, "whole numbers"),
        ({"facts": []}, "not empty"),
        ({"facts": [{"key": "gpu.count", "kind": "int", "regex": "x"}]}, "must be site.NAME"),
        ({"facts": [{"key": "site.x", "kind": "number", "regex": "x"}]}, "kind 'number' is none of"),
        ({"facts": [{"key": "site.x", "kind": "str"}]}, "either regex or json"),
        ({"facts": [{"key": "site.x", "kind": "str", "regex": "x", "json": "y"}]}, "either regex or json"),
        ({"facts": [{"key": "site.x", "kind": "str", "regex": "("}]}, "no regular expression"),
        ({"facts": [{"key": "site.x", "kind": "str", "regex": "(a+)+$"}]}, "can take for ever"),
        ({"facts": [{"key": "site.x", "kind": "str", "regex": "[ab]" * 501}]}, "is longer than 2000 characters"),
        ({"facts": [{"key": "site.x", "kind": "str", "regex": "(a|aa)+$"}]}, "can take for ever"),
        ({"facts": [{"key": "site.x", "kind": "str", "regex": "(a|aa){0,64}$"}]}, "can take for ever"),
        ({"facts": [{"key": "site.x", "kind": "str", "regex": r"((\d{0,60}){9}\w{0,60}){50,64}x"}]}, "can take for ever"),
        ({"facts": [{"key": "site.x", "kind": "str", "regex": r"(a+)\1"}]}, "refers back"),
        ({"facts": [{"key": "site.x", "kind": "str", "regex": ".*a" * 9}]}, "more than 6"),
        ({"facts": [{"key": "site.x", "kind": "str", "json": "a[*].b[*]"}]}, "more than one"),
        ({"facts": [{"key": "site.x", "kind": "str", "regex": "x", "wrong_when": "valeu == 1"}]}, "unknown variable valeu"),
    ],
)
def test_a_bad_check_is_refused_with_file_line_and_reason(tmp_path: Path, changes: dict[str, Any], told: str) -> None:
    found = problems(tmp_path, **changes)
    assert any(told in problem for problem in found), found
    assert all(re.match(rf"{re.escape(str(tmp_path))}/own\.yaml:\d+: ", problem) for problem in found)


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    assert len(problems(tmp_path, command=["rm", "a|b"], timeout=0, facts=[{"key": "x", "kind": "y", "regex": "("}])) >= 6


@pytest.mark.parametrize("text", ["checks: [", "[]", "", "checks: {}", "checks: [1]"])
def test_a_file_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "own.yaml").write_text(text)
    with pytest.raises(BadChecks):
        load_site_checks(tmp_path)


@pytest.mark.parametrize(
    "regex", [r"^(\S+)\s+(\S+)\s+(\S+)", r"(?:\d{1,3}\.){3}\d{1,3}", r"state: (up|down)", r"^nic (?P<device>\S+) rate (?P<value>\d+)"]
)
def test_patterns_that_are_written_every_day_are_taken_and_stay_fast(tmp_path: Path, regex: str) -> None:
    check = load(tmp_path, {**SCRATCH, "facts": [{"key": "site.x", "kind": "str", "regex": regex}]})["scratch"]
    began = time.process_time()
    check.parse_output(("1" * 5000 + "\n") * 10 + ("a " * 5000 + "\n") * 10)
    assert time.process_time() - began < 20


async def test_a_command_that_failed_says_nothing_about_the_host(tmp_path: Path) -> None:
    checks = load(tmp_path, SCRATCH)
    failed = Fleet(FakeHosts(lambda host, argv: CommandResult(b"", b"cat: no such file", 1)), HOSTS, checks, MemoryEvidence(), SetClock())
    [answer] = (await failed.run_checks("i", [CheckRequest("n1", "scratch")])).answers
    assert [fact.status for fact in answer.facts] == [Status.UNREADABLE]
    assert "exit status 1: cat: no such file" in answer.could_not


async def test_statuses_that_are_answers_can_be_named(tmp_path: Path) -> None:
    row = {
        **SCRATCH,
        "command": ["systemctl", "is-active", "x"],
        "exit_statuses": [0, 3],
        "facts": [{"key": "site.x", "kind": "str", "regex": r"(\w+)"}],
    }
    it = Fleet(FakeHosts(lambda host, argv: CommandResult(b"inactive\n", b"", 3)), HOSTS, load(tmp_path, row), MemoryEvidence(), SetClock())
    [answer] = (await it.run_checks("i", [CheckRequest("n1", "scratch")])).answers
    assert [fact.value for fact in answer.facts] == ["inactive"]


LEAF = """
category: OTHER
branches: {SITE: Things of this site}
leaves:
  SITE.Scratch_Missing:
    title: The scratch file system is not mounted
    description: Jobs cannot read their data.
    scope: node
    owner: provider
    symptoms: [py_exception]
    words: [scratch]
    share: 0.01
    share_from: this site
    evidence:
      - {id: gone, key: site.scratch, when: value == false, weight: 6, decisive: true, says: scratch is not mounted}
    checks: [scratch]
    remedies: [hand_off]
    customer_words: A file system is missing.
    next_step: Mount it.
    sources: [this site]
"""


def test_a_leaf_of_the_site_is_decided_by_a_check_of_the_site(tmp_path: Path) -> None:
    (tmp_path / "leaf.yaml").write_text(LEAF)
    taxonomy = load_taxonomy(tmp_path)
    (tmp_path / "checks").mkdir()
    [gone] = load(tmp_path / "checks", SCRATCH)["scratch"].parse_output("nothing\n")
    assert [(leaf.label, clue.matches(gone)) for leaf, clue in taxonomy.list_clues("site.scratch")] == [
        ("OTHER.SITE.Scratch_Missing", True)
    ]


def test_the_command_line_lists_parses_and_refuses_them(tmp_path: Path) -> None:
    (tmp_path / "checks").mkdir()
    load(tmp_path / "checks", SCRATCH)
    environ = {"RACKMEDIC_KB_DIR": str(tmp_path)}
    listed = json.loads(rackmedic("checks", "--json", environ=environ).stdout)["items"]
    assert {"scratch", "smi"} <= {row["id"] for row in listed}
    parsed = rackmedic("parse", "scratch", stdin="/dev/md0 /scratch xfs rw 0 0\n", environ=environ)
    assert json.loads(parsed.stdout)["value"] is True
    (tmp_path / "checks" / "own.yaml").write_text("checks: [{id: x}]\n")
    refused = rackmedic("checks", environ=environ)
    assert (refused.returncode, "own.yaml:1:" in refused.stderr, "Traceback" in refused.stderr) == (2, True, False)


def test_the_folder_of_a_sites_programs_is_a_setting(tmp_path: Path) -> None:
    (tmp_path / "checks").mkdir()
    row = {**SCRATCH, "command": ["/opt/site/checks/health", "--json"]}
    (tmp_path / "checks/own.yaml").write_text(yaml.safe_dump({"checks": [row]}))
    settings = Settings.model_validate({"kb_dir": tmp_path, "check_programs": "/opt/site/checks"})
    assert load_all_checks(settings)["scratch"].commands[0].argv == ("/opt/site/checks/health", "--json")
    with pytest.raises(BadSite, match="RACKMEDIC_CHECK_PROGRAMS names"):
        load_all_checks(Settings.model_validate({"kb_dir": tmp_path}))
    with pytest.raises(Refusal, match=r"RACKMEDIC_CHECK_PROGRAMS: '/usr/bin' is no folder"):
        load_all_checks(Settings.model_validate({"check_programs": "/opt/site/checks, /usr/bin"}))
