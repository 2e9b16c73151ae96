"""Read a Slack export: a folder per channel, a file per day. An answered or long message is an incident."""

from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from typing import Any, Final

from kb.exports.files import READ_ERRORS, FileTree
from kb.exports.json_stream import iter_json_values, open_text
from kb.exports.row import MAX_MESSAGES, ExportRow, UnreadRow, parse_export_row

SLACK_EXPORT_FILES: Final = ("channels.json", "users.json")  # top-level files of a Slack export
_MIN_UNANSWERED_CHARS: Final = 80  # shorter unanswered messages are not reports


def is_slack_export(names: frozenset[str]) -> bool:
    """Return whether these are the files of a Slack export."""
    return any(name in names for name in SLACK_EXPORT_FILES) and any(name.count("/") == 1 and name.endswith(".json") for name in names)


def iter_slack_rows(tree: FileTree, begins: Callable[[str], str]) -> Iterator[ExportRow | UnreadRow]:
    """Yield every thread. `begins` converts a file name to a location for people."""
    names = [name for name in tree.iter_names() if name.count("/") == 1 and name.endswith(".json")]
    people = _read_people(tree)
    for channel, days in groupby(names, lambda name: name.partition("/")[0]):
        threads: dict[str, list[dict[str, str]]] = {}
        for day in days:
            yield from _read_day(tree, day, begins(day), people, threads)
        for ts, messages in threads.items():
            if len(messages) > 1 or len(messages[0]["text"]) >= _MIN_UNANSWERED_CHARS:
                yield parse_export_row({"id": f"{channel}/{ts}", "ts": ts, **messages[0], "messages": messages[1:]}, f"{channel}/{ts}")


def _read_day(
    tree: FileTree, day: str, where: str, people: Mapping[str, str], threads: dict[str, list[dict[str, str]]]
) -> Iterator[UnreadRow]:
    try:
        with tree.open_file(day) as raw, open_text(raw) as text:
            for line, message in iter_json_values(text):
                if not isinstance(message, dict) or not isinstance(message.get("text"), str):
                    yield UnreadRow(f"{where}:{line}", str(message) if isinstance(message, ValueError) else "it has no text")
                    continue
                if (
                    message.get("subtype") in ("channel_join", "channel_leave", "channel_topic", "channel_purpose")
                    or not message["text"].strip()
                ):
                    continue
                thread = threads.setdefault(str(message.get("thread_ts") or message.get("ts")), [])
                if len(thread) < MAX_MESSAGES:
                    user = str(message.get("user") or message.get("username") or "")
                    thread.append({"author": people.get(user, user), "text": message["text"][:20_000]})
    except READ_ERRORS as error:
        yield UnreadRow(where, f"cannot be read: {error}")


def _read_people(tree: FileTree) -> dict[str, str]:
    try:
        with tree.open_file("users.json") as raw, open_text(raw) as text:
            people: list[Any] = [one for _, one in iter_json_values(text) if isinstance(one, dict)]
    except (*READ_ERRORS, KeyError):
        return {}
    return {str(person.get("id")): str(person.get("real_name") or person.get("name") or "")[:80] for person in people}
