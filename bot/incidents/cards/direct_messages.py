"""Answers to direct messages. Pure. Approvals are given only in the incident's thread, so here they are links."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from bot.cards import blocks
from bot.cards.blocks import Block, Card
from bot.cards.text import SLACK_ID_PATTERN, bold, channel_link, code
from bot.incidents.cards import home
from bot.incidents.cards.home import OpenIncident

DirectRequest = Literal["help", "status", "approvals", "elsewhere"]
# Any of these words selects the request; the first matching row wins.
REQUEST_WORDS: Final[Mapping[DirectRequest, frozenset[str]]] = {
    "approvals": frozenset(("approval", "approvals", "approve", "decide", "decisions", "pending", "waiting", "waits")),
    "status": frozenset(("status", "incident", "incidents", "open", "mine", "news")),
    "help": frozenset(("help", "hi", "hello", "hey", "commands", "start", "thanks")),
}
MAX_REQUEST_WORDS: Final = 8  # a longer message is a report, which belongs into a channel
KNOWN_REQUESTS: Final = (
    ("help", "this list"),
    ("status", "your incidents, and the open ones of the channels that you are in"),
    ("approvals", "what waits for your approval; you approve in the thread"),
)


def classify_request(text: str) -> DirectRequest:
    """Return the request. A message with a digit (host, job) or many words belongs elsewhere."""
    words = [word.casefold() for word in re.findall(r"[^\W_][\w.-]{0,60}", text[:400])]
    if len(words) > MAX_REQUEST_WORDS or any(char.isdigit() for word in words for char in word):
        return "elsewhere"
    requests: list[DirectRequest] = [name for name, request_words in REQUEST_WORDS.items() if request_words & set(words)]
    return requests[0] if requests else "elsewhere" if words else "help"


def render_direct_help(channels: Sequence[str]) -> Card:
    rows = [(code(say), f" {means}") for say, means in KNOWN_REQUESTS]
    channel_parts = [part for channel in channels if SLACK_ID_PATTERN.fullmatch(channel) for part in (" ", channel_link(channel))]
    parts = [
        blocks.section((bold("In this conversation:"),), *rows),
        *(
            [blocks.line_section(bold("To begin a diagnosis:"), " mention me with what is wrong in", *channel_parts, ".")]
            if channel_parts
            else []
        ),
    ]
    return blocks.build_card("What I understand here", parts)


def render_direct_status(mine: Sequence[OpenIncident], others: Sequence[OpenIncident], now: datetime, waits: Sequence[Block] = ()) -> Card:
    """Render the reader's incidents, then others they may read, then waiting tenants."""
    own = home.render_incident_list(mine, now) if mine else [blocks.context(("None of the open incidents is yours.",))]
    rest = (
        home.render_incident_list(others, now, waits) if others or waits or not mine else [blocks.context(("No other incident is open.",))]
    )
    return blocks.build_card("Open incidents", [blocks.header("Yours"), *own, blocks.header("Others"), *rest])


def render_direct_approvals(waiting: Sequence[Block]) -> Card:
    """Render what waits for this person's decision."""
    hint = blocks.context(("To approve, open the thread: only the Approve button on the full card counts.",))
    return blocks.build_card("Waiting for your decision", [blocks.header("Waiting for your decision"), *waiting, hint])


def render_other_channels(why: str, channels: Sequence[str]) -> Card:
    channel_parts = [part for channel in channels if SLACK_ID_PATTERN.fullmatch(channel) for part in (" ", channel_link(channel))]
    return blocks.build_card(why, [blocks.line_section(f"↪ {why}", *channel_parts)])


def render_not_answered_here(why: str, channels: Sequence[str]) -> Card:
    channel_parts = [part for channel in channels if SLACK_ID_PATTERN.fullmatch(channel) for part in (" ", channel_link(channel))]
    request_parts = [part for say, _ in KNOWN_REQUESTS for part in (code(say), " ")]
    return blocks.build_card(
        why, [blocks.line_section(f"↪ {why}", *((" →", *channel_parts) if channel_parts else ()), " Here I know ", *request_parts)]
    )


# Suggested prompts, status lines and thread titles. Pure. No user text gets into them.


@dataclass(frozen=True, slots=True)
class SuggestedPrompt:
    """Slack sends `says` as the user's message; `wish` is the request."""

    says: str
    wish: DirectRequest


# Slack shows at most four
SUGGESTED_PROMPTS: Final = (
    SuggestedPrompt("Which incidents are open?", "status"),
    SuggestedPrompt("What waits for my approval?", "approvals"),
    SuggestedPrompt("Help: what can I ask here?", "help"),
)
PROMPTS_TITLE: Final = "Ask me"
# Shown after our name while stored data is read.
READING_STATUS_TEXTS: Final[Mapping[DirectRequest, str]] = {
    "status": "is reading what is open…",
    "approvals": "is looking at what waits for you…",
}
THREAD_TITLES: Final[Mapping[DirectRequest, str]] = {
    "status": "Open incidents",
    "approvals": "Waiting for your decision",
    "help": "What can be asked",
}


def build_prompt_payload(prompts: Sequence[SuggestedPrompt]) -> list[dict[str, str]]:
    return [{"title": prompt.says, "message": prompt.says} for prompt in prompts]
