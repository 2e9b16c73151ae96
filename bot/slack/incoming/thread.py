"""What was said in a thread before somebody called us in: read whole, as far as bounds on messages, words and files go.

What is left out is said in the text. Our own messages are no evidence: a refusal of ours gives examples that nobody complained about.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slack_sdk.web.async_client import AsyncWebClient

from bot.slack.client import SLACK_TROUBLE
from bot.slack.incoming.grammar import people_see
from bot.slack.incoming.payloads import MOST_FILES, Payload, Sent, read_files, whole_text
from kb.numbers import seconds

PAGE, MOST_PAGES = 200, 5
LATEST = 1e10
MOST_WORDS, MOST_TEXT = 3000, 200_000
"""Characters: of words, so that those of whoever called us still fit an item, and of everything with what was pasted."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """What came before, as people see it, and the files that came with it."""

    text: str = ""
    files: tuple[Sent, ...] = ()


async def earlier(client: AsyncWebClient, where: Mapping[str, Any] | None, us: str) -> Earlier:
    """The messages of the thread `where` = {channel, ts, upto} before `upto`; nothing without one. What Slack refuses is said in the text."""
    if not where:
        return Earlier()
    try:
        messages, more = await _messages(client, str(where["channel"]), str(where["ts"]), str(where.get("upto") or ""))
    except SLACK_TROUBLE as trouble:
        return Earlier(f"[the beginning of this thread could not be read: {short(trouble)}]")
    said = told([message for message in messages if not us or message.get("user") != us])
    note = f"\n\n[only the first {len(messages):,} messages of this thread were read]" if more else ""
    return Earlier(said.text + note, said.files)


async def _messages(client: AsyncWebClient, channel: str, ts: str, upto: str) -> tuple[list[Payload], bool]:
    """Oldest first, and whether there are more than we take."""
    found: list[Payload] = []
    cursor = ""
    for _ in range(MOST_PAGES):
        answer = await client.conversations_replies(channel=channel, ts=ts, limit=PAGE, latest=upto or None, cursor=cursor or None)
        found += [row for row in answer.get("messages") or [] if not upto or _at(row) < (seconds(upto, LATEST) or 0)]
        cursor = str((answer.get("response_metadata") or {}).get("next_cursor") or "")
        if not cursor:
            break
    return found, bool(cursor)


def told(messages: Sequence[Payload]) -> Earlier:
    """The first message and as many of the latest as fit, in order; how many are left out stands where they would."""
    if not messages:
        return Earlier()
    texts = [people_see(whole_text(message)) for message in messages]
    words, room = MOST_WORDS - _words(texts[0]), MOST_TEXT - len(texts[0])
    start = len(texts)
    while start > 1 and _words(texts[start - 1]) <= words and len(texts[start - 1]) <= room:
        start -= 1
        words, room = words - _words(texts[start]), room - len(texts[start])
    gap = [f"[{start - 1} messages of this thread were left out here]"] if start > 1 else []
    files = tuple(file for message in messages for file in read_files(message))
    return Earlier("\n\n".join(part for part in (texts[0][:MOST_TEXT], *gap, *texts[start:]) if part), files[:MOST_FILES])


def _at(message: Payload) -> float:
    return seconds(message.get("ts"), LATEST) or 0


def _words(text: str) -> int:
    """Characters outside pasted blocks."""
    return len("".join(text.split("```")[::2]))


def short(trouble: BaseException) -> str:
    """Trouble with Slack in a few words."""
    return " ".join(str(trouble).split())[:120] or type(trouble).__name__
