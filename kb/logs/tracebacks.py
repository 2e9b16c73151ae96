"""Read Python tracebacks in a log, even if the lines of many ranks are interleaved.

[rank13]: Traceback (most recent call last):
[rank13]:   File "train.py", line 12, in <module>
[rank13]: KeyError: 'input_ids'
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import compress, count

from kb.logs.log_lines import LogPiece
from kb.logs.ranks import RANK_TAG_PATTERN, parse_file_header, split_rank_tag

TRACEBACK_START = "Traceback (most recent call last)"
_START_BYTES = TRACEBACK_START.encode()
_CHAIN_BYTES = b"above exception"
CHAIN_TEXTS = ("During handling of the above exception", "The above exception was the direct cause")
_RAISED_PATTERN = re.compile(r"([A-Za-z_][\w.]{0,200})(?:: ?(.{0,4000}))?$")
_MAX_TRACEBACK_LINES = 4000
_SCAN_LINES = 500  # lines scanned at a time
_MAX_TAG_BYTES = 128  # within which a line's tag ends
_FILE_HEADER = b"==> "
_FRAME_CHARS = " \t|+"  # first characters of frame lines
_FRAME_BYTES = frozenset(sign.encode() for sign in _FRAME_CHARS)
_FRAME_BEGINS = frozenset(_FRAME_CHARS)
_MAX_MESSAGE_LINES = 12  # message lines between an exception and a chained traceback
RankTag = tuple[int, int, int, bool]
# By line kind: byte span of the rank, character end of the tag, and whether a frame may follow; None without a tag.
RankTags = dict[bytes, RankTag | None]


@dataclass(frozen=True, slots=True)
class RaisedException:
    """The type of an exception and its message."""

    type: str
    detail: str


@dataclass(slots=True)
class Traceback:
    """A traceback.

    Attributes:
        lines: Its line numbers.
        chain: Its exceptions, oldest first.
        more: Numbers of the message lines below the last exception.
        complete: Whether it ended before the text did.
    """

    start: int
    rank: str | None
    prefix: str
    lines: set[int] = field(default_factory=set)
    chain: list[RaisedException] = field(default_factory=list)
    more: list[int] = field(default_factory=list)
    line: str = ""
    complete: bool = False
    _inside: bool = True
    _pending: list[int] = field(default_factory=list)

    def take_line(self, at: int, lines: "RankedLines") -> bool:
        """Read a line. Return False if it is past the end of the traceback."""
        if self._inside and not self.prefix and lines.is_frame(at):
            self.lines.add(at)
            return True
        if self._inside:
            return self._take_frame(at, lines.get_line(at), self.get_body(at, lines))
        if self._awaits_chained or lines.can_chain(at):
            return self._take_after_exception(at, self.get_body(at, lines))
        self._pending.append(at)
        self.more.append(at)
        return len(self._pending) < _MAX_MESSAGE_LINES

    def get_body(self, at: int, lines: "RankedLines") -> str:
        """Return the line without its rank tag and the traceback's prefix."""
        body = lines.get_untagged_line(at)
        return body[len(self.prefix) :] if self.prefix and body.startswith(self.prefix) else body

    @property
    def _awaits_chained(self) -> bool:
        """Whether the last line announced a chained traceback."""
        return bool(self._pending) and self._pending[-1] < 0

    def _take_frame(self, at: int, line: str, body: str) -> bool:
        if not body.strip() or body[0] in _FRAME_CHARS:
            self.lines.add(at)
            return True
        raised = _RAISED_PATTERN.match(body)
        if raised:
            self.chain.append(RaisedException(raised[1], (raised[2] or "").strip()))
            self.line = line
            self.more = []
            self._inside = False
            self.lines.add(at)
        return raised is not None

    def _take_after_exception(self, at: int, body: str) -> bool:
        if TRACEBACK_START in body:
            self._inside = self._awaits_chained
            self.lines |= {at, *map(abs, self._pending)} if self._inside else set()
            self._pending = []
            return self._inside
        if CHAIN_TEXTS[0] in body or CHAIN_TEXTS[1] in body:
            self._pending.append(-at)
        elif not self._awaits_chained or body.strip():
            self._pending.append(at)
            self.more.append(at)
        return len(self._pending) < _MAX_MESSAGE_LINES


class RankedLines:
    """The lines of a piece by rank, scanned once and on demand.

    `tags` caches the rank tag of each kind of line.
    """

    def __init__(self, piece: LogPiece, tags: RankTags) -> None:
        self._piece = piece
        self._tags = tags
        self._has_files: bool | None = None  # whether file headers separate the lines; None if not looked for
        self._headers: list[int] = []
        self._ranks: dict[str, list[int]] = {}
        self._names: dict[bytes, str] = {}
        self._first = self._next = 0  # first scanned line, and first line after it that was not

    def get_line(self, number: int) -> str:
        return self._piece.get_line(number)

    def is_frame(self, number: int) -> bool:
        """Return whether a scanned line's kind marks a frame."""
        kind = self._piece.kinds[number]
        tag = self._tags[kind]
        return tag[3] if tag else kind[:1] in _FRAME_BYTES

    def can_chain(self, number: int) -> bool:
        """Return whether the line may start or announce a chained traceback."""
        kind = self._piece.kinds[number]
        return _START_BYTES in kind or _CHAIN_BYTES in kind

    def get_untagged_line(self, number: int) -> str:
        """Return a scanned line without its rank tag."""
        line, tag = self._piece.get_line(number), self._tags[self._piece.kinds[number]]
        return line[tag[2] :].removeprefix(" ") if tag else line

    def iter_lines_after(self, number: int, rank: str | None) -> Iterator[int | None]:
        """Yield the numbers of the rank's next lines in the same file, then None if the piece ends before the file."""
        if not self._first <= number < self._next:
            self._headers = []
            self._ranks = {}
            self._first = number
            self._next = number
        next_line = number + 1
        end_line = next_line + _MAX_TRACEBACK_LINES
        while next_line < end_line:
            until = min(next_line + _SCAN_LINES, end_line)
            self._scan_until(until)
            header = bisect_left(self._headers, next_line)
            last = min(self._headers[header], until) if header < len(self._headers) else until
            yield from self._list_rank_lines(rank, next_line, last)
            if last < until:
                return
            if self._next < until:
                yield None
                return
            next_line = until

    def _list_rank_lines(self, rank: str | None, first: int, until: int) -> Iterable[int]:
        if rank is None:
            return (number for number in range(first, min(until, self._next)) if not self._tags[self._piece.kinds[number]])
        rank_lines = self._ranks.get(rank, [])
        return rank_lines[bisect_left(rank_lines, first) : bisect_left(rank_lines, until)]

    def _scan_until(self, until: int) -> None:
        first, kinds = self._next, self._piece.kinds[self._next : until]
        for kind in set(kinds).difference(self._tags):
            self._tags[kind] = _find_tag(kind)
        block, sizes, tags = self._piece.block, self._piece.sizes, list(map(self._tags.get, kinds))
        for number, (begin, end, _, _) in zip(compress(count(first), tags), filter(None, tags), strict=False):
            start = sizes[number] + number
            rank = block[start + begin : start + end]
            self._ranks.setdefault(self._names.get(rank) or self._get_rank_name(rank), []).append(number)
        if self._has_files is None:
            self._has_files = _FILE_HEADER in self._piece.block
        if self._has_files:
            self._headers += [
                at for at, kind in enumerate(kinds, first) if kind.startswith(_FILE_HEADER) and parse_file_header(self._piece.get_line(at))
            ]
        self._next = first + len(kinds)

    def _get_rank_name(self, rank: bytes) -> str:
        self._names[rank] = str(int(rank.decode()))
        return self._names[rank]


def _find_tag(kind: bytes) -> RankTag | None:
    head = kind[:_MAX_TAG_BYTES].decode("utf-8", "replace")
    match = RANK_TAG_PATTERN.match(head)
    if not match:
        return None
    begin, end = (len(head[:at].encode()) for at in match.span(match.lastindex or 1))
    return begin, end, match.end(), head[match.end() :].removeprefix(" ")[:1] in _FRAME_BEGINS


def read_traceback(lines: RankedLines, number: int) -> Traceback:
    """Read the traceback that starts at this line. Lines of other ranks are skipped."""
    rank, line = split_rank_tag(lines.get_line(number))
    prefix = line[: max(line.find(TRACEBACK_START), 0)]
    traceback = Traceback(number, rank, prefix, {number})
    for next_number in lines.iter_lines_after(number, rank):
        if next_number is None:
            return traceback
        if not traceback.take_line(next_number, lines):
            break
    traceback.complete = True
    return traceback
