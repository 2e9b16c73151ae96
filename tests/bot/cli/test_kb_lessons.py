"""Lessons from the terminal: list, accept, retire, and export to another site without tenant data."""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from fakeredis import FakeAsyncRedis

from bot.app.lessons import LessonFollower
from bot.lessons.store import LessonStore
from bot.store.store import open_store
from kb.history.index import PastIncidentIndex
from kb.history.lessons import AT_TERMINAL, Lesson
from tests.support.clock import T0, SetClock
from tests.support.lessons import OLD, a_lesson
from tests.support.terminal import Ran, rackmedic

needs_redis = pytest.mark.skipif(shutil.which("redis-server") is None, reason="NO redis-server ON PATH: apt-get install redis-server")
FELL = "GPU.BUS.Fallen_Off_Bus"


class Place:
    """A site, identified by its data folder."""

    def __init__(self, folder: Path, *lessons: Lesson) -> None:
        self.folder = folder
        asyncio.run(self._offer(lessons))

    async def _offer(self, lessons: tuple[Lesson, ...]) -> None:
        store = await open_store(None, self.folder)
        for one in lessons:
            await LessonStore(store.redis).add_lesson(one)
        await store.aclose()

    def says(self, *words: str) -> Ran:
        return rackmedic("kb", *words, environ={"RACKMEDIC_DATA_DIR": str(self.folder)})

    def rows(self, *words: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = json.loads(self.says("lessons", "--json", *words).stdout)["items"]
        return items


@needs_redis
def test_a_draft_is_used_retired_and_brought_back(tmp_path: Path) -> None:
    here = Place(tmp_path, a_lesson(label=FELL, title="job \x1b[2Jhangs"), a_lesson("les-blank", label=""))
    shown = here.says("lessons")
    assert "not named yet" in shown.stdout
    assert "\x1b" not in shown.stdout
    for word, state in (("accept", "accepted"), ("retire", "retired"), ("accept", "accepted")):
        ran = here.says(word, "les-4f2a")
        assert (ran.returncode, state in ran.stdout) == (0, True), ran.stderr
    assert [row["id"] for row in here.rows("--state", "accepted")] == ["les-4f2a"]
    for words, why in (
        (("accept", "les-4f2a"), "les-4f2a is accepted; this takes one that is draft or retired"),
        (("retire", "les-blank"), "this takes one that is accepted"),
        (("accept", "les-blank"), "les-blank names no cause yet"),
        (("retire", "les-none"), "there is no lesson les-none"),
        (("lessons", "--state", "gone"), "none of draft"),
    ):
        ran = here.says(*words)
        assert (ran.returncode, why in ran.stderr) == (2, True), ran.stderr


@needs_redis
def test_a_twin_is_counted_with_the_earlier_one(tmp_path: Path) -> None:
    here = Place(tmp_path, a_lesson("les-early", label=FELL, state="accepted"), a_lesson("les-late", label=FELL))
    assert "counted with les-early" in here.says("accept", "les-late").stdout
    assert [(row["id"], row["state"], row.get("seen", 1)) for row in here.rows()] == [
        ("les-early", "accepted", 2),
        ("les-late", "folded", 1),
    ]


@needs_redis
def test_what_is_exported_is_a_draft_elsewhere_and_customers_stay_here(tmp_path: Path) -> None:
    here = Place(
        tmp_path / "here",
        a_lesson("les-a", label=FELL, state="accepted", by="T1:U1", right=("inc-1",)),
        a_lesson("les-b", label=FELL, state="accepted", tenant="acme", title="acme's own"),
        a_lesson("les-c", label=FELL, state="accepted", inside=True, title="of several"),
        a_lesson("les-d", label=FELL),
    )
    file = tmp_path / "lessons.jsonl"
    assert "1 lessons; 2 that concern customers stay here" in here.says("export", "--out", str(file)).stdout
    assert "acme" not in file.read_text()
    assert "U1" not in file.read_text()
    assert len(here.says("export", "--customers").stdout.splitlines()) == 3
    with file.open("a") as more:
        more.write('{half\n{"id": "x"}\n' + json.dumps({**json.loads(file.read_text()), "id": "les-z", "label": "NO.SUCH.Label"}) + "\n")
    there = Place(tmp_path / "there")
    ran = there.says("import", str(file))
    assert ran.returncode == 1
    assert "1 drafts taken in, 0 already known or over the limit, 3 skipped" in ran.stdout
    assert "unknown label 'NO.SUCH.Label'" in ran.stdout
    assert [(row["id"], row.get("state", "draft"), row.get("right", [])) for row in there.rows()] == [("les-a", "draft", [])]
    assert "0 drafts taken in, 1 already known" in there.says("import", str(file)).stdout
    assert there.says("import", str(tmp_path / "none")).returncode == 2


async def test_a_decision_in_the_terminal_updates_the_card_in_a_running_process() -> None:
    shown: list[str] = []

    async def show(lesson: Lesson) -> None:
        shown.append(f"{lesson.id} {lesson.state}")

    async with FakeAsyncRedis() as redis:
        lessons, following = LessonStore(redis), LessonFollower(LessonStore(redis), PastIncidentIndex(), SetClock(), show)
        await lessons.add_lesson(a_lesson(label=OLD))
        await following.catch_up()
        for state, by in (("accepted", AT_TERMINAL), ("retired", AT_TERMINAL), ("accepted", "T1:U1")):
            await lessons.update_lesson(
                "les-4f2a",
                lambda now, s=state, b=by: now.model_copy(update={"state": s, "by": b, "settled": T0.date()}),  # type: ignore[misc]
            )
            await following.catch_up()
    assert shown == ["les-4f2a accepted", "les-4f2a retired"], "a click draws its card itself"


@needs_redis
def test_what_was_blamed_wrongly_twice_is_listed_and_once_is_not(tmp_path: Path) -> None:
    port = "INTERCONNECT.IB.Port_Down"
    here = Place(tmp_path, a_lesson("les-1", label=FELL, state="accepted", misled=(port,)))
    assert "Nothing was blamed wrongly twice" in here.says("mistakes").stdout
    here = Place(tmp_path, a_lesson("les-2", label=FELL, state="accepted", misled=(port,), incident="inc-2", title="other words"))
    [note] = json.loads(here.says("mistakes", "--json").stdout)["items"]
    assert (note["blamed"], note["was"], note["saved"], note["used"]) == (port, FELL, 2, True)
    assert "Before blaming" in here.says("mistakes").stdout


@needs_redis
def test_a_new_cause_that_a_lesson_proposes_becomes_a_file_of_the_sites(tmp_path: Path) -> None:
    new = {"label": "", "new_cause": "INTERCONNECT.NVLINK.Bent_Pin", "new_title": "A pin of the baseboard is bent"}
    here = Place(tmp_path / "data", a_lesson(**new), a_lesson("les-known"))
    folder = tmp_path / "kb" / "taxonomy"
    folder.mkdir(parents=True)
    ran = here.says("cause", "les-4f2a", "--out", str(folder / "ours.yaml"))
    assert (ran.returncode, "INTERCONNECT.NVLINK.Bent_Pin" in ran.stdout) == (0, True), ran.stderr
    known = rackmedic("taxonomy", "--json", environ={"RACKMEDIC_KB_DIR": str(tmp_path / "kb")})
    [row] = [row for row in json.loads(known.stdout)["items"] if row["id"] == "INTERCONNECT.NVLINK.Bent_Pin"]
    assert (row["title"], row["only_words"]) == ("A pin of the baseboard is bent", True)
    refused = here.says("cause", "les-known")
    assert (refused.returncode, "proposes no new cause" in refused.stderr) == (2, True)
