"""Makes untrusted text safe for Slack: spans in, escaped mrkdwn out. It mentions only approver groups.

All text from hosts, logs, tickets and users passes through here. Limits apply while rendering, so that a cut never
splits an escape or a code fence and always says how much is missing.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Literal

from kb.redact import BLANK_CHARS, show_invisible

MAX_READ_CHARS = 200_000  # text beyond is dropped before cleaning, which is slow; no card shows more

# space reserved for the notes on what was cut
CUT_NOTE_CHARS = len("… (+000,000)") + 1
HIDDEN_LINES_NOTE_CHARS = len("\n… 000,000 more lines") + 1

SPACE_TRANSLATION = str.maketrans(dict.fromkeys(BLANK_CHARS, " "))
LOOKALIKE_TRANSLATION = str.maketrans("<>", "‹›")
EMPHASIS_TRANSLATION = str.maketrans("*~`", "∗∼ˋ")
BACKTICK_PATTERN = re.compile(r"`([^`\n]{1,120})`")
ENTITY_PATTERN = re.compile(r"&(?=(?:amp|lt|gt);)")
# The colon that starts an emoji code. Slack's names have at most 100 characters; the bound keeps matching linear.
EMOJI_PATTERN = re.compile(r":(?=(?=[0-9_+'-]{0,100}[a-z])[a-z0-9_+'-]{1,100}:|100:|1234:)")
# A PCI, MAC or IPv6 address. Slack may read `:9b:` in it as an emoji, so it is shown as code, which keeps its colons
# for copying.
ADDRESS_PATTERN = re.compile(r"(?<![\w:.+'-])(?:PCI:)?[0-9A-Fa-f]{1,8}(?::{1,2}[0-9A-Fa-f]{1,4}){2,7}(?:\.[0-7])?(?![\w:+'-])")
WEB_URL_PATTERN = re.compile(r"https?://[A-Za-z0-9.:\[\]-]{1,253}/[A-Za-z0-9._~:/?#@!$'()*+,;=%&-]*")
MAX_URL_CHARS = 500
_RTL_RANGES = "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff"
RIGHT_TO_LEFT_PATTERN = re.compile(f"[{_RTL_RANGES}]")  # Hebrew, Arabic and related scripts
ISOLATE_START = "\u2068"
ISOLATE_END = "\u2069"
OPENING_PUNCTUATION = "“”„‘'\"([{‹«"
CLOSING_PUNCTUATION = "“”’'\".,;:!?…)]}›»"
SLACK_ID_PATTERN = re.compile(r"[A-Z][A-Z0-9]{1,20}")


class BadId(ValueError):
    """Not a Slack id, so it will not be put between angle brackets."""


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a line. `token` is Slack markup that only this module makes."""

    text: str
    style: Literal["plain", "bold", "code", "italic", "token"] = "plain"


Part = str | Span
Line = tuple[Part, ...]


def bold(text: str) -> Span:
    return Span(text, "bold")


def code(text: str) -> Span:
    return Span(text, "code")


def italic(text: str) -> Span:
    return Span(text, "italic")


def mention_group(group: str) -> Span:
    """Return a mention of the approver group, the only one made. Raises BadId."""
    return Span(f"<!subteam^{_require_slack_id(group)}>", "token")


def channel_link(channel: str) -> Span:
    """Return a channel link. Raises BadId."""
    return Span(f"<#{_require_slack_id(channel)}>", "token")


def thread_link(team: str, channel: str, thread_ts: str, label: str) -> Span:
    """Return a link to a thread of this workspace; only this and `web_link` make URL links. Raises BadId."""
    if not re.fullmatch(r"\d{1,12}\.\d{1,6}", thread_ts):
        raise BadId(f"thread_ts={thread_ts!r}")
    team, channel = _require_slack_id(team), _require_slack_id(channel)
    words = _escape_mrkdwn(_collapse_whitespace(_make_visible(label))).replace("|", "¦") or "thread"
    return Span(f"<https://app.slack.com/client/{team}/{channel}/thread/{channel}-{thread_ts}|{words}>", "token")


def web_link(url: str, label: str) -> Span:
    """Return a link to a ticket in a configured tracker, or to a page that an alert of the site's monitoring names.

    Raises BadId for an address that could hold anything else.
    """
    if len(url) > MAX_URL_CHARS or not WEB_URL_PATTERN.fullmatch(url):
        raise BadId(f"url={url[:80]!r}")
    words = _escape_mrkdwn(_collapse_whitespace(_make_visible(label))).replace("|", "¦") or "ticket"
    return Span(f"<{_escape_mrkdwn(url)}|{words}>", "token")


def parse_backticks(words: str) -> Line:
    """Return a trusted line with its back-ticks as code."""
    return tuple(code(part) if odd % 2 else part for odd, part in enumerate(BACKTICK_PATTERN.split(words)) if part)


def format_slack_date(at: datetime, form: Literal["time", "ago"] = "time") -> Span:
    """Return a time in each reader's time zone; UTC as fallback."""
    at = at.astimezone(UTC)
    token = {"time": "{time_secs}", "ago": "{ago}"}[form]
    return Span(f"<!date^{int(at.timestamp())}^{token}|{at:%Y-%m-%d %H:%M:%S} UTC>", "token")


def format_utc_time(at: datetime) -> str:
    """Return `03:10:00 UTC`, for comparison with logs."""
    return f"{at.astimezone(UTC):%H:%M:%S} UTC"


def escape_ambiguous(text: str) -> str:
    """Return text in which two different inputs never look the same, for what an approver vouches for.

    Printable ASCII stays; back-ticks, non-ASCII, link separators and blanks that a display drops become code points in
    ‹›.
    """
    visible = "".join(char if " " <= char <= "~" and char != "`" else f"‹U+{ord(char):04X}›" for char in text)
    visible = re.sub(r"^ | $|(?<= ) | (?= )", "‹U+0020›", visible)
    return visible.replace("://", ":‹U+002F›/") or "‹nothing›"


def exact_code(text: str) -> Span:
    """Return inline code that is never cut (`blocks.exact_*`)."""
    return Span(f"`{_escape_mrkdwn(escape_ambiguous(text))}`", "token")


def exact_code_block(text: str) -> str:
    """Return a code block that is never cut.

    Line ends are marked `↵`, so that a wrapped line does not look like two, and blanks that a display drops `·`; the
    text itself cannot contain these.
    """
    lines = escape_ambiguous(text).replace("‹U+000A›", "↵\n").replace("‹U+0020›", "·")
    return f"```\n{_escape_mrkdwn(lines)}\n```"


def _require_slack_id(value: str) -> str:
    if not SLACK_ID_PATTERN.fullmatch(value):
        raise BadId(f"{value!r} is not a Slack id")
    return value


def count_utf16_units(text: str) -> int:
    """Return the length in UTF-16 units, as Slack may count it."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def defang(text: str) -> str:
    """Make addresses unclickable: `https://x` → `hxxps://x`, `ftp://x` → `ftp[:]//x`."""
    text = re.sub(r"(?i)http(s?)://", lambda found: f"hxxp{found.group(1).lower()}://", text)
    return re.sub(r"(?<!hxxp)(?<!hxxps)://", "[:]//", text)


def strip_markup(text: str) -> str:
    """Return text for headers, buttons and fallbacks.

    Angle brackets become look-alikes, as does an ampersand that starts an escape; `&&` stays.
    """
    return ENTITY_PATTERN.sub("＆", _collapse_whitespace(_make_visible(text)).translate(LOOKALIKE_TRANSLATION))


def _make_visible(text: str) -> str:
    """Show hidden characters and defang addresses. Typographic spaces become blanks."""
    return defang(show_invisible(text[:MAX_READ_CHARS].replace("\r\n", "\n").translate(SPACE_TRANSLATION)))


def _collapse_whitespace(text: str) -> str:
    return " ".join(text.split())


def _escape_mrkdwn(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _neutralize_emphasis(text: str) -> str:
    return re.sub(r"(?<!\w)_|_(?!\w)", "＿", text.translate(EMPHASIS_TRANSLATION))


def _neutralize_emoji(words: str) -> str:
    """Show addresses as code and disarm emoji codes."""
    if not EMOJI_PATTERN.search(words):
        return words
    neutralized, end = "", 0
    for match in ADDRESS_PATTERN.finditer(words):
        if EMOJI_PATTERN.search(match[0]):
            neutralized += f"{EMOJI_PATTERN.sub('꞉', words[end : match.start()])}`{match[0]}`"
            end = match.end()
    return neutralized + EMOJI_PATTERN.sub("꞉", words[end:])


def _clean_span(span: Span) -> str:
    if span.style == "token":
        return span.text
    words = _collapse_whitespace(_make_visible(span.text))
    return words.replace("`", "ˋ") if span.style == "code" else _neutralize_emphasis(words)


def _apply_style(words: str, style: str) -> str:
    if not words:
        return ""
    if style == "token":
        return words
    mark = {"bold": "*", "italic": "_"}.get(style, "")
    if style == "code":  # copied text must not contain invisible characters
        return _isolate_rtl(f"`{_escape_mrkdwn(words)}`")
    return f"{mark}{_escape_mrkdwn(isolate_rtl_words(_neutralize_emoji(words)))}{mark}"


def isolate_rtl_words(words: str) -> str:
    """Isolate right-to-left words, so that the sentence keeps its order."""
    if not RIGHT_TO_LEFT_PATTERN.search(words):
        return words
    runs = groupby(words.split(" "), lambda word: bool(RIGHT_TO_LEFT_PATTERN.search(word)))
    return " ".join(_isolate_run(" ".join(run)) if turned else " ".join(run) for turned, run in runs)


def _isolate_run(run: str) -> str:
    bare = run.lstrip(OPENING_PUNCTUATION)
    core = bare.rstrip(CLOSING_PUNCTUATION)
    return f"{run[: len(run) - len(bare)]}{_isolate_rtl(core)}{bare[len(core) :]}"


def _isolate_rtl(text: str) -> str:
    return f"{ISOLATE_START}{text}{ISOLATE_END}" if RIGHT_TO_LEFT_PATTERN.search(text) else text


def _split_edge_blanks(part: Part) -> tuple[str, str, str]:
    """Return (before, words, after); plain parts keep one blank at either end."""
    span = part if isinstance(part, Span) else Span(part)
    words = _clean_span(span)
    if span.style != "plain" or not span.text:
        return ("", words, "")
    before, after = (" " if edge.isspace() else "" for edge in (span.text[0], span.text[-1]))
    return (before, words, after) if words else (before, "", "")


def build_line(*parts: Part) -> Line:
    return parts


def render_line(parts: Sequence[Part], limit: int) -> str:
    """Return a line as mrkdwn of at most `limit`, counting what was cut."""
    out, room = "", limit - CUT_NOTE_CHARS
    for i, part in enumerate(parts):
        style = part.style if isinstance(part, Span) else "plain"
        before, words, after = _split_edge_blanks(part)
        piece = before + _apply_style(words, style) + after
        if count_utf16_units(out) + count_utf16_units(piece) <= room or (
            i == len(parts) - 1 and count_utf16_units(out) + count_utf16_units(piece) <= limit
        ):
            out += piece
            continue
        kept_words = "" if style == "token" else _fit_prefix(words, style, room - count_utf16_units(out) - len(before))
        hidden_count = len(words) - len(kept_words) + sum(len(rest.text if isinstance(rest, Span) else rest) for rest in parts[i + 1 :])
        return f"{out}{before}{_apply_style(kept_words, style)}… (+{min(hidden_count, 999_999):,})"
    return out.strip()


def _fit_prefix(words: str, style: str, room: int) -> str:
    """Return about the longest prefix whose mrkdwn fits."""
    kept_count = max(0, min(len(words), room))
    while kept_count and (over := count_utf16_units(_apply_style(words[:kept_count], style)) - room) > 0:
        kept_count = max(0, kept_count - max(1, over * kept_count // (room + over)))  # the excess, scaled by the share that escapes add
    return words[:kept_count].rstrip()


def render_lines(lines: Iterable[Sequence[Part]], limit: int) -> str:
    """Return lines as mrkdwn of at most `limit`, counting hidden ones."""
    rows = list(lines)
    max_row_chars = limit if len(rows) == 1 else limit - HIDDEN_LINES_NOTE_CHARS
    return _join_rows((render_line(parts, max_row_chars) for parts in rows), len(rows), limit)


def _join_rows(rows: Iterable[str], total: int, limit: int) -> str:
    kept_rows: list[str] = []
    used = 0
    for i, row in enumerate(rows):
        if used + count_utf16_units(row) + (0 if i == total - 1 else HIDDEN_LINES_NOTE_CHARS) > limit:
            hidden_count = min(total - i, 999_999)
            return "\n".join([*kept_rows, f"… {hidden_count:,} more line{'s' if hidden_count > 1 else ''}"])
        kept_rows.append(row)
        used += count_utf16_units(row) + 1
    return "\n".join(kept_rows)


def code_block(rows: Iterable[str], limit: int, width: int = 300) -> str:
    """Return a monospace block, back-ticks replaced, lines cut at `width`."""
    all_rows = list(rows) or [" "]
    room = limit - 2 * len("```\n")
    width = min(width, room - HIDDEN_LINES_NOTE_CHARS - CUT_NOTE_CHARS)
    return f"```\n{_join_rows((_render_code_row(row, width) for row in all_rows), len(all_rows), room)}\n```"


def _render_code_row(row: str, width: int) -> str:
    words = _make_visible(row).replace("\n", " ").replace("`", "ˋ").expandtabs(4).rstrip()
    kept_words = _fit_prefix(words, "plain", width)
    return _escape_mrkdwn(kept_words) + (f"… (+{len(words) - len(kept_words):,})" if len(kept_words) < len(words) else "")


def clip_text(text: str, limit: int) -> str:
    """Return plain text of at most `limit`."""
    words = strip_markup(text)
    if count_utf16_units(words) <= limit:
        return words
    return f"{truncate_text(words, limit - 1)}…"


def truncate_text(words: str, room: int) -> str:
    """Return the longest prefix of `room` UTF-16 units."""
    truncated = words[:room]
    while count_utf16_units(truncated) > room:
        truncated = truncated[:-1]
    return truncated.rstrip()
