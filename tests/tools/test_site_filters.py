"""A site's filters: what they drop from a log's templates, and what they can never drop."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph.extraction.log_digests import digest_log
from kb.logs.template import build_template
from kb.logs.template_filters import FilterRule, build_exact_rule
from tools.checks import CHECKS
from tools.checks.site.filters import BadFilters, LogFilter, add_filters, explain_unfilterable, load_filters, select_filter_rules

CHATTER = """
filters:
  - id: prefetch
    family: acme_trainer
    lines: ["acme_trainer n2 shard 72 prefetch depth 1 ok"]
"""
REGULAR = [f"acme_trainer n{at % 9} shard {at} prefetch depth {at % 4} ok" for at in range(200)]
TOLD = [
    "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
    "[rank1]: RuntimeError: something nobody knows",
    "acme_trainer n2 shard 72 prefetch depth 1 failed",
    "acme_trainer lease of node 7 ran out",
    "[ 100.000001] NVRM: Xid (PCI:0000:19:00): 79, GPU has fallen off the bus.",
]


def filters(folder: Path, *texts: str) -> tuple[LogFilter, ...]:
    for number, text in enumerate(texts):
        (folder / f"{number}.yaml").write_text(text)
    return load_filters(folder)


def refused(folder: Path, *texts: str) -> str:
    with pytest.raises(BadFilters) as why:
        filters(folder, *texts)
    return "\n".join(why.value.problems)


def test_what_is_regular_goes_and_the_rest_stays(tmp_path: Path) -> None:
    some = filters(tmp_path, CHATTER)
    text = "\n".join([*REGULAR, *TOLD])
    without, with_them = (
        digest_log("a.log", "sha", text, None, rules) for rules in (select_filter_rules("", some), select_filter_rules(text, some))
    )
    assert without
    assert with_them
    assert {row.text for row in without.templates} - {row.text for row in with_them.templates} == {
        "acme_trainer n<n> shard <n> prefetch depth <n> ok"
    }
    assert (without.regular, with_them.regular) == (0, len(REGULAR))


def test_only_logs_of_the_family_are_filtered(tmp_path: Path) -> None:
    some = filters(tmp_path, CHATTER)
    others = "\n".join(line.replace("acme_trainer", "their_trainer") for line in REGULAR)
    assert select_filter_rules(others, some) == select_filter_rules(others, ())
    assert len(select_filter_rules("==> /jobs/acme_trainer/7/rank_0.log <==\nstep", some)) == len(select_filter_rules("", ())) + 1


@given(st.lists(st.sampled_from([*REGULAR[:20], *TOLD]), min_size=1, max_size=40))
def test_no_fact_depends_on_a_filter(lines: list[str]) -> None:
    some = (LogFilter("all", "acme", with_rules_of(lines)),)
    log = "==> /jobs/acme/rank_00.log <==\n" + "\n".join(lines)
    before, after = (check["joblog"].parse_output(log) for check in (CHECKS, add_filters(CHECKS, some)))
    strip = [[(fact.key, fact.value, fact.line, fact.status) for fact in facts] for facts in (before, after)]
    assert strip[0] == strip[1]


def with_rules_of(lines: list[str]) -> tuple[FilterRule, ...]:
    """Return rules that drop any of these lines, as no file could define them."""
    return tuple(build_exact_rule("all", build_template(line)) for line in lines)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("[rank3]: torch.OutOfMemoryError: CUDA out of memory.", "sounds like trouble"),
        ("[ 100.000001] NVRM: Xid (PCI:0000:19:00): 79, GPU has fallen off the bus.", "sounds like trouble"),
        ("n1:4711:4800 [0] NCCL INFO Channel 00 : 0 -> 1 via peer memory", "wants it"),
        ("acme_trainer rank 57 exited with code 0", "what became of something"),
        ("<17> 4.2 0x7f /a/b", "too little fixed text"),
    ],
)
def test_what_tells_is_never_filtered(tmp_path: Path, line: str, why: str) -> None:
    assert why in explain_unfilterable(line)
    assert "no filter may drop it" in refused(tmp_path, f"filters:\n  - {{id: ours, family: acme_trainer, lines: ['{line}']}}\n")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (CHATTER.replace("acme_trainer\n", "a\n"), "four characters"),
        (CHATTER.replace("prefetch\n", "Pre-fetch\n"), "snake_case"),
        (CHATTER + CHATTER.replace("\nfilters:", ""), "a filter of this id already"),
        (CHATTER.replace("lines", "patterns"), "patterns"),
        (
            "filters:\n  - {id: ours, family: acme_trainer, lines: ["
            + ", ".join(f"acme {'x' * at} depth ok now" for at in range(300))
            + "]}\n",
            "256 kinds",
        ),
        ("filters:\n  - {id: ours, family: acme_trainer, lines: ['" + "x" * 600 + "']}\n", "500 characters"),
    ],
)
def test_what_is_no_filter_is_refused_with_its_reason(tmp_path: Path, text: str, why: str) -> None:
    assert why in refused(tmp_path, text)
