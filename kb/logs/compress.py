"""Compress a log of any size into events and at most sixty templates with counts, times and offsets."""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from typing import IO

from kb.logs.job_error_rules import EXPLODING_GRADIENT_PATTERN
from kb.logs.job_log import NEEDED_TEXTS as JOB_NEEDED_TEXTS
from kb.logs.job_log import JobLog, JobLogReader
from kb.logs.kernel_log import NEEDED_TEXTS as KERNEL_NEEDED_TEXTS
from kb.logs.kernel_log import KernelLogReader
from kb.logs.log_lines import LogEvent, LogPiece, build_piece, find_time, fold_events
from kb.logs.template import KEPT_LINE_BYTES, TemplateTally, find_hex_lines, mask_around_xid, mask_line, select_templates, unify_hex
from kb.logs.template_filters import FILTERS, FilterRule, find_dropping_rule
from kb.needle_search import Needles, zero_digits
from kb.redact import redact

# Compress a log of any size into events and at most sixty templates with counts, times and offsets.
#
# One pass over byte blocks. Digits become zeros and hash tables count equal lines, so Python code runs once per *kind* of
# line. Events are extracted before masking.

Source = str | bytes | IO[str] | IO[bytes] | Iterable[str]
BLOCK_BYTES = 1 << 22
_MAX_LINE_BYTES = 1 << 24
_MAX_LINE_KINDS = 200_000  # cached line kinds; beyond it, kinds of earlier blocks are forgotten
_MAX_TEMPLATES = 4_000
_BRIEF_CHARS = 80
_PEER_WORD = "peer"  # lines with it are never dropped: they say which rank could not reach which


@dataclass(frozen=True, slots=True)
class Template:
    """A template with byte offsets of its first and last line; `example` is the first, redacted."""

    text: str
    count: int
    first: datetime | None
    last: datetime | None
    offset: int
    last_offset: int
    example: str


@dataclass(frozen=True, slots=True)
class CompressedLog:
    """The result. `dropped`: regular lines by rule; `left_out`: lines beyond the limit; nothing else is missing."""

    templates: tuple[Template, ...]
    events: tuple[LogEvent, ...]
    job: JobLog
    dropped: Mapping[str, int]
    left_out: int
    lines: int
    size: int


@dataclass(frozen=True, slots=True)
class _LineKind:
    """A line kind's template or dropping rule, and which readers need its lines.

    `numbers`: the job reader needs only lines with one of these, which zeroed digits hide.
    """

    template: str = ""
    rule: str | None = None
    kernel: bool = False
    job: bool = False
    xid: bool = False
    numbers: tuple[bytes, ...] = ()


def compress_log(source: Source, limit: int = 60, rules: Sequence[FilterRule] = FILTERS, now: datetime | None = None) -> CompressedLog:
    """Compress a text, bytes, an open file, or lines."""
    compressor = LogCompressor(rules, now)
    for block in _iter_blocks(source):
        compressor.feed(block)
    return compressor.finish(limit)


class LogCompressor:
    """Compressor of blocks, which may end inside a line."""

    def __init__(self, rules: Sequence[FilterRule] = FILTERS, now: datetime | None = None) -> None:
        self._rules, self._now = rules, now
        self._kernel, self._job = KernelLogReader(now), JobLogReader(now)
        self._kinds: dict[bytes, _LineKind] = {}
        self._groups: dict[str, TemplateTally] = {}
        self._shapes: dict[str, _LineKind] = {}
        self._alike: dict[tuple[object, ...], _LineKind] = {}
        self._templates: dict[str, str | None] = {}
        self._beginnings: dict[str, str] = {}
        self._parts: dict[str, str] = {}
        self._dropped: Counter[str] = Counter()
        self._rest = b""
        self._done = self._lines = 0

    def feed(self, block: bytes) -> None:
        block = self._rest + block
        end = block.rfind(b"\n") + 1
        if not end and len(block) < _MAX_LINE_BYTES:
            self._rest = block
            return
        end = end or len(block)
        self._rest = block[end:]
        self._count_lines(block[:end])

    def finish(self, limit: int = 60) -> CompressedLog:
        if self._rest:
            self._count_lines(self._rest)
            self._rest = b""
        job = self._job.finish()
        groups, left_out = select_templates(list(self._groups.values()), limit)
        templates = tuple(self._build_template(group) for group in groups)
        events = (*fold_events(self._kernel.finish()), *job.events)
        return CompressedLog(templates, events, job, dict(self._dropped), left_out, self._lines, self._done)

    def _count_lines(self, block: bytes) -> None:
        if b"\r" in block:
            block = block.replace(b"\r\n", b" \n").replace(b"\r", b"\n")  # progress bars overwrite one line; offsets stay valid
        piece = build_piece(block)
        counts = Counter(piece.kinds)
        counts.pop(b"", None)
        if fresh := self._list_new_kinds(counts):
            self._learn_kinds(fresh)
        line_by_kind = _find_lines_of_kinds(piece, {key for key in counts if not self._kinds[key].rule})
        self._add_block_counts(piece, counts, line_by_kind)
        if wanted_kinds := {key: kind for key in counts if (kind := self._kinds[key]).kernel or kind.job}:
            self._extract_events(piece, line_by_kind, wanted_kinds)
        elif self._job.is_waiting:
            self._job.read_piece(piece, [])
        self._lines += counts.total()
        self._done += len(block)

    def _list_new_kinds(self, counts: Mapping[bytes, int]) -> list[bytes]:
        fresh = [key for key in counts if key not in self._kinds]
        if len(self._kinds) + len(fresh) > _MAX_LINE_KINDS:
            self._kinds = {key: self._kinds[key] for key in counts if key in self._kinds}
            self._shapes = self._shapes if len(self._shapes) < _MAX_LINE_KINDS else {}
        return fresh

    def _learn_kinds(self, keys: Sequence[bytes]) -> None:
        """Kinds that differ only in a hash or address share a shape."""
        shapes = b"\n".join(keys).decode("utf-8", "replace").split("\n")
        some = [at for at in find_hex_lines(keys) if len(shapes[at]) <= KEPT_LINE_BYTES]  # a longer line may be cut inside a hash
        for at, shape in zip(some, unify_hex("\n".join(shapes[at] for at in some)).split("\n"), strict=bool(some)):
            shapes[at] = shape
        self._learn_shapes([shape for shape in dict.fromkeys(shapes) if shape not in self._shapes])
        self._kinds.update(zip(keys, map(self._shapes.__getitem__, shapes), strict=True))

    def _learn_shapes(self, shapes: Sequence[str]) -> None:
        text = "\n".join(shapes)
        needles_by_start = {start: needles for (start, _), needles in _NEEDLES.find_in_text(text).items()}
        at = 0
        for shape in shapes:
            needles = needles_by_start.get(at)
            self._shapes[shape] = self._classify_line(shape) if needles is None else self._classify_by_needles(needles, shape)
            at += len(shape) + 1

    def _classify_by_needles(self, needles: Set[str], shape: str) -> _LineKind:
        sure = not needles.isdisjoint(_JOB_NEEDLES) or (
            _GRADIENT_NEEDLE in needles and EXPLODING_GRADIENT_PATTERN.search(shape) is not None
        )
        numbers = (
            () if sure or needles.isdisjoint(_ZEROED_NEEDLES) else tuple(needle for needle, zeros in _NUMBER_NEEDLES if zeros in needles)
        )
        return self._classify_line(shape, not needles.isdisjoint(_KERNEL_NEEDLES), sure or bool(numbers), numbers)

    def _classify_line(self, line: str, kernel: bool = False, job: bool = False, numbers: tuple[bytes, ...] = ()) -> _LineKind:
        if "Xid (" in line:
            return _LineKind("", None, True, job, True, numbers)  # every Xid line is read, and gets a template of its own
        if len(self._templates) >= _MAX_TEMPLATES:
            return self._intern_kind(self._get_coarse_template(line), None, kernel, job, numbers)
        template = mask_line(line[:KEPT_LINE_BYTES])
        if template not in self._templates:
            self._templates[template] = find_dropping_rule(template, self._rules)
        return self._intern_kind(template, None if kernel or job or _PEER_WORD in line else self._templates[template], kernel, job, numbers)

    def _intern_kind(self, template: str, rule: str | None, kernel: bool, job: bool, numbers: tuple[bytes, ...]) -> _LineKind:
        kind_key = (template, rule, kernel, job, numbers)
        kind = self._alike.get(kind_key)
        if kind is None:
            kind = self._alike[kind_key] = _LineKind(template, rule, kernel, job, False, numbers)
        return kind

    def _get_coarse_template(self, line: str) -> str:
        """Beyond _MAX_TEMPLATES, group by first words, finally all together."""
        words = " ".join(line[:_BRIEF_CHARS].split(" ", 2)[:2])
        if words not in self._beginnings:
            if len(self._beginnings) >= _MAX_TEMPLATES:
                return "…"
            self._beginnings[words] = f"{mask_line(words)} …"
        return self._beginnings[words]

    def _add_block_counts(self, piece: LogPiece, counts: Mapping[bytes, int], told: Sequence[int]) -> None:
        """`told`: lines that no rule drops."""
        keys = piece.kinds
        last = dict(zip(map(keys.__getitem__, told), told, strict=True))
        tally: dict[str, list[int]] = {}
        at = 0
        for key, count in counts.items():  # in the order of first sight
            kind = self._kinds[key]
            if kind.rule:
                self._dropped[kind.rule] += count
            elif kind.xid:
                continue
            elif row := tally.get(kind.template):
                row[0] += count
                row[2] = max(row[2], last[key])
            else:
                at = keys.index(key, at)
                tally[kind.template] = [count, at, last[key]]
        for template, (count, at, until) in tally.items():
            first, end = piece.get_raw_line(at, KEPT_LINE_BYTES), piece.get_raw_line(until, KEPT_LINE_BYTES)
            self._add_to_tally(template, count, self._done + piece.get_start(at), self._done + piece.get_start(until), first, end)

    def _add_to_tally(self, text: str, count: int, start: int, end: int, first: bytes, last: bytes, *, fixed: bool = False) -> None:
        if group := self._groups.get(text):
            group.add_lines(count, start, end, first, last)
        else:
            self._groups[text] = TemplateTally(text, count, start, end, first[:KEPT_LINE_BYTES], last[:KEPT_LINE_BYTES], fixed)

    def _extract_events(self, piece: LogPiece, told: Sequence[int], wanted: Mapping[bytes, _LineKind]) -> None:
        """Xids get templates of their own."""
        kernel = _find_lines_of_kinds(piece, {key for key, kind in wanted.items() if kind.kernel}, told)
        job = _find_lines_of_kinds(piece, {key for key, kind in wanted.items() if kind.job}, told)
        if exact := {key: kind.numbers for key, kind in wanted.items() if kind.numbers}:
            job = [
                at
                for at in job
                if not (numbers := exact.get(piece.kinds[at])) or _holds_number(piece.get_raw_line(at, _MAX_LINE_BYTES), numbers)
            ]
        for at in _find_lines_of_kinds(piece, {key for key, kind in wanted.items() if kind.xid}, kernel):
            self._count_xid(piece.get_raw_line(at, KEPT_LINE_BYTES), self._done + piece.get_start(at))
        if kernel:
            self._kernel.read_piece(piece, kernel)
        if job or self._job.is_waiting:
            self._job.read_piece(piece, job)

    def _count_xid(self, line: bytes, place: int) -> None:
        many = len(self._groups) >= 2 * _MAX_TEMPLATES
        self._add_to_tally(
            "Xid …" if many else mask_around_xid(_decode_start(line), self._mask_cached), 1, place, place, line, line, fixed=True
        )

    def _mask_cached(self, text: str) -> str:
        template = self._parts.get(text) or self._parts.get(shape := unify_hex(text))
        if template is None:
            if len(self._parts) >= _MAX_TEMPLATES:
                self._parts = {}
            template = self._parts[shape] = mask_line(shape)
        return template

    def _build_template(self, group: TemplateTally) -> Template:
        example = _decode_start(group.first)
        first, last = find_time(example, self._now), find_time(_decode_start(group.last), self._now)
        return Template(redact(group.text), group.count, first, last, group.offset, group.last_offset, redact(example))


def _find_lines_of_kinds(piece: LogPiece, kinds: Set[bytes], among: Sequence[int] | None = None) -> list[int]:
    if not kinds:
        return []
    if among is None:
        return list(itertools.compress(range(len(piece.kinds)), map(kinds.__contains__, piece.kinds)))
    return list(itertools.compress(among, map(kinds.__contains__, map(piece.kinds.__getitem__, among))))


def _holds_number(line: bytes, numbers: tuple[bytes, ...]) -> bool:
    return any(number in line for number in numbers)


def _decode_start(line: bytes) -> str:
    return line[:KEPT_LINE_BYTES].decode("utf-8", "replace")


_DIGIT_NEEDLES = tuple(needle for needle in JOB_NEEDED_TEXTS if any(map(str.isdigit, needle)))
_KERNEL_NEEDLES = frozenset(map(zero_digits, KERNEL_NEEDED_TEXTS))
_JOB_NEEDLES = frozenset(JOB_NEEDED_TEXTS) - frozenset(_DIGIT_NEEDLES)
_NUMBER_NEEDLES = tuple((needle.encode(), zero_digits(needle)) for needle in _DIGIT_NEEDLES)
_ZEROED_NEEDLES = frozenset(zeros for _, zeros in _NUMBER_NEEDLES)
_GRADIENT_NEEDLE = "rad"  # in every line about a gradient
_NEEDLES = Needles((*_KERNEL_NEEDLES, *_JOB_NEEDLES, *_ZEROED_NEEDLES, _GRADIENT_NEEDLE))


def _iter_blocks(source: Source) -> Iterator[bytes]:
    if isinstance(source, bytes | str):
        data = source if isinstance(source, bytes) else source.encode("utf-8", "replace")
        yield from (data[at : at + BLOCK_BYTES] for at in range(0, len(data), BLOCK_BYTES))
    elif hasattr(source, "read"):
        while piece := source.read(BLOCK_BYTES):
            yield piece if isinstance(piece, bytes) else piece.encode("utf-8", "replace")
    else:
        yield from ((line.rstrip("\n") + "\n").encode("utf-8", "replace") for line in source)


# Line numbers for templates' byte offsets.


def add_line_numbers(log: bytes, templates: Sequence[Template]) -> Iterator[tuple[Template, int, int]]:
    """Return templates with first and last line number, from 1, in one pass."""
    numbers: dict[int, int] = {}
    line, at = 1, 0
    for offset in sorted({offset for row in templates for offset in (row.offset, row.last_offset)}):
        line += log.count(b"\n", at, offset)
        numbers[offset], at = line, offset
    return ((row, numbers[row.offset], numbers[row.last_offset]) for row in templates)
