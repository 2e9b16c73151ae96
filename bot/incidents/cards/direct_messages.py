"""Answers to direct messages, suggested prompts, status lines and thread titles. None of them repeats a user's text.

Approvals are given only in the incident's thread, so here they are links.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from bot.cards import blocks
from bot.cards.blocks import Block, Card
from bot.cards.text import SLACK_ID_PATTERN, Part, bold, channel_link, code
from bot.incidents.cards import home
from bot.incidents.cards.home import OpenIncident

DirectRequest = Literal["help", "status", "approvals", "elsewhere"]
# Any of these words selects the request. If several match, the first request wins.
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


@dataclass(frozen=True, slots=True)
class SuggestedPrompt:
    """A prompt that Slack offers. It sends `text` as the user's message."""

    text: str
    request: DirectRequest


SUGGESTED_PROMPTS: Final = (  # Slack shows at most four
    SuggestedPrompt("Which incidents are open?", "status"),
    SuggestedPrompt("What waits for my approval?", "approvals"),
    SuggestedPrompt("Help: what can I ask here?", "help"),
)


def classify_request(text: str) -> DirectRequest:
    """Return what the message asks for. A message with a digit (a host, a job) or many words belongs into a channel."""
    words = [word.casefold() for word in re.findall(r"[^\W_][\w.-]{0,60}", text[:400])]
    if len(words) > MAX_REQUEST_WORDS or any(char.isdigit() for word in words for char in word):
        return "elsewhere"
    for request, request_words in REQUEST_WORDS.items():
        if not request_words.isdisjoint(words):
            return request
    return "elsewhere" if words else "help"


def render_direct_help(channels: Sequence[str]) -> Card:
    request_lines = [(code(text), f" {meaning}") for text, meaning in KNOWN_REQUESTS]
    channel_links = _render_channel_links(channels)
    parts = [blocks.section((bold("In this conversation:"),), *request_lines)]
    if channel_links:
        parts.append(blocks.line_section(bold("To begin a diagnosis:"), " mention me with what is wrong in", *channel_links, "."))
    return blocks.build_card("What I understand here", parts)


def render_direct_status(
    mine: Sequence[OpenIncident], others: Sequence[OpenIncident], now: datetime, quota_waits: Sequence[Block] = ()
) -> Card:
    """Render the reader's incidents, then the others that they may read, then those that wait for a tenant's quota."""
    own_blocks = home.render_incident_list(mine, now) if mine else [blocks.context(("None of the open incidents is yours.",))]
    other_blocks = home.render_incident_list(others, now, quota_waits)
    if mine and not others and not quota_waits:
        other_blocks = [blocks.context(("No other incident is open.",))]
    return blocks.build_card("Open incidents", [blocks.header("Yours"), *own_blocks, blocks.header("Others"), *other_blocks])


def render_direct_approvals(pending_approvals: Sequence[Block]) -> Card:
    """Render the approvals that wait for the reader."""
    hint = blocks.context(("To approve, open the thread: only the Approve button on the full card counts.",))
    return blocks.build_card("Waiting for your decision", [blocks.header("Waiting for your decision"), *pending_approvals, hint])


def render_other_channels(reason: str, channels: Sequence[str]) -> Card:
    return blocks.build_card(reason, [blocks.line_section(f"↪ {reason}", *_render_channel_links(channels))])


def render_not_answered_here(reason: str, channels: Sequence[str]) -> Card:
    channel_links = _render_channel_links(channels)
    arrow = (" →",) if channel_links else ()
    requests = [part for text, _ in KNOWN_REQUESTS for part in (code(text), " ")]
    return blocks.build_card(reason, [blocks.line_section(f"↪ {reason}", *arrow, *channel_links, " Here I know ", *requests)])


def build_prompt_payload(prompts: Sequence[SuggestedPrompt]) -> list[dict[str, str]]:
    return [{"title": prompt.text, "message": prompt.text} for prompt in prompts]


def _render_channel_links(channels: Sequence[str]) -> list[Part]:
    return [part for channel in channels if SLACK_ID_PATTERN.fullmatch(channel) for part in (" ", channel_link(channel))]
