"""Read a job's log into typed errors per rank.

A log may have the output of many ranks, separated by `tail -v` headers or launcher tags. The earliest failing rank is the
cause, and later errors of other ranks are consequences. Tenants' processes write the log, so its errors have low trust.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from kb.logs import tracebacks
from kb.logs.error_details import build_error_attrs
from kb.logs.first_failure import mark_first_error
from kb.logs.job_error_rules import EXPLODING_GRADIENT_PATTERN, HINT_CAUSES, NEEDLES, ErrorRule, classify_line, list_eligible_rules
from kb.logs.line_prefixes import find_time
from kb.logs.log_events import LogEvent
from kb.logs.log_lines import LogPiece, build_piece, join_pieces
from kb.logs.ranks import find_nccl_device, find_rank_in_message, get_rank_from_path, parse_file_header, split_rank_tag
from kb.logs.ras_reader import RAS_NEEDLES, RasReader
from kb.needle_search import DIGITS_TO_ZERO, MAX_LINE_CHARS, Needles
from kb.redact import redact, redact_start

NEEDED_TEXTS = ("==> ", "Traceback (most", "NCCL version ", *RAS_NEEDLES, *NEEDLES)
_NEEDED_NEEDLES = Needles(NEEDED_TEXTS)
# exceptions by which a launcher reports that another process failed
_LAUNCHER_EXCEPTIONS = frozenset(
    {"ChildFailedError", "ProcessRaisedException", "ProcessExitedException", "CalledProcessError", "SystemExit", "KeyboardInterrupt"}
)
# exceptions whose reason may be in the lines below them
_VAGUE_EXCEPTIONS = frozenset(
    {"RuntimeError", "DistBackendError", "OSError", "AcceleratorError", "DistStoreError", "XlaRuntimeError", "InternalError"}
)
_MAX_LINE_KINDS = 1024  # line kinds whose rules are cached
_CONTEXT_CHARS = 8192  # characters before an undated line that are searched for its time
_UNLIMITED_BYTES = 1 << 24
_MAX_CARRIED_BYTES = 1 << 20  # bytes of an open traceback that wait for the next piece
_MAX_TAGS = 100_000
_MAX_DETAIL_CHARS = 400
_MAX_LINE_CHARS = 2000
# Distinct errors by rank, file and type. Further ones are only counted, as a log can print any number of ranks.
MAX_ERRORS = 4096
_VERSION_PATTERN = re.compile(r"NCCL version (\d[\w.]{2,20}(?:\+cuda[\d.]{2,8})?)")
_WARNING_PATTERN = re.compile(r".{0,40}\[W\d{3,4} |.{0,60}\bWARNING\b")
_TAGGED_PATTERN = re.compile(rb"\[rank(\d{1,6})\]")
_CAUSES_BY_EXCEPTION = {"FileNotFoundError": "file_not_found", "PermissionError": "permission_denied"}
MAX_LOST_ERRORS = 8192  # above this many left-out errors, lines are only counted: the file is probably not a job's log


@dataclass(frozen=True, slots=True)
class JobLog:
    """What was read from a log.

    Attributes:
        versions: The ranks of each NCCL version.
        left_out: The number of errors beyond MAX_ERRORS.
    """

    events: tuple[LogEvent, ...]
    ranks: frozenset[str]
    first_rank: str | None
    versions: Mapping[str, frozenset[str]]
    left_out: int = 0


@dataclass(slots=True)
class _RepeatCount:
    """The attribute names of an error's last occurrence, and how often it had these since then."""

    names: tuple[str, ...]
    times: int = 1


class JobLogReader:
    """Reader of a log in pieces of whole lines."""

    def __init__(self, now: datetime | None = None) -> None:
        self._now = now
        self._file = ""
        self._carry: LogPiece | None = None
        self._carried: list[int] = []
        self._tags: tracebacks.RankTags = {}
        self._rank: str | None = None
        self._events: dict[tuple[object, ...], LogEvent] = {}
        self._again: dict[tuple[object, ...], _RepeatCount] = {}
        self._eligible: dict[bytes, tuple[ErrorRule, ...]] = {}
        self._ranks: set[str] = set()
        self._versions: dict[str, set[str]] = {}
        self._ras = RasReader()
        self._left_out = 0
        self._times = _PrecedingTimes(build_piece(b""), now)

    @property
    def is_waiting(self) -> bool:
        """Whether a traceback is open, so that the next piece is needed in full."""
        return self._carry is not None

    def feed(self, text: str) -> None:
        self.read_piece(build_piece(text.encode("utf-8", "replace")), _find_wanted_lines(text))

    def read_piece(self, piece: LogPiece, wanted: list[int]) -> None:
        """Read the lines of a piece that may be relevant. `wanted` has their numbers."""
        self._ranks |= {str(int(rank)) for rank in set(_TAGGED_PATTERN.findall(piece.block))}
        self._read_lines(*self._resume_traceback(piece, wanted), final=False)

    def finish(self) -> JobLog:
        """Read what is left and return the result."""
        self._read_lines(*self._resume_traceback(build_piece(b""), []), final=True)
        for key, repeat_count in self._again.items():
            self._add_count(key, repeat_count.times)
        self._again = {}
        events = tuple(mark_first_error(list(self._events.values())))
        first_rank = next((event.attrs["rank"] for event in events if event.attrs["first"]), None)
        versions = {version: frozenset(ranks) for version, ranks in self._versions.items()}
        return JobLog(events, frozenset(self._ranks), first_rank, versions, self._left_out)

    def _resume_traceback(self, piece: LogPiece, wanted: list[int]) -> tuple[LogPiece, list[int]]:
        """Put an open traceback before the piece, and adjust the numbers of the wanted lines."""
        if self._carry is not None:
            shift = len(self._carry.kinds)
            piece, wanted = join_pieces(self._carry, piece), [*self._carried, *(number + shift for number in wanted)]
            self._carry = None
            self._carried = []
        return piece, wanted

    def _read_lines(self, piece: LogPiece, wanted: list[int], *, final: bool) -> None:
        traceback_lines: set[int] = set()
        self._tags = self._tags if len(self._tags) < _MAX_TAGS else {}
        lines = tracebacks.RankedLines(piece, self._tags)
        self._times = _PrecedingTimes(piece, self._now)
        for index, (number, wanted_line) in enumerate(zip(wanted, piece.get_lines(wanted), strict=True)):
            if number in traceback_lines:
                continue
            if self._left_out >= MAX_LOST_ERRORS:
                self._left_out += 1
                continue
            line = wanted_line.rpartition("\r")[2] if "\r" in wanted_line else wanted_line
            if line.startswith("==> ") and (path := parse_file_header(line)):
                self._start_file(path)
            elif tracebacks.TRACEBACK_START in line:
                traceback = tracebacks.read_traceback(lines, number)
                can_wait = not final and len(piece.block) - piece.get_start(number) < _MAX_CARRIED_BYTES
                if not traceback.complete and can_wait:
                    self._carry, dropped_count = piece.get_rest(number, _CONTEXT_CHARS)
                    self._carried = [wanted_number - dropped_count for wanted_number in wanted[index:]]
                    return
                self._add_traceback(traceback, lines)
                traceback_lines |= traceback.lines
            else:
                self._read_line(number, line, piece.kinds[number])

    def _start_file(self, path: str) -> None:
        self._file = path
        self._rank = get_rank_from_path(path)
        if self._rank is not None:
            self._rank = str(int(self._rank))
            self._ranks.add(self._rank)

    def _read_line(self, number: int, line: str, kind: bytes) -> None:
        if "NCCL version " in line and (version := _VERSION_PATTERN.search(line)):
            self._versions.setdefault(version[1], set()).add(self._find_rank(line) or "")
        if any(needle in line for needle in RAS_NEEDLES):
            if lagging_rank := self._ras.read_line(line):
                self._add_error(number, line, "collective_desync", dict(lagging_rank))
            return
        classified = classify_line(line, self._list_rules(line, kind if len(kind) <= MAX_LINE_CHARS else None))
        if classified:
            cause, attrs = classified
            self._add_error(number, line, cause, build_error_attrs(cause, attrs, line))

    def _list_rules(self, line: str, kind: bytes | None = None) -> tuple[ErrorRule, ...]:
        """Return the rules that may match a line, cached by the line's kind."""
        kind = kind or line.encode("utf-8", "replace").translate(DIGITS_TO_ZERO)
        rules = self._eligible.get(kind)
        if rules is None:
            if len(self._eligible) >= _MAX_LINE_KINDS:
                self._eligible = {}
            rules = list_eligible_rules(kind.decode("utf-8", "replace"))
            self._eligible[kind] = rules
        return rules

    def _add_traceback(self, traceback: tracebacks.Traceback, lines: tracebacks.RankedLines) -> None:
        """Add one error for a traceback: the first exception of its chain that a rule classifies, or else the last."""
        if not traceback.chain:
            return
        last = traceback.chain[-1]
        cause: str = "python_exception"
        attrs: dict[str, Any] = {}
        for raised in traceback.chain:
            if classified := self._classify_exception(raised):
                cause, attrs = classified
                break
        else:
            if last.type.rpartition(".")[2] in _LAUNCHER_EXCEPTIONS:
                return
            if classified := self._classify_message_below(last, traceback, lines):
                cause, attrs = classified
        raised_text = f"{last.type}: {last.detail}" if last.detail else last.type
        attrs = {**attrs, "type": last.type, "detail": last.detail}
        if len(traceback.chain) > 1:
            attrs["chain"] = tuple(raised.type for raised in traceback.chain)
        self._add_error(traceback.start, traceback.line or raised_text, cause, attrs, rank=traceback.rank)

    def _classify_exception(self, raised: tracebacks.RaisedException) -> tuple[str, dict[str, Any]] | None:
        line = f"{raised.type}: {raised.detail}"
        name = raised.type.rpartition(".")[2]
        if name in _CAUSES_BY_EXCEPTION:
            return _CAUSES_BY_EXCEPTION[name], {}
        classified = classify_line(line, self._list_rules(line))
        return (classified[0], build_error_attrs(classified[0], classified[1], line)) if classified else None

    def _classify_message_below(
        self, last: tracebacks.RaisedException, traceback: tracebacks.Traceback, lines: tracebacks.RankedLines
    ) -> tuple[str, dict[str, Any]] | None:
        """Classify the message lines below a vague exception, up to the next log line."""
        if last.type.rpartition(".")[2] not in _VAGUE_EXCEPTIONS:
            return None
        for number in traceback.more[:6]:
            line = traceback.get_body(number, lines)
            if line.startswith("[") or find_time(line):
                break
            traceback.lines.add(number)
            if classified := classify_line(line, self._list_rules(line)):
                return classified[0], build_error_attrs(classified[0], classified[1], line)
        return None

    def _add_error(self, number: int, line: str, cause: str, attrs: dict[str, Any], rank: str | None = None) -> None:
        named_rank = attrs.pop("rank", None) if cause == "collective_desync" else None
        rank = named_rank or rank or self._find_rank(line)
        key = (cause, rank, self._file, attrs.get("type"), attrs.get("device"))
        if key in self._events:
            self._count_repeat(key, attrs)
            return
        if len(self._events) >= MAX_ERRORS:
            self._left_out += 1
            return
        if rank is not None and cause not in HINT_CAUSES:
            self._ranks.add(rank)
        time = find_time(line, self._now) or self._times.find_time_before(number)
        event_attrs: dict[str, Any] = {
            "rank": rank,
            "time": time.isoformat() if time else None,
            "detail": line[:_MAX_DETAIL_CHARS].strip(),
            "count": 1,
            "file": self._file,
        }
        if _WARNING_PATTERN.match(line):
            event_attrs["warning"] = True
        event_attrs |= attrs
        event_attrs["detail"] = redact(str(event_attrs["detail"]))[:_MAX_DETAIL_CHARS]
        device = str(attrs["device"]) if "device" in attrs else None
        self._events[key] = LogEvent("job.error", cause, device, time, "", str(redact_start(line, _MAX_LINE_CHARS)), event_attrs)

    def _count_repeat(self, key: tuple[object, ...], attrs: Mapping[str, Any]) -> None:
        """Count a further occurrence, and add the attributes that the event lacks."""
        names, repeat_count = tuple(attrs), self._again.get(key)
        if repeat_count and repeat_count.names == names:
            repeat_count.times += 1
            return
        if repeat_count:
            self._add_count(key, repeat_count.times)
        event = self._events[key]
        self._events[key] = replace(event, attrs={**attrs, **event.attrs})
        self._again[key] = _RepeatCount(names)

    def _add_count(self, key: tuple[object, ...], times: int) -> None:
        event = self._events[key]
        self._events[key] = replace(event, attrs={**event.attrs, "count": event.attrs["count"] + times})

    def _find_rank(self, line: str) -> str | None:
        return split_rank_tag(line)[0] or self._rank or find_rank_in_message(line) or find_nccl_device(line)


class _PrecedingTimes:
    """Finder of the last time before an undated line. Queries ascend, so each line is read once."""

    def __init__(self, piece: LogPiece, now: datetime | None) -> None:
        self._piece = piece
        self._now = now
        self._last_query = 0  # line of the last query
        self._last_result: tuple[int, datetime] | None = None  # line and time

    def find_time_before(self, number: int) -> datetime | None:
        """Return the last time before a line in the same file, or None if there is none within _CONTEXT_CHARS."""
        self._last_result = self._find_dated_line(number)
        self._last_query = number
        return self._last_result[1] if self._last_result else None

    def _find_dated_line(self, number: int) -> tuple[int, datetime] | None:
        for earlier_number, line in self._iter_backwards(number):
            if earlier_number < self._last_query:  # from here on the last query has read the lines
                result = self._last_result
                return result if result and self._piece.count_chars(result[0], number) <= _CONTEXT_CHARS else None
            if line.startswith("==> "):
                return None
            if time := find_time(line, self._now):
                return earlier_number, time
        return None

    def _iter_backwards(self, number: int) -> Iterator[tuple[int, str]]:
        remaining_chars = _CONTEXT_CHARS
        while number > 0 and remaining_chars > 0:
            number -= 1
            line = self._piece.get_raw_line(number, _UNLIMITED_BYTES).decode("utf-8", "replace")
            remaining_chars -= len(line) + 1
            yield number, line if remaining_chars >= 0 else line[-remaining_chars:]


def read_job_log(text: str, now: datetime | None = None) -> JobLog:
    """Read logs that are one text, in which `tail -v` headers separate the files."""
    reader = JobLogReader(now)
    reader.feed(text)
    return reader.finish()


def list_job_events(text: str, now: datetime | None = None) -> list[LogEvent]:
    """Return only the errors."""
    return list(read_job_log(text, now).events)


def _find_wanted_lines(text: str) -> list[int]:
    """Return the numbers of the lines that may be relevant."""
    starts = {start for start, _ in _NEEDED_NEEDLES.find_in_text(text)}
    if "rad" in text:  # the pattern is slow
        starts |= {text.rfind("\n", 0, match.start()) + 1 for match in EXPLODING_GRADIENT_PATTERN.finditer(text)}
    numbers: list[int] = []
    number, position = 0, 0
    for start in sorted(starts):
        number += text.count("\n", position, start)
        position = start
        numbers.append(number)
    return numbers
