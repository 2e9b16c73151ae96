"""Mutants find their targets, also after a refactoring; a stale one is an error with its name; and no bug reaches the
test process.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache, cached_property
from pathlib import Path

import pytest
from fakeredis import FakeAsyncRedis

from tests.properties.codemod import copy_tree, move_function
from tests.properties.mutation import Edit, Mutant, StaleMutant, missing_targets, resolve, run_in_child, run_mutant, stale_mutants

SCRIPT = "if redis.call('GET', KEYS[1]) then return 1 end\nreturn 2"


def weighed(facts: list[int], *, limit: int = 3) -> str:
    heavy = [fact for fact in facts if fact > limit]
    if not heavy:
        return "light"
    return f"{len(heavy)} heavy"


class Scale:
    @property
    def zero(self) -> int:
        return 0

    @cached_property
    def name(self) -> str:
        return "scale"

    @staticmethod
    def unit() -> str:
        return "kg"

    def __str__(self) -> str:
        return super().__str__()[:0] + "a scale"


@cache
def known() -> str:
    return "known"


def mutant(*edits: Edit) -> Mutant:
    return Mutant("a bug", "I0", edits)


def weighed_with(*edits: Edit) -> str:
    return run_mutant(mutant(*edits), lambda: weighed([1, 4, 5]))


def test_every_mutant_resolves() -> None:
    assert run_in_child(lambda: "\n".join(stale_mutants())) == ""


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("fact > limit", "fact < limit", "1 heavy"),
        ("not   heavy", "heavy", "light"),
        ("return 'light'", "", "2 heavy"),
        ("heavy = [fact for fact in facts if fact > limit]", "heavy = facts", "3 heavy"),
        ("return f'{len(heavy)} heavy'", "heavy.append(9)\nreturn str(heavy)", "[4, 5, 9]"),
    ],
)
def test_edit_replaces_one_node_in_any_layout(before: str, after: str, said: str) -> None:
    assert weighed_with(Edit(weighed, before, after)) == said
    assert weighed([1, 4, 5]) == "2 heavy", "the bug is in the child alone"


def test_several_edits_of_one_function_hold_together() -> None:
    assert weighed_with(Edit(weighed, "len(heavy)", "sum(heavy)"), Edit(weighed, "limit", "spy(limit)", {"spy": lambda _: 4})) == "5 heavy"


@pytest.mark.parametrize(
    ("target", "before", "after", "look", "said"),
    [
        (Scale.zero, "0", "1", lambda: str(Scale().zero), "1"),
        (Scale.__dict__["name"], "'scale'", "'other'", lambda: Scale().name, "other"),
        (Scale.unit, "'kg'", "'lb'", Scale.unit, "lb"),
        (Scale.__str__, "'a scale'", "'another'", lambda: str(Scale()), "another"),
        (known, "'known'", "'unknown'", known, "unknown"),
    ],
)
def test_target_may_be_any_kind_of_function(target: object, before: str, after: str, look: Callable[[], str], said: str) -> None:
    assert look() != said
    assert run_mutant(mutant(Edit(target, before, after)), look) == said


def test_keyword_argument_is_edited_or_removed() -> None:
    def look() -> str:
        return sorted_by_size()

    assert run_mutant(mutant(Edit(sorted_by_size, "reverse=True", "reverse=False")), look) == "['a', 'bb']"
    assert run_mutant(mutant(Edit(sorted_by_size, "reverse=True")), look) == "['a', 'bb']"


def sorted_by_size() -> str:
    return str(sorted(["bb", "a"], key=len, reverse=True))


def test_script_is_edited_where_it_is_registered() -> None:
    async def run() -> str:
        async with FakeAsyncRedis() as redis:
            await redis.set("key", "1")
            return str(await redis.register_script(f"-- a prelude\n{SCRIPT}")(keys=["key"]))

    assert run_mutant(mutant(Edit(SCRIPT, "if redis.call( 'GET',KEYS[1] ) then return 1 end")), lambda: asyncio.run(run())) == "2"
    assert asyncio.run(run()) == "1"


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (Edit(weighed, "fact >= limit", "True"), "matches 0 times"),
        (Edit(weighed, "heavy", "facts"), "matches 2 times"),
        (Edit(SCRIPT, "return 3"), "matches 0 times"),
        (Edit(SCRIPT, "return"), "matches 2 times"),
        (Edit(weighed, "if", "True"), "invalid syntax"),
        (Edit(Scale, "0", "1"), "is no function"),
    ],
)
def test_edit_that_does_not_match_once_names_the_mutant(edit: Edit, why: str) -> None:
    with pytest.raises(StaleMutant, match=f"^a bug: .*{why}"):
        resolve(mutant(edit))


def test_target_that_cannot_be_imported_names_the_mutant(tmp_path: Path) -> None:
    table = tmp_path / "mutants_gone.py"
    table.write_text(
        "from tools.ledger.ledger import Ledger, gone\nfrom tools.ledger import scripts\nfrom tools.no_such_module import f\n"
        'T = (Mutant("one", "I1", (Edit(gone, "a", "b"),)), Mutant("two", "I1", (Edit(Ledger.gone, "a"), Edit(scripts.CLAIM, "a"))),'
        ' OtherMutant("three", "I1", (Edit(scripts.GONE, "a"), Edit(f, "a"))))'
    )
    found = list(missing_targets(table))
    assert [line.partition(" is missing")[0] for line in found] == ["one: gone", "two: Ledger.gone", "three: scripts.GONE", "three: f"]


def test_mutant_that_is_broken_itself_counts_as_no_kill() -> None:
    with pytest.raises(RuntimeError, match="the edit is broken: NameError"):
        run_mutant(mutant(Edit(weighed, "not heavy", "no_such_name")), complaint_about_weighing)


def complaint_about_weighing() -> str:
    try:
        weighed([1])
    except NameError as error:
        return f"{type(error).__name__}: {error}"
    return ""


def test_child_that_fails_hangs_or_dies_is_an_error() -> None:
    def fail() -> str:
        raise ValueError("no such luck")

    def hang() -> str:
        time.sleep(60)
        return ""

    with pytest.raises(RuntimeError, match="no such luck"):
        run_in_child(fail)
    with pytest.raises(TimeoutError):
        run_in_child(hang, seconds=0.1)
    with pytest.raises(RuntimeError, match="without an answer"):
        run_in_child(lambda: os._exit(3))


AFTER_THE_MOVE = """
import json
from tests.properties.mutants import SAFETY_MUTANTS, kill
from tests.properties.mutation import function_of, stale_mutants

moved = [row for row in SAFETY_MUTANTS if any(not isinstance(edit.target, str) and function_of(edit.target).__module__ == MODULE for edit in row.edits)]
print(json.dumps({"stale": stale_mutants(), "moved": [row.name for row in moved], "survived": [row.name for row in moved if not kill(row)]}))
"""


@pytest.mark.tier2
def test_after_a_rename_and_a_move_every_mutant_finds_its_target_and_is_killed(tmp_path: Path) -> None:
    copy_tree(tmp_path)
    changed = move_function(tmp_path, "tools.ledger.ledger", "_check_vote", "tools.ledger.voting", "check_vote")
    assert {path.name for path in changed} == {"voting.py", "ledger.py", "mutants_ledger.py"}
    done = subprocess.run(
        [sys.executable, "-c", AFTER_THE_MOVE.replace("MODULE", "'tools.ledger.voting'")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert len(said["moved"]) == 4
    assert (said["stale"], said["survived"]) == ([], [])
