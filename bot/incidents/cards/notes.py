"""Short cards: refusals, notices, errors."""

from collections.abc import Sequence
from datetime import timedelta

from bot.cards import blocks
from bot.cards.blocks import Card
from bot.cards.text import SLACK_ID_PATTERN, Line, bold, channel_link, code, thread_link
from bot.incidents.cards.home import OpenIncident

# What an internal error leaves true: after a message, a decision about an action, a command.
MESSAGE_ERROR_TEXT: Line = (
    "A message or click here changes nothing on any host. What I stored is kept; reply ",
    code("recheck"),
    " to try again.",
)
DECISION_ERROR_TEXT: Line = (
    "I stopped midway, so check the card first: it shows whether your click counted. ",
    "Approved actions start automatically. You may press again; your vote counts once.",
)
COMMAND_ERROR_TEXT: Line = ("I stopped midway, so it may have taken effect. Check ", code("/rackmedic status"), ".")
"""What is known when something broke: behind a message, a decision about an action, a command."""


def render_refusal(words: str, instead: Sequence[str] = ()) -> Card:
    """Render a Refusal and the channels (`instead`, ids) to go to."""
    channel_parts = [part for channel in instead if SLACK_ID_PATTERN.fullmatch(channel) for part in (" ", channel_link(channel))]
    return blocks.build_card(words, [blocks.line_section(f"🚫 {words}", *((" →", *channel_parts) if channel_parts else ()))])


def render_joined_thread(team: str, channel: str, thread_ts: str) -> Card:
    """Say that another thread works on it and has the message."""
    thread_text, rest = "another thread", "What you wrote is added there, and I answer there."
    link = thread_link(team, channel, thread_ts, thread_text) if thread_ts else thread_text  # an alert's thread begins with its first turn
    return blocks.build_card(
        f"I already work on this in {thread_text}. {rest}", [blocks.line_section("↪ I already work on this in ", link, f". {rest}")]
    )


def render_ask_in_joined_thread(team: str, channel: str, thread_ts: str) -> Card:
    """Answer a request in a thread whose report joined another."""
    thread_text, rest = "another thread", "Ask there, or mention me here and say what is wrong."
    link = thread_link(team, channel, thread_ts, thread_text) if thread_ts else thread_text
    words = "I ignored this message: I work on this in "
    return blocks.build_card(f"{words}{thread_text}. {rest}", [blocks.line_section(f"↪ {words}", link, f". {rest}")])


def render_joined_hidden_thread() -> Card:
    """Say that others reported the same in a thread that these readers may not see."""
    words = "I already work on this in a thread that this channel cannot read."
    rest = "I answer you here; approvals are given there."
    return blocks.build_card(f"{words} {rest}", [blocks.line_section(f"↪ {words} {rest}")])


def render_in_progress(words: str) -> Card:
    return blocks.build_card(words, [blocks.line_section(f"⏳ {words}")])


def render_not_stored(will_retry: bool) -> Card:
    words = "My store does not answer, so I could not note this down."
    rest = "Slack will send it again automatically." if will_retry else "Please try again in a minute."
    return blocks.build_card(f"{words} {rest}", [blocks.line_section(f"⏳ {words} {rest}")])


def render_empty_report() -> Card:
    words = "I found no problem to check in that. Say what is wrong, for example: "
    example = "job 4711 hangs on gpu-[017-020]"
    example_section = blocks.line_section(
        words, code(example), "; ", code("status"), " lists open incidents, ", code("help"), " lists what I understand."
    )
    return blocks.build_card(f"{words}{example}; status lists open incidents, help lists what I understand.", [example_section])


def render_edit_ignored() -> Card:
    words = "I do not read edits. Write what is new as a new message."
    return blocks.build_card(words, [blocks.line_section(f"✏️ {words}")])


def render_thread_deleted(incident: OpenIncident) -> Card:
    words = f"The first message of {incident.id} was deleted"
    headline_text = f": {incident.headline}." if incident.headline else "."
    lines = [f"Still held: {node.render_line()}" for node in incident.drained_nodes]
    lines += ["The incident is still open." if incident.lifecycle != "closed" else ""]
    rest = "My Home tab lists it, with a button to return a node; " if incident.drained_nodes else "My Home tab lists it; "
    link = thread_link(incident.team, incident.channel, incident.thread_ts, "the thread") if incident.thread_ts else "the thread"
    sections = [blocks.line_section("⚠️ ", bold(words), headline_text), *(blocks.line_section(line) for line in lines if line)]
    return blocks.build_card(
        f"{words}{headline_text} {' '.join(lines)}".strip(), [*sections, blocks.line_section(rest, "the findings are in ", link, ".")]
    )


def render_answer_limit(longest_pause: timedelta) -> Card:
    """Say that the limit of answers is reached, and when we answer again."""
    words = "I answered a lot here in the last minutes, so I am quiet now"
    until = f"in at most {-(-int(longest_pause.total_seconds()) // 60)} minutes I answer again"
    passed = f"⏳ {words} and ignore messages: {until}. "
    return blocks.build_card(
        f"{words}: {until}.",
        [blocks.line_section(passed, code("stop"), ", ", code("hand off"), " and ", code("close"), " still reach me.")],
    )


def render_not_understood() -> Card:
    words = "I did not think that was meant for me, so I did nothing. "
    rest = "Mention me and I answer; "
    return blocks.build_card(
        f"{words}{rest}help lists what I understand.", [blocks.line_section(words, rest, code("help"), " lists what I understand.")]
    )


def render_internal_error(reference: str, facts: Line) -> Card:
    """Report an internal error. `facts`: what is certain anyway. `reference` finds the traceback in the log."""
    headline = "Internal error: I could not finish this"
    return blocks.build_card(
        headline,
        [
            blocks.line_section(f"💥 {headline}."),
            blocks.line_section(*facts),
            blocks.context(("For the operator: see the log under ", bold(reference), ".")),
        ],
    )
