"""`rackmedic kb lessons|accept|retire|export|import`: what closed incidents taught, for whoever keeps the store, without Slack."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Final, get_args

from rich.table import Table
from rich.text import Text

from bot.refusal import Refusal
from bot.run.site import site_taxonomy
from bot.settings import Settings
from bot.store.lessons import Lessons
from bot.terminal.builds.drafts import cause_files, wrong_with_cause
from bot.terminal.edge import tell
from bot.terminal.paper import paper
from bot.terminal.stored import stored
from kb.history.lessons import (
    AT_TERMINAL,
    Lesson,
    LessonState,
    accepted,
    lesson_rows,
    read_lessons,
    restored,
    retired,
    seen_again,
    trust,
    twin_of,
)
from kb.history.mistakes import mistakes
from kb.redact import visible
from kb.taxonomy.labels import SYMPTOMS, Taxonomy

STATES: Final[tuple[str, ...]] = get_args(LessonState)
LARGEST: Final = 8 * 1024 * 1024
"""Bytes of a file of lessons; five hundred of the longest take a quarter of it."""


async def list_lessons(settings: Settings, state: str, today: date, *, as_json: bool) -> int:
    """A line each, with how far it is trusted."""
    if state and state not in STATES:
        raise Refusal(f"--state {state} is none of {', '.join(STATES)}", 2)
    async with stored(settings, "lessons") as store:
        rows = [one for one in await Lessons(store.redis).all() if not state or one.state == state]
    if as_json:
        items = [one.model_dump(mode="json", exclude={"by"}) | {"trust": trust(one, today)} for one in rows]
        tell(json.dumps({"schema": 1, "items": items}))
        return 0
    table = Table("id", "state", "trust", "right", "wrong", "label", "lesson", header_style="bold", box=None)
    for one in rows:
        label = one.label or "nobody said yet"
        trusted = f"{trust(one, today):.0%}" if one.state == "accepted" else ""
        table.add_row(one.id, one.state, trusted, str(len(one.right)), str(len(one.wrong)), label, Text(visible(one.title)))
    paper(whole=True).print(table if rows else Text("No incident has taught a lesson yet."))
    return 0


async def list_mistakes(settings: Settings, *, as_json: bool) -> int:
    """A line each; one that would have cost more looks than it saves is told and not used."""
    titles = site_taxonomy(settings.kb_dir).titles
    async with stored(settings, "lessons") as store:
        notes = mistakes(await Lessons(store.redis).all())
    if as_json:
        tell(json.dumps({"schema": 1, "items": [asdict(one) | {"used": one.kept} for one in notes]}))
        return 0
    table = Table("used", "saved", "detours", "note", header_style="bold", box=None)
    for one in notes:
        table.add_row("yes" if one.kept else "no", str(one.saved), str(one.detours), Text(one.says(titles)))
    paper(whole=True).print(table if notes else Text("Nothing was blamed wrongly twice, as far as accepted lessons tell."))
    return 0


async def accept(settings: Settings, lesson: str, today: date) -> int:
    """Take a draft, or one that was retired, into use. Raises Refusal."""
    async with stored(settings, "lessons") as store:
        lessons = Lessons(store.redis)
        row = await _known(lessons, lesson)
        twin = twin_of(row, await lessons.all()) if row.state == "draft" else None
        after = await lessons.change(lesson, lambda now: _accepted(now, twin, today))
        if twin:
            await lessons.change(twin.id, lambda now: seen_again(now, row.seen))
    return _say(after, "in use everywhere within two seconds" if not twin else f"counted with {twin.id}, which tells the same")


async def retire(settings: Settings, lesson: str, today: date) -> int:
    """Take one out of use. Raises Refusal."""
    async with stored(settings, "lessons") as store:
        lessons = Lessons(store.redis)
        await _known(lessons, lesson)
        after = await lessons.change(lesson, lambda now: _only(now, ("accepted",), lambda one: retired(one, AT_TERMINAL, today)))
    return _say(after, "used no more, everywhere within two seconds; `rackmedic kb accept` brings it back")


async def cause(settings: Settings, lesson: str, out: Path | None) -> int:
    """The draft of a leaf for what no label names: a file of causes that people complete, for the site's folder. Raises Refusal."""
    taxonomy = site_taxonomy(settings.kb_dir)
    async with stored(settings, "lessons") as store:
        row = await _known(Lessons(store.redis), lesson)
    entry = cause_of(row, taxonomy)
    if problems := wrong_with_cause(entry, settings.kb_dir):
        raise Refusal(f"the draft of {entry['label']} cannot be used: {problems[0]}")
    [text] = cause_files([entry]).values()
    if out is None:
        tell(text, end="")
        return 0
    _write(out, text)
    tell(
        f"{out}: {entry['label']}. Put it into taxonomy/ of RACKMEDIC_KB_DIR; then Edit of the lesson's card, or `kb accept`, can name it."
    )
    return 0


def cause_of(lesson: Lesson, taxonomy: Taxonomy) -> Mapping[str, object]:
    """An entry without a look that decides: nothing that was drafted can prove anything. Raises Refusal where none is proposed."""
    if not lesson.new_cause:
        raise Refusal(f"{lesson.id} proposes no new cause: a label names what it was, or nobody said what it was", 2)
    if lesson.new_cause in taxonomy.leaves:
        raise Refusal(f"{lesson.new_cause} is known already", 2)
    beside = [leaf for label, leaf in taxonomy.leaves.items() if label.rpartition(".")[0] == lesson.new_cause.rpartition(".")[0]]
    return {
        "label": lesson.new_cause,
        "title": lesson.new_title,
        "description": lesson.root_cause or lesson.new_title,
        "scope": beside[0].scope if beside else "node",
        "owner": beside[0].owner if beside else "provider",
        "symptoms": [one for one in lesson.symptoms if one in SYMPTOMS] or ["vague"],
        "words": [lesson.new_title.lower()],
        "only_words": True,
        "next_step": lesson.resolution or f"Compare it with {lesson.incident or lesson.id}; no look of ours shows it.",
        "share": 0.002,
        "share_from": f"one incident ({lesson.incident or lesson.id})",
        "sources": [lesson.incident or lesson.id],
    }


async def export(settings: Settings, out: Path | None, *, customers: bool) -> int:
    """Accepted lessons as lines of JSON. Those of one customer, and those that several are in, only where that is asked for."""
    async with stored(settings, "lessons") as store:
        every = await Lessons(store.redis).all()
    chosen = [one for one in every if customers or not (one.tenant or one.inside)]
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in lesson_rows(chosen))
    if out is None:
        tell(text, end="")
        return 0
    _write(out, text)
    left = len([one for one in every if one.state == "accepted"]) - text.count("\n")
    tell(
        f"{out}: {text.count(chr(10))} lessons" + (f"; {left} that concern customers stay here, --customers takes them too" if left else "")
    )
    return 0


async def import_lessons(settings: Settings, file: Path) -> int:
    """Lessons of another site, each a draft here. Exit 1 where a row was passed over, which is said."""
    labels = site_taxonomy(settings.kb_dir).leaves
    found, problems = read_lessons(_rows(file), labels)
    async with stored(settings, "lessons") as store:
        lessons = Lessons(store.redis)
        new = [one.id for one in found if await lessons.offer(one)]
    for problem in problems:
        tell(visible(problem))
    known = len(found) - len(new)
    tell(
        f"{len(new)} drafts taken in, {known} known already or without room, {len(problems)} passed over. `rackmedic kb accept ID` uses one."
    )
    return 1 if problems else 0


def _write(out: Path, text: str) -> None:
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as why:
        raise Refusal(f"--out {out}: {why.strerror or why}", 2) from why


def _rows(file: Path) -> Sequence[dict[str, object]]:
    try:
        if file.stat().st_size > LARGEST:
            raise Refusal(f"{file} is larger than {LARGEST >> 20} MiB", 2)
        lines = file.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as why:
        raise Refusal(f"{file} cannot be read: {why}", 2) from why
    return [_row(line) for line in lines if line.strip()]


def _row(line: str) -> dict[str, object]:
    """What is no row becomes an empty one, so that it is told with its number."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return row if isinstance(row, dict) else {}


async def _known(lessons: Lessons, lesson: str) -> Lesson:
    row = await lessons.get(lesson)
    if row is None:
        raise Refusal(f"there is no lesson {visible(lesson)}; `rackmedic kb lessons` lists them", 2)
    return row


def _accepted(now: Lesson, twin: Lesson | None, today: date) -> Lesson:
    if now.state == "draft" and not now.label:
        raise Refusal(f"nobody said yet which cause {now.id} was; its card in Slack has *Edit*", 2)
    return _only(
        now,
        ("draft", "retired"),
        lambda one: accepted(one, AT_TERMINAL, today, twin) if one.state == "draft" else restored(one, AT_TERMINAL, today),
    )


def _only(now: Lesson, states: Iterable[LessonState], change: Callable[[Lesson], Lesson]) -> Lesson:
    if now.state not in (given := tuple(states)):
        raise Refusal(f"{now.id} is {now.state}; this takes one that is {' or '.join(given)}", 2)
    return change(now)


def _say(after: Lesson | None, what: str) -> int:
    if after is None:
        raise Refusal("it was taken away meanwhile", 2)
    tell(f"{after.id}: {after.state}, {what}")
    return 0
