"""An external bot as in the benchmark's README: one file that sees only the stage."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.refusal import Refusal
from bot.settings import load_settings
from tests.bench.cli import Wanted, new_case, run_bench, write_report

README = Path(__file__).parents[1] / "bench/README.md"
PLAIN = load_settings(environ={})
BROKEN = "class Broken:\n    async def solve(self, stage):\n        return stage.cluster.happenings\n"


@pytest.fixture
def bot(tmp_path: Path) -> Iterator[Path]:
    """Write the README's example to a file."""
    found = re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert found
    path = tmp_path / "mybot.py"
    path.write_text(found[1])
    yield path
    sys.modules.pop("outside_mybot", None)


@pytest.mark.parametrize("transport", ["inprocess", "ssh"])
def test_the_readmes_bot_runs_as_it_stands_and_finds_what_it_knows(bot: Path, transport: str) -> None:
    folder = bot.parent / "cases"
    folder.mkdir()
    new_case(folder / "lost.yaml", "easy", "1", "G07")
    new_case(folder / "full.yaml", "easy", "1", "S10")
    doc = run_bench(PLAIN, Wanted(bot.parent / "r.json", cases=folder, arms=f"B0,{bot}:Mine", transport=transport), print)
    mine = doc["arms"][f"{bot}:Mine"]
    assert {row["case"]: row["right"] for row in mine["per_case"]} == {"lost": True, "full": False}
    assert (mine["grounding"]["grounded"]["value"], mine["localisation"]["hosts_exact"]["value"]) == (1, 1)
    assert mine["safety"]["unsafe_commands"] == 0
    text = write_report(bot.parent / "r.json", bot.parent / "R.md")[0].read_text()
    assert f"| {bot}:Mine | One rule, one command |" in text


def test_a_bot_from_outside_never_sees_the_cluster_and_a_broken_one_is_wrong_not_missing(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(BROKEN)
    case = new_case(tmp_path / "c.yaml", "easy", "1", "S10")
    doc = run_bench(PLAIN, Wanted(tmp_path / "r.json", cases=case, arms=f"{tmp_path}/broken.py:Broken"), print)
    arm = doc["arms"][f"{tmp_path}/broken.py:Broken"]
    assert (arm["accuracy"]["value"], arm["crashed"]) == (0, 1)
    assert "AttributeError" in arm["why_crashed"][0]


@pytest.mark.parametrize("name", ["nowhere.py:Mine", "no_such_module_at_all:Mine", "pathlib:Path", "pathlib:Nothing"])
def test_a_bot_that_cannot_be_brought_in_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="--arms"):
        run_bench(PLAIN, Wanted(tmp_path / "r.json", layer="easy", n=1, arms=name), print)
