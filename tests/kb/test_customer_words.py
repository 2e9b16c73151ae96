"""Tenant texts: every cause in every language, with a change to paste if the cause is the tenant's."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kb.customers.cause_words import BadWords, extract_comments, load_customer_words, remove_promises
from kb.taxonomy.loader import BadTaxonomy, load_taxonomy
from kb.taxonomy.taxonomy import CustomerFix, Leaf

TAXONOMY = load_taxonomy()
WORDS = load_customer_words(TAXONOMY)
LEAVES = list(TAXONOMY.decidable.leaves.values())
THEIRS = [leaf for leaf in LEAVES if leaf.owner == "customer"]
OURS = [leaf for leaf in LEAVES if leaf.owner != "customer"]
# words for operators only
INSIDE = ("rackmedic", "slurm", "scheduler reason", "drain", "switch name", "bmc", "ipmi", "leaf-", "approval", "approver")


@pytest.mark.parametrize("leaf", THEIRS, ids=lambda leaf: leaf.label)
def test_every_cause_that_is_the_customers_says_what_to_change_and_how_to_see_that_it_worked(leaf: Leaf) -> None:
    fix = leaf.customer_fix
    assert fix is not None
    assert fix.choose_block({})
    for sentence in (fix.change, fix.works):
        assert sentence.endswith(".")


@pytest.mark.parametrize("leaf", OURS, ids=lambda leaf: leaf.label)
def test_what_is_ours_to_mend_tells_a_customer_nothing_to_paste_and_nothing_of_the_inside(leaf: Leaf) -> None:
    assert leaf.customer_fix is None
    for language in WORDS.languages:
        said = WORDS.get_cause_words(leaf.label, language).words.lower()
        assert not [word for word in INSIDE if word in said]


@pytest.mark.parametrize("leaf", LEAVES, ids=lambda leaf: leaf.label)
def test_german_is_whole(leaf: Leaf) -> None:
    english, german = WORDS.get_cause_words(leaf.label), WORDS.get_cause_words(leaf.label, "de")
    assert german.words != english.words
    if leaf.owner != "customer":
        return
    assert english.fix
    assert german.fix
    assert german.title != english.title
    assert german.fix.change != english.fix.change
    assert german.fix.works != english.fix.works
    code = [
        [re.sub(r"(?<!\S)# [^#\s][^#\n]*$", "", line) for block in fix.paste for line in block.split("\n")]
        for fix in (english.fix, german.fix)
    ]
    assert code[0] == code[1], "what runs is the same in every language"
    read = [words for block in german.fix.paste for words in extract_comments(block)]
    assert [WORDS.comments["de"].get(words) for block in english.fix.paste for words in extract_comments(block)] == read


def test_a_comment_that_stands_in_no_block_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "fr.yaml").write_text("language: fr\ncomments:\n  nowhere: nulle part\ncauses: {}\n")
    with pytest.raises(BadWords) as caught:
        load_customer_words(TAXONOMY, tmp_path)
    assert caught.value.problems[0].endswith("fr.yaml:3: nowhere is no comment of a block")


def test_a_leaf_of_the_sites_own_and_an_unkept_language_have_english() -> None:
    label = LEAVES[0].label
    assert WORDS.get_cause_words(label, "fr") == WORDS.get_cause_words(label)


def test_a_language_that_names_no_leaf_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "fr.yaml").write_text("language: fr\ncauses:\n  GPU.BUS.Nothing:\n    words: rien\n")
    with pytest.raises(BadWords) as caught:
        load_customer_words(TAXONOMY, tmp_path)
    assert caught.value.problems[0].endswith("fr.yaml:3: GPU.BUS.Nothing is no leaf")


def test_a_block_takes_the_sites_value_where_it_is_known_and_plain() -> None:
    fix = TAXONOMY.get_leaf("USER.CONFIG.NCCL_IB_HCA_Wrong").customer_fix
    assert fix is not None
    assert fix.choose_block({"expected": "mlx5_0,mlx5_1"}) == "export NCCL_IB_HCA=mlx5_0,mlx5_1"
    assert fix.choose_block({}).startswith("unset NCCL_IB_HCA")


@pytest.mark.parametrize("hostile", ["mlx5_0; rm -rf /", "$(id)", "`id`", "a b", "a\nb", "", "'", "x" * 65, "mlx5_0\n"])
def test_a_value_that_a_shell_reads_as_more_than_a_word_is_not_filled_in(hostile: str) -> None:
    fix = CustomerFix("Change it.", ("export X={expected}", "unset X"), "It works.")
    assert fix.choose_block({"expected": hostile}) == "unset X"


def test_slots_of_what_a_job_printed_are_never_filled() -> None:
    fix = CustomerFix("Change it.", ("echo {value} {attrs.detail}",), "It works.")
    assert fix.choose_block({"value": "evil", "attrs.detail": "evil"}) == "echo {value} {attrs.detail}"


SITE = """\
category: USER
branches: {TEST: Tests}
leaves:
  TEST.One_Thing:
    title: One thing
    description: It is one thing.
    scope: job
    owner: customer
    symptoms: [slow]
    words: [one thing]
    share: 0.01
    share_from: a guess
    evidence:
      - {id: hot, key: gpu.temp.core, when: "value > 99", weight: 9, decisive: true, says: "{value} on {device}"}
    checks: [smi]
    remedies: [report_user]
    customer_words: One thing broke.
    customer_fix: {change: Change it., paste: [BLOCK], works: It works.}
    next_step: Mend it.
    sources: [nobody]
"""


@pytest.mark.parametrize(
    ("block", "why"),
    [
        ('"export X={expected}"', "the last block may have no slot"),
        ('"```"', "may not hold them"),
        ('"' + "x" * 141 + '"', "at most 8 lines of 140 characters"),
        ('"' + "x\\n" * 9 + 'x"', "at most 8 lines of 140 characters"),
    ],
)
def test_a_sites_block_that_cannot_be_shown_is_refused(tmp_path: Path, block: str, why: str) -> None:
    (tmp_path / "site.yaml").write_text(SITE.replace("BLOCK", block))
    with pytest.raises(BadTaxonomy) as caught:
        load_taxonomy(tmp_path)
    assert why in caught.value.problems[0]


@pytest.mark.parametrize("leaf", THEIRS, ids=lambda leaf: leaf.label)
def test_blocks_of_a_shell_are_read_by_one(leaf: Leaf) -> None:
    assert leaf.customer_fix is not None
    for block in leaf.customer_fix.paste:
        text = leaf.customer_fix.choose_block({"expected": "1", "driver": "550.54.15", "cuda": "12.4"}) if "{" in block else block
        if text.startswith(("export", "unset", "python", "srun", "pip", "nvidia-smi", "docker", "torchrun")):
            done = subprocess.run([shutil.which("bash") or "bash", "-n"], input=text, text=True, capture_output=True, check=False)
            assert not done.stderr


@pytest.mark.parametrize("language", WORDS.languages)
def test_before_an_approval_no_provider_cause_promises_an_action(language: str) -> None:
    promise = re.compile(
        r"\b(?:is taken|are taken|is being|are being|will be|is restarted|is replaced)\b|; (?!.*(?:muss|müssen|sollte)).*\b(?:wird|werden)\b"
    )
    for label, leaf in TAXONOMY.leaves.items():
        if leaf.owner != "customer":
            said = remove_promises(WORDS.get_cause_words(label, language).words)
            assert not promise.search(said), (label, said)
            assert said.endswith(".")
            assert len(said) > 10


@pytest.mark.parametrize(
    ("words", "left"),
    [
        ("A fan failed; the node is taken out for repair.", "A fan failed."),
        ("A unit fails; it is taken out and replaced, your code is not the cause.", "A unit fails; your code is not the cause."),
        ("The links are down; the node is taken out, your settings are fine.", "The links are down; your settings are fine."),
        ("The clock is wrong; it will be set and the job can be restarted.", "The clock is wrong."),
        ("The node was taken out for maintenance; your job can be submitted again.", None),
        ("A GPU has a memory error that it can repair itself; it needs a short reset when no job uses it.", None),
        ("Ein Anschluss ist ausgefallen; der Knoten wird herausgenommen, bis das Kabel repariert ist.", "Ein Anschluss ist ausgefallen."),
        ("Die Uhr geht falsch; sie wird gestellt, und der Job kann neu beginnen.", "Die Uhr geht falsch."),
    ],
)
def test_what_is_known_stays_and_only_the_promise_goes(words: str, left: str | None) -> None:
    assert remove_promises(words) == (left or words)
