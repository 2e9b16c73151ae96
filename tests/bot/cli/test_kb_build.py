"""`rackmedic kb build` turns exports into a folder for review; output is byte-identical, also after a kill, and loses
nothing.
"""

import fcntl
import json
from pathlib import Path

import pytest
import yaml

from bot.cli.kb.build_command import build_folder
from bot.refusal import Refusal
from bot.settings import load_settings
from kb.history.incidents import load_seeds
from kb.history.site_pages import load_pages
from kb.taxonomy.loader import load_taxonomy
from tests.support.terminal import rackmedic

SITE = load_settings(environ={})
BUS = {
    "id": "INC-1", "title": "gpu-017 lost a card", "created": "2024-03-02T10:00:00Z", "url": "https://example.com/1",
    "description": "Training died, nvidia-smi shows 7 GPUs. dmesg: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.",
    "comments": [{"author": "Ada", "body": "Same slot as last week?"}, {"author": "Bob", "body": "Root cause: the riser. Fixed by reseating it."}],
}  # fmt: skip
DISK = {**BUS, "id": "INC-2", "title": "No space left on device | <b>", "created": "2024-01-02T10:00:00Z",
        "description": "Checkpoints fail: OSError: [Errno 28] No space left on device: '/tmp'; df shows / at 100%.",
        "comments": [{"author": "Eve `x`", "body": "The problem was that the root disk was full of old logs."}]}  # fmt: skip
VAGUE = {"id": "INC-3", "title": "help", "description": "it broke"}
OPEN = {**BUS, "id": "INC-4", "title": "another lost card", "comments": []}


@pytest.fixture
def export(tmp_path: Path) -> Path:
    path = tmp_path / "ours.jsonl"
    path.write_text("\n".join([*map(json.dumps, (BUS, DISK, VAGUE, OPEN)), json.dumps({**BUS, "id": "INC-5"}), "{half"]))
    return path


def files(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file() and path.name != "lock"}


def test_what_is_built_can_be_used_as_it_stands(export: Path, tmp_path: Path) -> None:
    (tmp_path / "wiki").mkdir()
    (tmp_path / "wiki" / "mlx.md").write_text("# Which port\nmlx5_1 is the control plane on this SKU.\n")
    out = tmp_path / "out"
    ran = rackmedic("kb", "build", str(export), str(tmp_path / "wiki"), "--out", str(out), "--json")
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert (told["labelled"], told["doubtful"], told["dropped"], told["pages"]) == (2, 1, 2, 1)
    assert [one.partition(": ")[0] for one in told["unread"]] == ["ours.jsonl:6"]
    disk, bus = load_seeds(out / "incidents", load_taxonomy().leaves)
    assert (bus.label, bus.root_cause, bus.source_url) == ("GPU.BUS.Fallen_Off_Bus", "Root cause: the riser.", "https://example.com/1")
    assert disk.label == "SYSTEM_SOFTWARE.STORAGE.Root_FS_Full"
    assert [page.title for page in load_pages(out / "pages")] == ["Which port"]
    assert rackmedic("kb", "lint", str(out)).returncode == 0


def test_the_review_lists_doubtful_and_dropped_rows_without_markup(export: Path, tmp_path: Path) -> None:
    build_folder(SITE, [export], tmp_path / "out", (), as_json=True)
    page = (tmp_path / "out" / "REVIEW.md").read_text()
    assert "INC\\-4 “another lost card”: nobody says what the cause was; nearest `GPU.BUS.Fallen_Off_Bus`" in page
    assert "INC\\-3: says too little" in page
    assert "INC\\-5: told before, in the same words" in page
    assert "(Eve \\`x\\`)" in page
    assert "<b>" not in page.replace("\\<b\\>", "")
    assert "2024-01 █" in page
    assert (tmp_path / "out" / "labels-by-month.png").read_bytes()[:4] == b"\x89PNG"


def test_a_build_that_was_killed_goes_on_and_ends_in_the_same_bytes(export: Path, tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    build_folder(SITE, [export], whole, (), as_json=True)
    journal = (whole / ".build" / "rows.jsonl").read_bytes()
    for cut in (0, 10, journal.index(b"\n") + 1, journal.index(b"\n") + 200, len(journal) - 1):
        out = killed / str(cut)
        (out / ".build").mkdir(parents=True)
        (out / ".build" / "rows.jsonl").write_bytes(journal[:cut])
        build_folder(SITE, [export], out, (), as_json=True)
        assert files(out) == files(whole)


def test_rows_of_the_journal_are_not_labelled_again(export: Path, tmp_path: Path) -> None:
    build_folder(SITE, [export], tmp_path / "a", (), as_json=True)
    kept = tmp_path / "b" / ".build"
    kept.mkdir(parents=True)
    journal = (tmp_path / "a" / ".build" / "rows.jsonl").read_text()
    (kept / "rows.jsonl").write_text(journal.replace("Root cause: the riser.", "As the journal has it."))
    build_folder(SITE, [export], tmp_path / "b", (), as_json=True)
    [file] = (tmp_path / "b" / "incidents").glob("*.yaml")
    assert yaml.safe_load(file.read_text())["incidents"][1]["root_cause"] == "As the journal has it."


def test_two_builds_into_one_folder_are_refused_and_so_is_what_is_no_build(export: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / ".build").mkdir(parents=True)
    with (out / ".build" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(Refusal, match="another build"):
            build_folder(SITE, [export], out, (), as_json=True)
    build_folder(SITE, [export], out, (), as_json=True)
    before = files(out)
    with pytest.raises(Refusal, match="finished build"):
        build_folder(SITE, [export], out, (), as_json=True)
    assert files(out) == before
    with pytest.raises(Refusal, match="of no build"):
        build_folder(SITE, [export], tmp_path, (), as_json=True)


def test_a_broken_off_build_of_something_else_is_not_gone_on_with(export: Path, tmp_path: Path) -> None:
    build_folder(SITE, [export], tmp_path / "out", (), as_json=True)
    (tmp_path / "out" / ".build" / "done").unlink()
    export.write_text(json.dumps(DISK))
    with pytest.raises(Refusal, match="other exports"):
        build_folder(SITE, [export], tmp_path / "out", (), as_json=True)


@pytest.mark.parametrize(
    ("words", "says"),
    [(("--map", "Betreff"), "COLUMN=FIELD"), (("--map", "Betreff=colour"), "one of id, title"), ((), "is not there")],
)
def test_what_cannot_be_done_is_said(tmp_path: Path, words: tuple[str, ...], says: str) -> None:
    ran = rackmedic("kb", "build", str(tmp_path / "none.json"), "--out", str(tmp_path / "out"), *words)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert says in ran.stderr


def test_a_folder_that_cannot_be_written_is_said(export: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Refusal, match="Not a directory"):
        build_folder(SITE, [export], tmp_path / "file" / "out", (), as_json=True)


def test_a_guide_that_is_plainly_about_one_cause_is_shown_with_it_and_a_vague_one_by_its_words(tmp_path: Path) -> None:
    wiki = tmp_path / "wiki"
    wiki.mkdir()
    (wiki / "bus.md").write_text("# GPU fell off the bus\nXid 79, GPU has fallen off the bus: press the riser home, then reset the slot.\n")
    (wiki / "desk.md").write_text("# Desk rota\nOn Mondays Ada has the desk, and on Fridays Bob.\n")
    build_folder(SITE, [wiki], tmp_path / "out", (), as_json=True)
    assert {page.title: page.labels for page in load_pages(tmp_path / "out" / "pages", load_taxonomy().leaves)} == {
        "GPU fell off the bus": ("GPU.BUS.Fallen_Off_Bus",),
        "Desk rota": (),
    }


@pytest.mark.parametrize("text", ["hello", '{"a": ', '[{"id": 1, "title"', "<html></html>", "not, json", '"only a string"', "\ufeffx"])
def test_a_file_that_is_no_json_is_refused_by_its_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "broken.json"
    path.write_text(text)
    ran = rackmedic("kb", "build", str(path), "--out", str(tmp_path / "out"))
    assert ran.returncode == 2
    assert "broken.json" in ran.stderr
    assert "can be read" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_the_cause_in_the_notes_of_a_csv_is_kept(tmp_path: Path) -> None:
    path, out = tmp_path / "tickets.csv", tmp_path / "out"
    path.write_text('id,title,notes\n1,GPU lost on n1,"Node died overnight. Root cause: GPU fell off the PCIe bus. Reset it."\n')
    build_folder(SITE, [path], out, (), as_json=True)
    [row] = load_seeds(out / "incidents", load_taxonomy().leaves)
    assert (row.label, row.root_cause) == ("GPU.BUS.Fallen_Off_Bus", "Root cause: GPU fell off the PCIe bus.")
