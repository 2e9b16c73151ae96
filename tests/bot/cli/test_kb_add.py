"""`rackmedic kb add` validates one past incident and stores it."""

from pathlib import Path

import pytest

from kb.history.incidents import load_seeds
from kb.taxonomy.loader import load_taxonomy
from tests.support.terminal import Ran, rackmedic

GIVEN = {
    "title": "gpu-017 lost a card after the move",
    "seen": "nvidia-smi shows seven",
    "label": "GPU.BUS.Fallen_Off_Bus",
    "cause": "the riser, password=hunter22",
    "fix": "reseated",
    "source": "https://example.com/1",
    "year": "2025",
}


def added(to: Path, **other: str) -> Ran:
    return rackmedic("kb", "add", "--to", str(to), *(word for name, said in (GIVEN | other).items() for word in (f"--{name}", said)))


def test_it_is_kept_beside_the_earlier_ones_and_recalled(tmp_path: Path) -> None:
    assert added(tmp_path).returncode == 0
    assert added(tmp_path, title="another one").returncode == 0
    first, second = load_seeds(tmp_path / "incidents", load_taxonomy().leaves)
    assert (first.id, first.year, second.title) == ("ours-gpu-017-lost-a-card-after-the-move", 2025, "another one")
    assert "hunter22" not in first.root_cause
    found = rackmedic("kb", "search", "lost a card after the move", environ={"RACKMEDIC_KB_DIR": str(tmp_path)})
    assert "ours-gpu-017-lost-a-card-after-the-move" in found.stdout


@pytest.mark.parametrize(
    ("other", "says"),
    [
        ({"label": "GPU.BUS.Fallen"}, "--label GPU.BUS.Fallen is no label; near it: GPU.BUS.Fallen_Off_Bus"),
        ({"check": "no_such"}, "--check no_such is no check"),
        ({"source": "http://example.com"}, "not an https address"),
        ({"year": "12"}, "year"),
        ({"cause": ""}, "root_cause"),
    ],
)
def test_what_cannot_be_kept_is_named(tmp_path: Path, other: dict[str, str], says: str) -> None:
    ran = added(tmp_path / "kb", **other)
    assert (ran.returncode, says in ran.stderr) == (2, True), ran.stderr
    assert not (tmp_path / "kb").exists()


def test_the_same_title_twice_is_refused_and_nothing_is_lost(tmp_path: Path) -> None:
    added(tmp_path)
    ran = added(tmp_path)
    assert (ran.returncode, "is known already" in ran.stderr) == (2, True)
    assert len(load_seeds(tmp_path / "incidents")) == 1
