"""Evidence is removed by age and size, oldest first, and never while an open incident cites it."""

import os
from pathlib import Path

import pytest

from tools.evidence import DirectoryEvidence
from tools.evidence_retention import DAY_SECONDS, iter_outputs, measure_evidence, prune_evidence, remove_output

MUCH = 1 << 40


def age(root: Path, days: float, sha: str = "") -> None:
    """Set outputs' age in days: all, or one."""
    for one in iter_outputs(root):
        if sha in (one.sha, ""):
            at = one.file.stat().st_mtime - days * DAY_SECONDS
            os.utime(one.file, (at, at))


async def test_outputs_older_than_the_limit_are_removed(tmp_path: Path) -> None:
    store = DirectoryEvidence(tmp_path)
    old = await store.put_text("inc-1", "old")
    age(tmp_path, 91)
    young = await store.put_text("inc-1", "young")
    pruned = prune_evidence(tmp_path, 90, MUCH, [])
    assert (pruned.outputs, pruned.left.outputs) == (1, 1)
    assert await store.get_text(old) is None
    assert await store.get_text(young) == "young"


async def test_what_is_stored_again_is_young_again(tmp_path: Path) -> None:
    store = DirectoryEvidence(tmp_path)
    sha = await store.put_text("inc-1", "the same again")
    age(tmp_path, 91)
    assert await store.put_text("inc-2", "the same again") == sha
    assert prune_evidence(tmp_path, 90, MUCH, []).outputs == 0


@pytest.mark.parametrize("most", [MUCH, 0])
async def test_outputs_cited_by_an_open_incident_are_kept(tmp_path: Path, most: int) -> None:
    store = DirectoryEvidence(tmp_path)
    shared, own, foreign = [await store.put_text("inc-1", text) for text in ("shared", "of the closed one", "foreign")]
    await store.put_text("inc-2", "shared")
    mine = await store.put_text("inc-2", "of the open one")
    age(tmp_path, 400)
    pruned = prune_evidence(tmp_path, 90, most, ["inc-2", "inc-without-evidence"])
    assert [await store.get_text(sha) is not None for sha in (shared, mine, own, foreign)] == [True, True, False, False]
    assert pruned.cited == pruned.left.bytes > 0


async def test_too_much_goes_oldest_first_until_the_rest_fits(tmp_path: Path) -> None:
    store = DirectoryEvidence(tmp_path)
    shas = [await store.put_text("inc-1", f"output {n} " + os.urandom(300).hex()) for n in range(5)]
    for n, sha in enumerate(shas):
        age(tmp_path, 10 - n, sha)
    each = measure_evidence(tmp_path).bytes // 5
    pruned = prune_evidence(tmp_path, 90, 3 * each + each // 2, [])
    assert [await store.get_text(sha) is not None for sha in shas] == [False, False, True, True, True]
    assert pruned.left == measure_evidence(tmp_path)


async def test_an_output_stored_again_while_it_is_being_removed_stays(tmp_path: Path) -> None:
    store = DirectoryEvidence(tmp_path)
    sha = await store.put_text("inc-1", "needed again")
    age(tmp_path, 91)

    (one,) = iter_outputs(tmp_path)
    await store.put_text("inc-2", "needed again")
    assert not remove_output(one)
    assert await store.get_text(sha) == "needed again"


async def test_tallies_of_incidents_long_over_go_and_those_of_open_ones_stay(tmp_path: Path) -> None:
    store = DirectoryEvidence(tmp_path)
    for incident in ("inc-old", "inc-open", "inc-new"):
        await store.put_text(incident, incident)
    for incident in ("inc-old", "inc-open"):
        os.utime(tmp_path / "incidents" / incident, (0, 0))
    prune_evidence(tmp_path, 90, MUCH, ["inc-open"])
    assert {file.name for file in (tmp_path / "incidents").iterdir()} == {"inc-open", "inc-new"}


async def test_drafts_of_writers_that_died_go_after_a_day(tmp_path: Path) -> None:
    sha = await DirectoryEvidence(tmp_path).put_text("inc-1", "whole")
    folder = tmp_path / sha[:2]
    (folder / "dead.123-456").write_text("half")
    (folder / "alive.123-457").write_text("half")
    os.utime(folder / "dead.123-456", (0, 0))
    prune_evidence(tmp_path, 90, MUCH, ["inc-1"])
    assert {file.suffix for file in folder.iterdir()} == {".z", ".123-457"}


async def test_what_was_stored_before_takes_nothing_of_an_incidents_share(tmp_path: Path) -> None:
    store = DirectoryEvidence(tmp_path, max_incident_bytes=2000)
    text = os.urandom(1500).hex()
    await store.put_text("inc-1", text)
    for _ in range(3):
        await store.put_text("inc-2", text)
    assert len((tmp_path / "incidents" / "inc-2").read_text().splitlines()) == 1
    assert "not kept" not in str(await store.get_text(await store.put_text("inc-2", "a small one")))


def test_no_directory_is_no_evidence(tmp_path: Path) -> None:
    assert measure_evidence(tmp_path / "none").outputs == 0
    assert prune_evidence(tmp_path / "none", 90, 0, []).outputs == 0
