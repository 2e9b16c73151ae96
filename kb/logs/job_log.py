"""Read a job's log, of one rank or many (`tail -v` headers, launcher tags), into typed errors per rank."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from kb.logs import tracebacks
from kb.logs.first_failure import mark_first_error
from kb.logs.job_error_rules import EXPLODING_GRADIENT_PATTERN, HINT_CAUSES, NEEDLES, ErrorRule, classify_line, list_eligible_rules
from kb.logs.log_lines import LogEvent, LogPiece, build_piece, find_time, join_pieces
from kb.logs.ranks import find_nccl_device, find_rank_in_message, get_rank_from_path, parse_file_header, split_rank_tag
from kb.needle_search import DIGITS_TO_ZERO, MAX_LINE_CHARS, Needles
from kb.numbers import parse_integer
from kb.redact import redact, redact_start

# Details of an error line beyond its class: memory owner, peer, collective.

_OTHER_PATTERN = re.compile(r"Process (\d{1,10}) has ([\d.]{1,9}) ([GM])iB memory in use")
_OWN_PATTERN = re.compile(r"this process has ([\d.]{1,9}) ([GM])iB memory in use")
_TOTAL_PATTERN = re.compile(r"total capacity of ([\d.]{1,9}) GiB|([\d.]{1,9}) GiB total capacity")
_FREE_PATTERN = re.compile(r"(?:of which )?([\d.]{1,9}) ([GM])iB (?:is )?free")
_RESERVED_PATTERN = re.compile(r"([\d.]{1,9}) ([GM])iB reserved in total")
_GPU_PATTERN = re.compile(r"\bGPU (\d{1,2})\b")
# memory of other processes below which they are not the reason (contexts of other ranks, monitoring)
_MAX_FOREIGN_GIB = 4.0
_SIGNAL_NUMBERS = {
    "segmentation fault": 11, "sigsegv": 11, "address not mapped": 11, "bus error": 7, "sigbus": 7, "illegal instruction": 4, "sigill": 4,
    "floating point exception": 8, "floating-point exception": 8, "sigfpe": 8, "sigsys": 31,
}  # fmt: skip
_NUMBER_PATTERN = re.compile(r"(?:signal|code|status|exited with)(?: number)?[ :=(]{0,8}(?:is |was |of )?(-?\d{1,3})\b")
# glibc's messages about corrupted memory, followed by an abort
_HEAP_ERROR_TEXTS = (
    "stack smashing",
    "double free",
    "free(): invalid",
    "corrupted size",
    "malloc(): ",
    "malloc_consolidate",
    "munmap_chunk",
)
NUMERIC_GROUPS = frozenset({"seq", "work", "enqueued", "completed", "timeout_ms", "status", "vendor_err", "joined", "expected", "port"})


def build_error_attrs(cause: str, found: Mapping[str, Any], line: str) -> dict[str, Any]:
    """Return the groups under plain names, numbers converted, plus the class's attributes."""
    attrs = {
        (plain := name.rstrip("234")): number if plain in NUMERIC_GROUPS and (number := parse_integer(value)) is not None else value
        for name, value in found.items()
    }
    if cause == "cuda_oom":
        return attrs | _parse_memory(line)
    if cause == "crash_signal" and (signal := _find_signal(line)):
        return attrs | {"signal": signal}
    return attrs


def _find_signal(line: str) -> int | None:
    """From its name, number, or an exit code above 128."""
    low = line.lower()
    for name, number in _SIGNAL_NUMBERS.items():
        if name in low:
            return number
    if match := _NUMBER_PATTERN.search(low):
        number = abs(int(match[1]))
        return number - 128 if number > 128 else number
    return 6 if any(word in low for word in _HEAP_ERROR_TEXTS) else None


def _parse_memory(line: str) -> dict[str, Any]:
    """PyTorch lists visible processes only; before 2.1 only totals, whose remainder is foreign."""
    other_processes = [(_convert_to_gib(size, unit), int(pid)) for pid, size, unit in _OTHER_PATTERN.findall(line)]
    if other_processes and not _OWN_PATTERN.search(line):
        other_processes.remove(max(other_processes))  # without a "this process" clause the largest is this process
    other, pid = max(other_processes, default=(0.0, 0))
    other = max(other, 0.0 if other_processes or _OWN_PATTERN.search(line) else _compute_unaccounted_gib(line))
    attrs: dict[str, Any] = {"own": other < _MAX_FOREIGN_GIB}
    if other >= _MAX_FOREIGN_GIB:
        attrs |= {"other_gib": round(other, 2)} | ({"other_pid": pid} if pid else {})
    gpu = _GPU_PATTERN.search(line)
    return attrs | ({"device": f"gpu{gpu[1]}"} if gpu else {})


def _compute_unaccounted_gib(line: str) -> float:
    total, free, reserved = _TOTAL_PATTERN.search(line), _FREE_PATTERN.search(line), _RESERVED_PATTERN.search(line)
    if not (total and free and reserved):
        return 0.0
    return float(total[1] or total[2]) - _convert_to_gib(free[1], free[2]) - _convert_to_gib(reserved[1], reserved[2])


def _convert_to_gib(size: str, unit: str) -> float:
    try:
        return float(size) / (1 if unit == "G" else 1024)
    except ValueError:
        return 0.0


# Reader for NCCL's RAS client: ranks that lag behind in their communicator. A report has several lines, ranks last.
#
# Communicator ranks have different AllReduce operation counts
# 15 ranks have launched up to operation 8812
# 1 ranks have launched up to operation 8811
# Rank 6 -- GPU 6 managed by process 2201 on node 172.20.8.14

RAS_NEEDLES = (
    "operation counts",
    "launched up to operation",
    "not launched any operations",
    " managed by process ",
    "[process information not found]",
)
_DIFFERENT_PATTERN = re.compile(r"ranks have different (\w{1,40}) operation counts")
_COUNT_PATTERN = re.compile(r"(\d{1,7}) ranks? have (?:launched up to operation (\d{1,18})|not launched any operations)")
_RANK_PATTERN = re.compile(
    r"Rank (\d{1,7})(?: has (?:launched up to operation (\d{1,18})|(not) launched any operations))? -- "
    r"(?:GPU \S{1,20} managed by process \d{1,10} on node (?P<node>[\w.:\[\]-]{1,80})|\[process information not found\])"
)
_MAX_COUNTS = 64  # counts kept per report; the client groups ranks, so there are few


class RasReader:
    """Line by line reader of a report."""

    def __init__(self) -> None:
        self._operation: str | None = None
        self._counts: list[tuple[int, int]] = []

    def read_line(self, line: str) -> Mapping[str, Any] | None:
        """Return a lagging rank's op, rank, node, launched and others, or None."""
        if different := _DIFFERENT_PATTERN.search(line):
            self._operation, self._counts = different[1], []
            return None
        if self._operation is None:
            return None
        if count := _COUNT_PATTERN.search(line):
            self._counts = [*self._counts, (int(count[1]), int(count[2] or 0))][-_MAX_COUNTS:]
            return None
        rank = _RANK_PATTERN.search(line)
        if not rank or not self._counts:
            return None
        launched = int(rank[2] or 0) if rank[2] or rank[3] else self._counts[-1][1]
        largest_world = max(self._counts)[1]
        if launched == largest_world:
            return None
        node = {"node": rank["node"]} if rank["node"] else {}
        return {"op": self._operation, "rank": rank[1], "launched": launched, "others": largest_world, **node, "counts": True}


# Read a job's log, of one rank or many (`tail -v` headers, launcher tags), into typed errors per rank.
#
# The earliest failing rank is the cause; others' later errors are consequences. The tenant's processes write all of it:
# low trust, never the kernel.

NEEDED_TEXTS = ("==> ", "Traceback (most", "NCCL version ", *RAS_NEEDLES, *NEEDLES)
_NEEDED_NEEDLES = Needles(NEEDED_TEXTS)
# launchers' reports that another process failed
_LAUNCHER_EXCEPTIONS = frozenset(
    {"ChildFailedError", "ProcessRaisedException", "ProcessExitedException", "CalledProcessError", "SystemExit", "KeyboardInterrupt"}
)
# their reason may be in the lines below
_VAGUE_EXCEPTIONS = frozenset(
    {"RuntimeError", "DistBackendError", "OSError", "AcceleratorError", "DistStoreError", "XlaRuntimeError", "InternalError"}
)
_MAX_LINE_KINDS = 1024  # cached line kinds
_CONTEXT_CHARS = 8192  # searched before a line for its time
_WHOLE = 1 << 24
_MAX_CARRIED_BYTES = 1 << 20  # of an open traceback that wait for the next piece
_MAX_TAGS = 100_000
# distinct errors by rank, file and type; further ones are counted. A log can print any number of ranks.
MAX_ERRORS = 4096
_VERSION_PATTERN = re.compile(r"NCCL version (\d[\w.]{2,20}(?:\+cuda[\d.]{2,8})?)")
_TAGGED_PATTERN = re.compile(rb"\[rank(\d{1,6})\]")
_CAUSES_BY_EXCEPTION = {"FileNotFoundError": "file_not_found", "PermissionError": "permission_denied"}
MAX_LOST_ERRORS = 8192  # left-out errors after which lines are only counted: this is no job's log


@dataclass(frozen=True, slots=True)
class JobLog:
    """A log's result. `versions`: NCCL version to its ranks. `left_out`: errors beyond MAX_ERRORS."""

    events: tuple[LogEvent, ...]
    ranks: frozenset[str]
    first_rank: str | None
    versions: Mapping[str, frozenset[str]]
    left_out: int = 0


@dataclass(slots=True)
class _RepeatCount:
    """Attribute names of an error's last occurrence, and its count since then."""

    names: tuple[str, ...]
    times: int = 1


class JobLogReader:
    """Reader of logs in pieces of whole lines."""

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
        """A traceback is open: the next piece is needed in full."""
        return self._carry is not None

    def feed(self, text: str) -> None:
        self.read_piece(build_piece(text.encode("utf-8", "replace")), _find_wanted_lines(text))

    def read_piece(self, piece: LogPiece, wanted: list[int]) -> None:
        """Read a piece. `wanted`: numbers of possibly relevant lines."""
        self._ranks |= {str(int(rank)) for rank in set(_TAGGED_PATTERN.findall(piece.block))}
        self._read_lines(*self._resume_traceback(piece, wanted), final=False)

    def finish(self) -> JobLog:
        """Return the result."""
        self._read_lines(*self._resume_traceback(build_piece(b""), []), final=True)
        for key, repeat_count in self._again.items():
            self._add_count(key, repeat_count.times)
        self._again = {}
        events = tuple(mark_first_error(list(self._events.values())))
        first = next((event.attrs["rank"] for event in events if event.attrs["first"]), None)
        return JobLog(
            events, frozenset(self._ranks), first, {name: frozenset(ranks) for name, ranks in self._versions.items()}, self._left_out
        )

    def _resume_traceback(self, piece: LogPiece, wanted: list[int]) -> tuple[LogPiece, list[int]]:
        if self._carry is not None:
            shift = len(self._carry.kinds)
            piece, wanted = join_pieces(self._carry, piece), [*self._carried, *(number + shift for number in wanted)]
            self._carry, self._carried = None, []
        return piece, wanted

    def _read_lines(self, piece: LogPiece, wanted: list[int], *, final: bool) -> None:
        taken_numbers: set[int] = set()
        self._tags = self._tags if len(self._tags) < _MAX_TAGS else {}
        lines = tracebacks.RankedLines(piece, self._tags)
        self._times = _PrecedingTimes(piece, self._now)
        for at, (number, wanted_line) in enumerate(zip(wanted, piece.get_lines(wanted), strict=True)):
            if number in taken_numbers:
                continue
            if self._left_out >= MAX_LOST_ERRORS:
                self._left_out += 1
                continue
            line = wanted_line.rpartition("\r")[2] if "\r" in wanted_line else wanted_line
            if line.startswith("==> ") and (path := parse_file_header(line)):
                self._start_file(path)
            elif tracebacks.TRACEBACK_START in line:
                tail = tracebacks.read_traceback(lines, number)
                if not tail.complete and not final and len(piece.block) - piece.get_start(number) < _MAX_CARRIED_BYTES:
                    self._carry, dropped_count = piece.get_rest(number, _CONTEXT_CHARS)
                    self._carried = [one - dropped_count for one in wanted[at:]]
                    return
                self._add_traceback(tail, lines)
                taken_numbers |= tail.lines
            else:
                self._read_line(number, line, piece.kinds[number])

    def _start_file(self, path: str) -> None:
        self._file, self._rank = path, get_rank_from_path(path)
        if self._rank is not None:
            self._rank = str(int(self._rank))
            self._ranks.add(self._rank)

    def _read_line(self, number: int, line: str, kind: bytes) -> None:
        if "NCCL version " in line and (version := _VERSION_PATTERN.search(line)):
            self._versions.setdefault(version[1], set()).add(self._find_rank(line) or "")
        if any(needle in line for needle in RAS_NEEDLES):
            if behind := self._ras.read_line(line):
                self._add_error(number, line, "collective_desync", dict(behind))
            return
        classified = classify_line(line, self._list_rules(line, kind if len(kind) <= MAX_LINE_CHARS else None))
        if classified:
            cause, attrs = classified
            self._add_error(number, line, cause, build_error_attrs(cause, attrs, line))

    def _list_rules(self, line: str, kind: bytes | None = None) -> tuple[ErrorRule, ...]:
        """Cached by line kind."""
        kind = kind or line.encode("utf-8", "replace").translate(DIGITS_TO_ZERO)
        rows = self._eligible.get(kind)
        if rows is None:
            if len(self._eligible) >= _MAX_LINE_KINDS:
                self._eligible = {}
            rows = self._eligible[kind] = list_eligible_rules(kind.decode("utf-8", "replace"))
        return rows

    def _add_traceback(self, tail: tracebacks.Traceback, lines: tracebacks.RankedLines) -> None:
        """One error: the first classified exception of the chain, else the last."""
        if not tail.chain:
            return
        last = tail.chain[-1]
        cause: str = "python_exception"
        attrs: dict[str, Any] = {}
        for raised in tail.chain:
            if classified := self._classify_exception(raised):
                cause, attrs = classified
                break
        else:
            if last.type.rpartition(".")[2] in _LAUNCHER_EXCEPTIONS:
                return
            if classified := self._classify_message_below(last, tail, lines):
                cause, attrs = classified
        raised_text = f"{last.type}: {last.detail}" if last.detail else last.type
        chain = {"chain": tuple(raised.type for raised in tail.chain)} if len(tail.chain) > 1 else {}
        self._add_error(
            tail.start, tail.line or raised_text, cause, {**attrs, "type": last.type, "detail": last.detail, **chain}, rank=tail.rank
        )

    def _classify_exception(self, raised: tracebacks.RaisedException) -> tuple[str, dict[str, Any]] | None:
        line = f"{raised.type}: {raised.detail}"
        name = raised.type.rpartition(".")[2]
        if name in _CAUSES_BY_EXCEPTION:
            return _CAUSES_BY_EXCEPTION[name], {}
        classified = classify_line(line, self._list_rules(line))
        return (classified[0], build_error_attrs(classified[0], classified[1], line)) if classified else None

    def _classify_message_below(
        self, last: tracebacks.RaisedException, tail: tracebacks.Traceback, lines: tracebacks.RankedLines
    ) -> tuple[str, dict[str, Any]] | None:
        """Message lines below a vague exception, up to the next log line."""
        if last.type.rpartition(".")[2] not in _VAGUE_EXCEPTIONS:
            return None
        for at in tail.more[:6]:
            line = tail.get_body(at, lines)
            if line.startswith("[") or find_time(line):
                break
            tail.lines.add(at)
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
        base = {"rank": rank, "time": time.isoformat() if time else None, "detail": line[:400].strip(), "count": 1, "file": self._file}
        base |= {"warning": True} if re.match(r".{0,40}\[W\d{3,4} |.{0,60}\bWARNING\b", line) else {}
        base |= attrs
        base["detail"] = redact(str(base["detail"]))[:400]
        device = str(attrs["device"]) if "device" in attrs else None
        self._events[key] = LogEvent("job.error", cause, device, time, "", str(redact_start(line, 2000)), base)

    def _count_repeat(self, key: tuple[object, ...], attrs: Mapping[str, Any]) -> None:
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
    """Last time before an undated line in the same file. Queries ascend, so each line is read once."""

    def __init__(self, piece: LogPiece, now: datetime | None) -> None:
        self._piece, self._now = piece, now
        self._asked = 0  # line of the last query
        self._found: tuple[int, datetime] | None = None  # its result: line and time

    def find_time_before(self, number: int) -> datetime | None:
        """None across a file header or beyond _CONTEXT_CHARS."""
        asked_number, known_time, self._asked, self._found = self._asked, self._found, number, None
        for at, line in self._iter_backwards(number):
            if at < asked_number:
                self._found = known_time if known_time and self._piece.count_chars(known_time[0], number) <= _CONTEXT_CHARS else None
                break
            if line.startswith("==> "):
                break
            if time := find_time(line, self._now):
                self._found = at, time
                break
        return self._found[1] if self._found else None

    def _iter_backwards(self, number: int) -> Iterator[tuple[int, str]]:
        remaining_chars = _CONTEXT_CHARS
        while number > 0 and remaining_chars > 0:
            number -= 1
            line = self._piece.get_raw_line(number, _WHOLE).decode("utf-8", "replace")
            remaining_chars -= len(line) + 1
            yield number, line if remaining_chars >= 0 else line[-remaining_chars:]


def read_job_log(text: str, now: datetime | None = None) -> JobLog:
    """Read logs as one text; `tail -v` headers separate files."""
    reader = JobLogReader(now)
    reader.feed(text)
    return reader.finish()


def list_job_events(text: str, now: datetime | None = None) -> list[LogEvent]:
    """Return only the errors."""
    return list(read_job_log(text, now).events)


def _find_wanted_lines(text: str) -> list[int]:
    starts = {start for start, _ in _NEEDED_NEEDLES.find_in_text(text)}
    starts |= {text.rfind("\n", 0, match.start()) + 1 for match in (EXPLODING_GRADIENT_PATTERN.finditer(text) if "rad" in text else ())}
    numbers, line, at = [], 0, 0
    for start in sorted(starts):
        line, at = line + text.count("\n", at, start), start
        numbers.append(line)
    return numbers
