"""`rackmedic kb filter` drafts filters for repeated log lines only; `kb try` refuses files that make answers worse."""

import json
from pathlib import Path

import pytest

from graph.learning.log_rule_drafts import build_filter_draft
from kb.history.incidents import load_seeds
from tests.support.terminal import rackmedic
from tests.tools.test_site_rules import LOST, rules
from tools.checks.site.filters import load_filters

pytestmark = pytest.mark.slow


REGULAR = [f"acme_trainer n{at % 9} shard {at} prefetch depth {at % 4} ok" for at in range(600)]
WANTED = [f"acme_trainer lease {at} held by n{at % 9}" for at in range(600)]
ONCE = "acme_trainer joined the ring as member 4"
LOG = "\n".join(line for both in zip(REGULAR, WANTED, strict=True) for line in both) + f"\n{ONCE}\n[rank0]: RuntimeError: no\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "job.log").write_text(LOG)
    return tmp_path / "job.log"


def test_what_a_log_repeats_becomes_a_filter_and_what_it_says_once_stays(log: Path) -> None:
    out = log.parent / "filters" / "ours.yaml"
    ran = rackmedic("kb", "filter", str(log), "--family", "acme_trainer", "--id", "acme", "--out", str(out), "--json")
    assert ran.returncode == 0, ran.stderr
    kinds = json.loads(ran.stdout)["kinds"]
    assert {row["line"]: (row["lines"], row["drafts"]) for row in kinds} == {REGULAR[0]: (600, 3), WANTED[0]: (600, 3)}
    [made] = load_filters(out.parent)
    assert (made.id, made.family, len(made.rules)) == ("acme", "acme_trainer", 2)


def test_what_one_draft_alone_calls_regular_stays() -> None:
    few = [f"acme_trainer n{at % 9} shard {at} prefetch depth {at % 4} ok" for at in range(7)]
    spread = [line for at, line in enumerate(few) for line in (line, *[f"note {at} {word} went by here" for word in ("one", "two")])]
    draft = build_filter_draft("x", "acme_trainer", "\n".join(spread))
    assert not draft.dropped_kinds, "seven lines in three samples make no two drafts of five"


def test_what_a_site_s_rule_or_another_log_or_a_cause_wants_stays(tmp_path: Path) -> None:
    held = [f"fabd: lease {at} lost on n{at % 9}".replace("lost", "held") for at in range(300)]
    text = "\n".join(held)
    assert len(build_filter_draft("x", "fabd", text).dropped_kinds) == 1
    [kept] = build_filter_draft("x", "fabd", text, words=["lease"]).kinds
    assert "a cause is known by the words" in kept.kept
    own = rules(tmp_path, LOST.replace("lost on", "held on"))
    [kept] = build_filter_draft("x", "fabd", text, rules=own).kinds
    assert "the rule fabric_lease_lost wants it" in kept.kept
    [kept] = build_filter_draft("x", "fabd", "\n".join(line.replace("n", "m") for line in held), [held[0].replace("n", "m")], own).kinds
    assert not kept.kept, "the rule's line is another one"


def test_the_same_log_is_drafted_the_same_way() -> None:
    assert build_filter_draft("x", "acme_trainer", LOG) == build_filter_draft("x", "acme_trainer", LOG)


def test_a_family_that_no_line_names_and_a_file_that_is_there_are_refused(log: Path) -> None:
    ran = rackmedic("kb", "filter", str(log), "--family", "their_trainer")
    assert (ran.returncode, "occurs in none of these logs" in ran.stderr) == (2, True)
    ran = rackmedic("kb", "filter", str(log), "--family", "acme_trainer", "--out", str(log))
    assert (ran.returncode, "is there already" in ran.stderr) == (2, True)
    (log.parent / "quiet.log").write_text("acme_trainer begins\n")
    assert rackmedic("kb", "filter", str(log.parent / "quiet.log"), "--family", "acme_trainer").returncode == 1


@pytest.mark.tier2  # replays past incidents and cases
def test_files_that_make_nothing_worse_are_kept(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (tmp_path / "lost.yaml").write_text(LOST)
    environ = {"RACKMEDIC_KB_DIR": str(site)}
    ran = rackmedic("kb", "try", str(tmp_path / "lost.yaml"), "--no-bench", "--json", environ=environ)
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert (told["files"], told["replay"]["before"]) == (["rules/lost.yaml"], told["replay"]["after"])
    assert not list(site.iterdir())
    ran = rackmedic("kb", "try", str(tmp_path / "lost.yaml"), "--no-bench", "--keep", environ=environ)
    assert (ran.returncode, (site / "rules" / "lost.yaml").read_text()) == (0, LOST)


MISLEADING = """\
incidents:
{rows}
"""


@pytest.mark.tier2  # replays past incidents and cases
def test_files_that_make_answers_worse_are_refused_with_what_would_be_lost(tmp_path: Path) -> None:
    seeds = [one for one in load_seeds() if one.label.endswith("Fallen_Off_Bus")]
    rows = "\n".join(
        f"  - {{id: bad-{at}, title: {json.dumps(one.title)}, description: {json.dumps(one.description)}, label: OTHER.SCHED.Preemption, "
        f"deciding_check: sched, root_cause: {json.dumps(one.title)}, resolution: none, source_url: 'https://example.com/{at}'}}"
        for at, one in enumerate(seeds)
    )
    (tmp_path / "bad.yaml").write_text(MISLEADING.format(rows=rows))
    site = tmp_path / "site"
    site.mkdir()
    ran = rackmedic("kb", "try", str(tmp_path / "bad.yaml"), "--no-bench", "--keep", environ={"RACKMEDIC_KB_DIR": str(site)})
    assert ran.returncode != 0
    assert "is taken for OTHER.SCHED.Preemption, by bad-" in ran.stderr
    assert not list(site.iterdir())


def test_what_is_none_of_a_site_s_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("things: []\n")
    ran = rackmedic("kb", "try", str(tmp_path / "x.yaml"), "--no-bench")
    assert (ran.returncode, "begins with none of" in ran.stderr) == (2, True)
    (tmp_path / "y.yaml").write_text("filters: [}\n")
    ran = rackmedic("kb", "try", str(tmp_path / "y.yaml"), "--no-bench")
    assert (ran.returncode, "cannot be read as YAML" in ran.stderr) == (2, True)
