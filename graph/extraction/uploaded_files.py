"""Acknowledge attached files: name, size and findings, or why a file was not read and what to send instead. Pure."""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC

from graph.report import FileReadResult
from graph.state import Attachment, UnreadReason
from tools.checks.not_understood import NOT_UNDERSTOOD_KEY
from tools.fact import Fact

MAX_LINE_CHARS = 100
MAX_NAME_CHARS = 80
_MAGIC_BYTES: Mapping[bytes, UnreadReason] = {
    **dict.fromkeys((b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"BM", b"II*\x00", b"MM\x00*"), "image"),
    **dict.fromkeys((b"PK\x03\x04", b"\xfd7zXZ\x00", b"BZh", b"\x28\xb5\x2f\xfd", b"7z\xbc\xaf\x27\x1c", b"Rar!"), "archive"),
    b"%PDF": "document",
}
_UTF16_BYTE_ORDER_MARKS = (b"\xff\xfe", b"\xfe\xff")

# Why a file was not read, and what to send instead.
UNREAD_REASONS: Mapping[UnreadReason, str] = {
    "image": "a picture, and I read text only: paste the lines, or attach the log",
    "document": "a document, and I read text only: paste the lines, or attach the log",
    "archive": "an archive: unpack it and attach the log (a single log as .gz is fine)",
    "binary": "not text: attach the log, or paste the lines around the first error",
    "broken": "a damaged .gz: attach it again, or unpacked",
    "too_large": "more than I take: attach the part around the first error",
    "too_much": "the files before it were all I take at once: attach it by itself",
    "elsewhere": "it does not lie with Slack: upload it here",
    "refused": "Slack did not hand it out: attach it again (the app needs the scope files:read)",
    "gone": "its text is no longer stored: attach it again",
    "empty": "it is empty: attach it again",
    "too_long": "reading it took longer than I may: attach the part around the first error",
}


# Facts of a test that did not run, so its result is unknown.
NOT_RUN_KEYS = frozenset({"dcgm.not_run", "dcgm.error", "ib.write_failed"})
MAX_REASON_CHARS = 160


def decode_file(raw: bytes) -> tuple[str, UnreadReason]:
    """Return the text of a file, or why it has none."""
    if raw.startswith(_UTF16_BYTE_ORDER_MARKS):
        return raw.decode("utf-16", "replace"), ""
    for begins, file_kind in _MAGIC_BYTES.items():
        if raw.startswith(begins) and (begins == b"%PDF" or not begins.isascii() or b"\0" in raw[:4096]):  # text may start so, too
            return "", file_kind
    if raw[257:262] == b"ustar":
        return "", "archive"
    return ("", "binary") if b"\0" in raw[:4096] else (raw.decode("utf-8", "replace"), "")


def build_attachment(name: str, text: str) -> Attachment:
    raw = text.encode("utf-8", "replace")
    kept_text, reason = decode_file(raw)
    return Attachment(name=name, text=kept_text, size=len(raw), unread=reason if raw else "empty")


def is_file(given: Attachment) -> bool:
    """Return whether it was a file: text pasted into a message has size 0."""
    return given.size > 0 or bool(given.unread)


def build_file_read(
    given: Attachment, facts: Iterable[Fact], is_odd: Callable[[Fact], bool], left_out: int = 0, *, recognised: bool = True
) -> FileReadResult:
    """Summarise a read file: kinds of errors, the log's own first error, entries left out, lines not understood."""
    facts = list(facts)
    odd = [fact for fact in facts if is_odd(fact)]
    unknown = [fact for fact in facts if fact.key == NOT_UNDERSTOOD_KEY]
    foreign = next((fact.line for fact in facts if fact.key == "check.foreign"), "")
    not_run = next(
        (
            fact.line or fact.format_sentence()
            for fact in facts
            if fact.key in NOT_RUN_KEYS or (fact.key == "nccl.failure" and not is_odd(fact))
        ),
        "",
    )
    kinds = {(fact.key, repr(fact.value)) for fact in odd}
    first = min(odd, key=_get_sort_key, default=None)
    line = first.format_sentence().removeprefix(_JOB_LOG_PREFIX) if first else unknown[0].line if unknown else ""
    return FileReadResult(
        name=given.name[:MAX_NAME_CHARS],
        size=given.size,
        kinds=len(kinds),
        line=line[:MAX_LINE_CHARS],
        at=first.time if first else None,
        left_out=left_out,
        not_understood=sum(fact.value for fact in unknown if isinstance(fact.value, int)),
        recognised=recognised or bool(odd),
        foreign=foreign,
        not_run=not_run[:MAX_REASON_CHARS],
    )


def build_unread_file(given: Attachment, why: UnreadReason = "") -> FileReadResult:
    return FileReadResult(name=given.name[:MAX_NAME_CHARS], size=given.size, unread=why or given.unread)


def format_file_read(row: FileReadResult) -> str:
    """Return the text behind the file's name: `1.2 MB: 3 kinds of errors, first nccl timeout at 02:41 UTC`."""
    size = format_size(row.size) if row.size else "of no known size"
    if row.unread:
        return f"{size}: not read, {UNREAD_REASONS[row.unread]}"
    if not row.recognised:
        return f"{size}: I cannot read this kind of output{_format_not_understood(row, first=True)}{_format_left_out(row)}"
    if not row.kinds and row.foreign:
        return f"{size}: {row.foreign}{_format_not_understood(row)}{_format_left_out(row)}"
    if not row.kinds and row.not_understood:
        return f"{size}: no error that I know{_format_not_understood(row, first=True)}{_format_left_out(row)}"
    if not row.kinds and row.not_run:
        return f"{size}: could not look: {row.not_run}{_format_left_out(row)}"
    if not row.kinds:
        return f"{size}: nothing that I know as an error{_format_left_out(row)}"
    when = f" at {row.at.astimezone(UTC):%H:%M} UTC" if row.at else ""
    description = f"{row.line}{when}" if row.kinds == 1 else f"{row.kinds} kinds of errors, first {row.line}{when}"
    return f"{size}: {description}{f'; {row.foreign}' if row.foreign else ''}{f'; {row.not_run}' if row.not_run else ''}{_format_not_understood(row)}{_format_left_out(row)}"


def _format_not_understood(row: FileReadResult, *, first: bool = False) -> str:
    if not row.not_understood:
        return ""
    lines = "1 line that may tell of trouble" if row.not_understood == 1 else f"{row.not_understood:,} lines that may tell of trouble"
    return f"; I do not know {lines}" + (f", first “{row.line}”" if first and row.line else "")


def _format_left_out(row: FileReadResult) -> str:
    return f"; could not look at all: {row.left_out:,} more things that it says were left out" if row.left_out else ""


def format_size(size: int) -> str:
    """Return decimal units, as file managers do."""
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} bytes"


_JOB_LOG_PREFIX = "the job's log: "  # Start of a job log fact's sentence, redundant beside a file name.


def _get_sort_key(fact: Fact) -> tuple[bool, bool, str]:
    return fact.attrs.get("first") is not True, fact.time is None, fact.time.isoformat() if fact.time else ""
