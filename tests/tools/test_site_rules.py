"""A site's own log rules: what they find, what is refused, and bounds against hostile logs."""

import time
from pathlib import Path

import pytest

from graph.engine.reference_data import is_tenant_writable
from kb.fact_keys import find_key
from tools.checks import CHECKS
from tools.checks.site.rule_matching import MAX_EVENTS_PER_RULE, add_rules
from tools.checks.site.rules import MAX_RULES, BadRules, LogRule, load_rules
from tools.checks.site.safe_patterns import BadPattern, compile_line_pattern
from tools.fact import Fact

pytestmark = pytest.mark.slow


LOST = """
rules:
  - id: fabric_lease_lost
    log: job
    pattern: 'fabd: lease (?P<value>\\d{1,6}) lost on \\S{1,40}'
    says: the fabric daemon lost its lease
    examples: ["[rank3]: fabd: lease 4711 lost on n5"]
    never: ["fabd: lease 4711 renewed on n5"]
"""
STALL = """
rules:
  - id: acme_nic_stall
    log: kernel
    pattern: '^acme_nic (?P<value>\\w{1,16}): queue \\d{1,4} stalled'
    says: the adapter of ACME stalls
    examples: ["[  100.000001] acme_nic an0: queue 3 stalled"]
"""


def rules(tmp_path: Path, *texts: str) -> tuple[LogRule, ...]:
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.yaml").write_text(text)
    return load_rules(tmp_path)


def refused(tmp_path: Path, *texts: str) -> tuple[str, ...]:
    with pytest.raises(BadRules) as why:
        rules(tmp_path, *texts)
    return why.value.problems


def rule(pattern: str, example: str, id_: str = "ours", log: str = "job", never: str = "") -> str:
    never = f"\n    never: ['{never}']" if never else ""
    return f"rules:\n  - id: {id_}\n    log: {log}\n    pattern: '{pattern}'\n    says: ours\n    examples: ['{example}']{never}\n"


def found(facts: tuple[Fact, ...]) -> list[Fact]:
    return [fact for fact in facts if fact.key.startswith("site.log.")]


def test_a_rule_finds_its_line_with_its_rank_value_time_and_count(tmp_path: Path) -> None:
    checks = add_rules(CHECKS, rules(tmp_path, LOST))
    log = "\n".join(f"[rank{at % 2}]: 2026-05-20 03:10:0{at}Z fabd: lease 99 lost on n{at}" for at in range(4)) + "\nstep 1 loss 2.0"
    one, other = found(checks["joblog"].parse_output(log))
    assert (one.key, one.value, one.attrs["rank"], one.attrs["count"]) == ("site.log.fabric_lease_lost", "99", "0", 2)
    assert one.attrs["wrong"] == "the fabric daemon lost its lease"
    assert one.attrs["last"] == "2026-05-20T03:10:02+00:00"
    assert other.attrs["rank"] == "1"
    assert "site.log.fabric_lease_lost" in checks["joblog"].establishes
    assert checks["dmesg"] is CHECKS["dmesg"]


def test_what_a_rule_finds_is_of_low_trust_wherever_it_was_read(tmp_path: Path) -> None:
    for one in rules(tmp_path, LOST, STALL):
        row = find_key(one.key)
        assert row is not None
        assert row.text
        assert is_tenant_writable(one.key)


def test_only_the_kernels_own_lines_are_the_kernels(tmp_path: Path) -> None:
    checks = add_rules(CHECKS, rules(tmp_path, STALL))
    ours = "May 20 03:10:00 n1 kernel: acme_nic an0: queue 3 stalled\n"
    theirs = "May 20 03:10:01 n1 myjob[4711]: acme_nic an1: queue 3 stalled\nacme_nic an2: queue 3 stalled\n"
    assert [fact.value for fact in found(checks["dmesg"].parse_output(ours + theirs))] == ["an0"]


def test_ring_and_journal_say_it_once_and_an_old_boot_is_stale(tmp_path: Path) -> None:
    dmesg = add_rules(CHECKS, rules(tmp_path, STALL))["dmesg"]
    ring = "2026-05-20T03:10:00,000001+00:00 acme_nic an0: queue 3 stalled\n"
    entry = (
        '{{"MESSAGE":"acme_nic {0}: queue 3 stalled","_TRANSPORT":"kernel","_BOOT_ID":"{1}","__REALTIME_TIMESTAMP":"1779246600000001"}}\n'
    )
    now, before = "a" * 32, "b" * 32
    facts = [*dmesg.parse_output(ring), *dmesg.parse_output(entry.format("an0", now) + entry.format("an9", before))]
    assert dmesg.settle is not None
    told = found(tuple(dmesg.settle([Fact("dmesg", "host.boot_id", now), *facts])))
    assert {(fact.value, fact.stale) for fact in told} == {("an0", False), ("an9", True)}
    assert len(told) == 2


def test_a_line_that_we_know_stays_ours(tmp_path: Path) -> None:
    told = refused(tmp_path, rule("ours: CUDA", "ours: CUDA out of memory"), rule("acme (.{1,9})", "acme Xid", "b", "kernel"))
    assert any("known as cuda_oom already" in one for one in told)
    (tmp_path / "0.yaml").write_text(rule("acme: CUDA", "acme: CUDA is odd"))
    (tmp_path / "1.yaml").write_text(STALL)
    checks = add_rules(CHECKS, load_rules(tmp_path))
    facts = checks["joblog"].parse_output("acme: CUDA out of memory\nacme: CUDA is odd")
    assert [fact.line for fact in found(facts)] == ["acme: CUDA is odd"]
    assert [fact.value for fact in facts if fact.key == "job.error"] == ["cuda_oom"]


def test_everything_that_is_wrong_is_told_together_with_its_place(tmp_path: Path) -> None:
    told = refused(
        tmp_path,
        rule("lease lost", "lease kept"),
        rule("lease lost", "lease lost", "second", never="a lease lost"),
        rule("lease lost", "lease lost", "ours"),
        rule("step|loss|NCCL|kernel: ", "step", "fourth"),
        rule("INFO", "INFO", "fifth"),
        "rules: [{id: Bad-Id, log: syslog, pattern: 'x', says: ours, examples: []}]",
    )
    text = "\n".join(told)
    assert "0.yaml:2: rules.0: its example is not found: the pattern does not match: 'lease kept'" in text
    assert "1.yaml:2: rules.0: a line that it must never have matches" in text
    assert "2.yaml:2: ours: there is a rule of this id already" in text
    assert "holds no fixed text" in text
    assert "it has ordinary lines, such as" in text
    assert "id must be snake_case" in text
    assert "none of job, kernel" in text
    assert "list that is not empty" in text


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        (r"(?:lease )*", "a choice or repetition inside|empty line|inside"),
        (r"(?:lease)?", "empty line"),
        (r"lease (a+)+b", "inside an unbounded"),
        (r"(lease) \1", "refers back"),
        (r"lease .*lost.*on", "ways"),
        (r"\S{1,80}lease\S{1,80}", "ways"),
        (r"(?i)lease lost", "flags"),
        (r"\w{1,9} \d{1,9}", "fixed text"),
        (r"lease|lost", "fixed text"),
        (r"lease (", "no regular expression"),
        ("lease" * 1000, "longer"),
    ],
)
def test_a_hostile_pattern_is_refused(pattern: str, why: str) -> None:
    with pytest.raises(BadPattern, match=why):
        compile_line_pattern(pattern, 500)


def test_the_number_of_rules_is_bounded(tmp_path: Path) -> None:
    whole = "rules:\n" + "".join(rule("lease lost", "lease lost", f"r{at}").split("\n", 1)[1] for at in range(MAX_RULES))
    assert len(rules(tmp_path, whole)) == MAX_RULES
    assert any("more than 64 rules" in one for one in refused(tmp_path, whole, rule("lease lost", "lease lost", "more")))


def test_without_rules_the_checks_are_the_very_same() -> None:
    assert add_rules(CHECKS, ()) is CHECKS


def test_the_number_of_values_of_a_rule_is_bounded(tmp_path: Path) -> None:
    checks = add_rules(CHECKS, rules(tmp_path, LOST))
    facts = found(checks["joblog"].parse_output("\n".join(f"fabd: lease {at} lost on n1" for at in range(5000))))
    assert len(facts) == MAX_EVENTS_PER_RULE
    assert sum(fact.attrs["count"] for fact in facts) == 5000


def test_a_large_hostile_log_costs_a_bounded_time(tmp_path: Path) -> None:
    """The needle is everywhere and nothing matches."""
    costly = rule(r"[lost]{1,30}[lost]{1,30}lost![0-9]", "lostlolost!1")
    checks = add_rules(CHECKS, rules(tmp_path, costly))
    line = "lost!" + "lost" * 123 + "\n"
    for size in (1, 2):
        text = line * (size * (1 << 20) // len(line))
        began = time.process_time()
        facts = checks["joblog"].parse_output(text)
        assert time.process_time() - began < 30 * size
        assert not found(facts)
    assert any(fact.attrs.get("left_out") for fact in facts)


def test_a_secret_in_a_line_is_not_kept(tmp_path: Path) -> None:
    text = rule(r"acmed: sign-in with (\S{1,80}) failed", "acmed: sign-in with x failed")
    checks = add_rules(CHECKS, rules(tmp_path, text))
    secret = "ghp_" + "a1B2" * 9
    facts = found(checks["joblog"].parse_output(f"acmed: sign-in with {secret} failed"))
    assert facts
    assert secret not in repr(facts)
