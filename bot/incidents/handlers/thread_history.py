"""A thread's messages before the mention, within bounds; the text says what is omitted.

Our own messages are excluded: examples in a refusal are not evidence.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slack_sdk.web.async_client import AsyncWebClient

from bot.incidents.handlers.slack_markup import render_plain_text
from bot.slack.client import SLACK_ERRORS
from bot.slack.payloads import MAX_FILES, Payload, SlackFile, get_full_text, parse_files
from kb.numbers import parse_seconds

PAGE_SIZE = 200
MAX_PAGES = 5
MAX_TIMESTAMP_SECONDS = 1e10
MAX_PROSE_CHARS = 3000  # Prose, so that the mention still fits the item
MAX_TOTAL_CHARS = 200_000  # everything with pasted blocks


@dataclass(frozen=True, slots=True)
class EarlierMessages:
    """Plain text and files."""

    text: str = ""
    files: tuple[SlackFile, ...] = ()


async def fetch_earlier_messages(client: AsyncWebClient, where: Mapping[str, Any] | None, us: str) -> EarlierMessages:
    """Return the messages of `where` = {channel, ts, upto}. A Slack error is put into the text."""
    if not where:
        return EarlierMessages()
    try:
        messages, more = await _fetch_messages(client, str(where["channel"]), str(where["ts"]), str(where.get("upto") or ""))
    except SLACK_ERRORS as error:
        return EarlierMessages(f"[the beginning of this thread could not be read: {format_slack_error(error)}]")
    said = combine_messages([message for message in messages if not us or message.get("user") != us])
    note = f"\n\n[only the first {len(messages):,} messages of this thread were read]" if more else ""
    return EarlierMessages(said.text + note, said.files)


async def _fetch_messages(client: AsyncWebClient, channel: str, ts: str, upto: str) -> tuple[list[Payload], bool]:
    found: list[Payload] = []
    cursor = ""
    for _ in range(MAX_PAGES):
        answer = await client.conversations_replies(channel=channel, ts=ts, limit=PAGE_SIZE, latest=upto or None, cursor=cursor or None)
        found += [
            row
            for row in answer.get("messages") or []
            if not upto or _get_timestamp(row) < (parse_seconds(upto, MAX_TIMESTAMP_SECONDS) or 0)
        ]
        cursor = str((answer.get("response_metadata") or {}).get("next_cursor") or "")
        if not cursor:
            break
    return found, bool(cursor)


def combine_messages(messages: Sequence[Payload]) -> EarlierMessages:
    """Return the first message and the latest that fit, with a note in the gap."""
    if not messages:
        return EarlierMessages()
    texts = [render_plain_text(get_full_text(message)) for message in messages]
    words, room = MAX_PROSE_CHARS - _count_prose_chars(texts[0]), MAX_TOTAL_CHARS - len(texts[0])
    start = len(texts)
    while start > 1 and _count_prose_chars(texts[start - 1]) <= words and len(texts[start - 1]) <= room:
        start -= 1
        words, room = words - _count_prose_chars(texts[start]), room - len(texts[start])
    gap = [f"[{start - 1} messages of this thread were left out here]"] if start > 1 else []
    files = tuple(file for message in messages for file in parse_files(message))
    return EarlierMessages("\n\n".join(part for part in (texts[0][:MAX_TOTAL_CHARS], *gap, *texts[start:]) if part), files[:MAX_FILES])


def _get_timestamp(message: Payload) -> float:
    return parse_seconds(message.get("ts"), MAX_TIMESTAMP_SECONDS) or 0


def _count_prose_chars(text: str) -> int:
    """Count characters outside code blocks."""
    return len("".join(text.split("```")[::2]))


def format_slack_error(trouble: BaseException) -> str:
    return " ".join(str(trouble).split())[:120] or type(trouble).__name__
