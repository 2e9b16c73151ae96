"""`rackmedic kb rule`: an unknown failure becomes a rule that finds it in another job's log and in no clean one."""

import json
from pathlib import Path

import pytest

from graph.learning.log_rule_drafts import build_pattern, build_rule_drafts
from tests.support.terminal import rackmedic
from tools.checks import CHECKS
from tools.checks.site.rule_matching import add_rules
from tools.checks.site.rules import ORDINARY_LINES, load_rules

FAILED = """\
[rank3]: 2026-05-20 03:10:00 step 1200 loss 2.31
[rank3]: fabd: lease 4711 lost on n5, fatal error of the fabric daemon in epoch 12
[rank7]: fabd: lease 4712 lost on n6, fatal error of the fabric daemon in epoch 13
[rank3]: RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB
[rank3]: warning: failed to read the optional hint file, going on
"""
CLEAN = "\n".join(ORDINARY_LINES) + "\n[rank0]: warning: failed to read the optional hint file, going on\n"
OTHERS_LOG = "[rank12]: fabd: lease 99 lost on gpu-801, fatal error of the fabric daemon in epoch 7\n"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    (tmp_path / "failed.log").write_text(FAILED)
    (tmp_path / "clean.log").write_text(CLEAN)
    return tmp_path


def test_what_failed_becomes_a_rule_that_finds_it_elsewhere(logs: Path) -> None:
    out = logs / "rules" / "ours.yaml"
    ran = rackmedic("kb", "rule", str(logs / "failed.log"), "--against", str(logs / "clean.log"), "--out", str(out), "--json")
    assert ran.returncode == 0, ran.stderr
    [lease, hint] = json.loads(ran.stdout)["drafts"]
    assert (lease["lines"], lease["elsewhere"], lease["refused"]) == (2, 0, [])
    assert hint["elsewhere"] == 1, "what clean logs hold too tells nothing"
    [rule] = load_rules(out.parent)
    checks = add_rules(CHECKS, [rule])
    assert [fact.key for fact in checks["joblog"].parse_output(OTHERS_LOG) if fact.key.startswith("site.log.")] == [f"site.log.{rule.id}"]
    assert not [fact for fact in checks["joblog"].parse_output(CLEAN) if fact.key.startswith("site.log.")]


def test_a_line_that_a_reader_knows_is_not_drafted_about() -> None:
    assert not [one for one in build_rule_drafts(FAILED, []) if "memory" in one.pattern]


def test_of_a_kernel_log_the_message_counts() -> None:
    text = "[ 12.000001] zorb 0000:3b:00.0: quench engine failed to come up, error -5\n"
    [draft] = build_rule_drafts(text, [], "kernel")
    assert "quench\\sengine\\sfailed" in draft.pattern
    assert build_rule_drafts(text, [text], "kernel")[0].elsewhere == 1


def test_a_line_of_numbers_alone_tells_nothing() -> None:
    assert build_pattern("17 4.2 0x7f /a/b") == ""
    assert not build_rule_drafts("error 1 2 3\n", [])


@pytest.mark.parametrize("text", ["", "\x00" * 100, "error " * 10_000, "fatal: (((((((( [[[[ \\\\ *** failed hard {9}\n", "x" * 100_000])
def test_rubbish_ends_in_drafts_that_can_be_read_or_in_none(text: str, tmp_path: Path) -> None:
    log = tmp_path / "rubbish.log"
    log.write_text(text)
    ran = rackmedic("kb", "rule", str(log), "--out", str(tmp_path / "rules" / "r.yaml"))
    assert ran.returncode in (0, 1), ran.stderr
    if ran.returncode == 0:
        assert load_rules(tmp_path / "rules")


def test_what_goes_wrong_is_said(logs: Path) -> None:
    log = str(logs / "failed.log")
    for words, why in (
        (("--log", "syslog"), "none of job, kernel"),
        (("--out", log), "is there already"),
        (("--out", f"{log}/x.yaml"), "File exists"),
    ):
        ran = rackmedic("kb", "rule", log, *words)
        assert why in ran.stderr, ran.stderr


def test_no_secret_of_a_log_stands_in_a_draft() -> None:
    drafts = build_rule_drafts("fatal error of the quench pump password=CorrectHorseBattery while it failed to come up\n", [])
    assert drafts
    assert not [one for one in drafts if "CorrectHorse" in str(one)]
