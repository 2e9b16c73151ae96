"""`rackmedic kb lessons|accept|retire|export|import`, without Slack."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Final, get_args

from rich.text import Text

from bot.app.site_files import load_site_taxonomy
from bot.cli.command_runtime import print_text
from bot.cli.kb.built_folder import find_cause_problems, render_cause_files
from bot.cli.persistent_store import open_persistent_store
from bot.cli.safe_console import build_text_table, open_table_console
from bot.lessons.store import LessonStore
from bot.refusal import Refusal
from bot.settings import Settings
from kb.history.lessons import (
    AT_TERMINAL,
    Lesson,
    LessonState,
    accept_lesson,
    build_lesson_rows,
    compute_trust,
    count_seen_again,
    find_duplicate_lesson,
    find_mistakes,
    parse_lessons,
    restore_lesson,
    retire_lesson,
)
from kb.redact import show_invisible
from kb.taxonomy.taxonomy import SYMPTOMS, Taxonomy

STATES: Final[tuple[str, ...]] = get_args(LessonState)
MAX_LESSONS_BYTES: Final = 8 * 1024 * 1024  # size of a file; five hundred of the longest lessons take a quarter


async def print_lessons(settings: Settings, state: str, today: date, *, as_json: bool) -> int:
    if state and state not in STATES:
        raise Refusal(f"--state {state} is none of {', '.join(STATES)}", 2)
    async with open_persistent_store(settings, "lessons") as store:
        rows = [one for one in await LessonStore(store.redis).list_lessons() if not state or one.state == state]
    if as_json:
        items = [one.model_dump(mode="json", exclude={"by"}) | {"trust": compute_trust(one, today)} for one in rows]
        print_text(json.dumps({"schema": 1, "items": items}))
        return 0
    cells = []
    for row in rows:
        label = row.label or "not named yet"
        trusted = f"{compute_trust(row, today):.0%}" if row.state == "accepted" else ""
        cells.append((row.id, row.state, trusted, str(len(row.right)), str(len(row.wrong)), f"{row.title}\n{label}"))
    table = build_text_table(("id", "state", "trust", "right", "wrong", "lesson, and its label"), cells)
    open_table_console().print(table if rows else Text("No incident has taught a lesson yet."))
    return 0


async def print_mistakes(settings: Settings, *, as_json: bool) -> int:
    """Print notes on wrong blame; one that costs more checks than it saves is unused."""
    titles = load_site_taxonomy(settings.kb_dir).titles
    async with open_persistent_store(settings, "lessons") as store:
        notes = find_mistakes(await LessonStore(store.redis).list_lessons())
    if as_json:
        print_text(json.dumps({"schema": 1, "items": [asdict(one) | {"used": one.is_useful} for one in notes]}))
        return 0
    cells = [("yes" if one.is_useful else "no", str(one.saved), str(one.detours), one.format_sentence(titles)) for one in notes]
    table = build_text_table(("used", "saved", "detours", "note"), cells)
    open_table_console().print(table if notes else Text("Nothing was blamed wrongly twice, as far as accepted lessons tell."))
    return 0


async def accept_stored_lesson(settings: Settings, lesson: str, today: date) -> int:
    """Accept a draft or restore a retired lesson. Raises Refusal."""
    async with open_persistent_store(settings, "lessons") as store:
        lessons = LessonStore(store.redis)
        row = await _get_lesson(lessons, lesson)
        twin = find_duplicate_lesson(row, await lessons.list_lessons()) if row.state == "draft" else None
        after = await lessons.update_lesson(lesson, lambda now: _apply_acceptance(now, twin, today))
        if twin:
            await lessons.update_lesson(twin.id, lambda now: count_seen_again(now, row.seen))
    return _print_change(after, "in use everywhere within two seconds" if not twin else f"counted with {twin.id}, which tells the same")


async def retire_stored_lesson(settings: Settings, lesson: str, today: date) -> int:
    async with open_persistent_store(settings, "lessons") as store:
        lessons = LessonStore(store.redis)
        await _get_lesson(lessons, lesson)
        after = await lessons.update_lesson(
            lesson, lambda now: _change_if_in_state(now, ("accepted",), lambda one: retire_lesson(one, AT_TERMINAL, today))
        )
    return _print_change(after, "retired in every process within two seconds; `rackmedic kb accept` restores it")


async def draft_cause(settings: Settings, lesson: str, out: Path | None) -> int:
    """Write a taxonomy draft of the proposed cause. Raises Refusal."""
    taxonomy = load_site_taxonomy(settings.kb_dir)
    async with open_persistent_store(settings, "lessons") as store:
        row = await _get_lesson(LessonStore(store.redis), lesson)
    entry = build_cause_entry(row, taxonomy)
    if problems := find_cause_problems(entry, settings.kb_dir):
        raise Refusal(f"the draft of {entry['label']} cannot be used: {problems[0]}")
    [text] = render_cause_files([entry]).values()
    if out is None:
        print_text(text, end="")
        return 0
    _write_file(out, text)
    print_text(
        f"{out}: {entry['label']}. Put it into taxonomy/ of RACKMEDIC_KB_DIR; then Edit of the lesson's card, or `kb accept`, can name it."
    )
    return 0


def build_cause_entry(lesson: Lesson, taxonomy: Taxonomy) -> Mapping[str, object]:
    """Return an entry without decisive evidence: a draft proves nothing. Raises Refusal."""
    if not lesson.new_cause:
        raise Refusal(f"{lesson.id} proposes no new cause: it has a label already, or no cause", 2)
    if lesson.new_cause in taxonomy.leaves:
        raise Refusal(f"{lesson.new_cause} is known already", 2)
    sibling_leaves = [leaf for label, leaf in taxonomy.leaves.items() if label.rpartition(".")[0] == lesson.new_cause.rpartition(".")[0]]
    return {
        "label": lesson.new_cause,
        "title": lesson.new_title,
        "description": lesson.root_cause or lesson.new_title,
        "scope": sibling_leaves[0].scope if sibling_leaves else "node",
        "owner": sibling_leaves[0].owner if sibling_leaves else "provider",
        "symptoms": [one for one in lesson.symptoms if one in SYMPTOMS] or ["vague"],
        "words": [lesson.new_title.lower()],
        "only_words": True,
        "next_step": lesson.resolution or f"Compare it with {lesson.incident or lesson.id}; no look of ours shows it.",
        "share": 0.002,
        "share_from": f"one incident ({lesson.incident or lesson.id})",
        "sources": [lesson.incident or lesson.id],
    }


async def export_lessons(settings: Settings, out: Path | None, *, customers: bool) -> int:
    """Write accepted lessons as JSON lines; those of tenants only with `customers`."""
    async with open_persistent_store(settings, "lessons") as store:
        lessons = await LessonStore(store.redis).list_lessons()
    chosen = [one for one in lessons if customers or not (one.tenant or one.inside)]
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in build_lesson_rows(chosen))
    if out is None:
        print_text(text, end="")
        return 0
    _write_file(out, text)
    invalid_count = len([one for one in lessons if one.state == "accepted"]) - text.count("\n")
    print_text(
        f"{out}: {text.count(chr(10))} lessons"
        + (f"; {invalid_count} that concern customers stay here, --customers takes them too" if invalid_count else "")
    )
    return 0


async def import_lessons(settings: Settings, file: Path) -> int:
    """Import lessons as drafts; return 1 if rows were skipped."""
    labels = load_site_taxonomy(settings.kb_dir).leaves
    parsed_lessons, problems = parse_lessons(_read_rows(file), labels)
    async with open_persistent_store(settings, "lessons") as store:
        lessons = LessonStore(store.redis)
        new = [one.id for one in parsed_lessons if await lessons.add_lesson(one)]
    for problem in problems:
        print_text(show_invisible(problem))
    known_count = len(parsed_lessons) - len(new)
    print_text(
        f"{len(new)} drafts taken in, {known_count} already known or over the limit, {len(problems)} skipped. `rackmedic kb accept ID` uses one."
    )
    return 1 if problems else 0


def _write_file(out: Path, text: str) -> None:
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Refusal(f"--out {out}: {error.strerror or error}", 2) from error


def _read_rows(file: Path) -> Sequence[dict[str, object]]:
    try:
        if file.stat().st_size > MAX_LESSONS_BYTES:
            raise Refusal(f"{file} is larger than {MAX_LESSONS_BYTES >> 20} MiB", 2)
        lines = file.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise Refusal(f"{file} cannot be read: {error}", 2) from error
    return [_parse_row(line) for line in lines if line.strip()]


def _parse_row(line: str) -> dict[str, object]:
    """Return {} if malformed, so that it is reported by number."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return row if isinstance(row, dict) else {}


async def _get_lesson(lessons: LessonStore, lesson: str) -> Lesson:
    row = await lessons.get_lesson(lesson)
    if row is None:
        raise Refusal(f"there is no lesson {show_invisible(lesson)}; `rackmedic kb lessons` lists them", 2)
    return row


def _apply_acceptance(lesson: Lesson, twin: Lesson | None, today: date) -> Lesson:
    if lesson.state == "draft" and not lesson.label:
        raise Refusal(f"{lesson.id} names no cause yet; press *Edit* on its card in Slack", 2)
    return _change_if_in_state(
        lesson,
        ("draft", "retired"),
        lambda one: accept_lesson(one, AT_TERMINAL, today, twin) if one.state == "draft" else restore_lesson(one, AT_TERMINAL, today),
    )


def _change_if_in_state(lesson: Lesson, states: Iterable[LessonState], change: Callable[[Lesson], Lesson]) -> Lesson:
    if lesson.state not in (allowed_states := tuple(states)):
        raise Refusal(f"{lesson.id} is {lesson.state}; this takes one that is {' or '.join(allowed_states)}", 2)
    return change(lesson)


def _print_change(after: Lesson | None, what: str) -> int:
    if after is None:
        raise Refusal("it was taken away meanwhile", 2)
    print_text(f"{after.id}: {after.state}, {what}")
    return 0
