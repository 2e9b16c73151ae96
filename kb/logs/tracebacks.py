"""Python tracebacks in a log, also interleaved over many ranks: extent and exceptions.

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
_START = TRACEBACK_START.encode()
_ABOVE = b"above exception"
CHAIN_TEXTS = ("During handling of the above exception", "The above exception was the direct cause")
_RAISED_PATTERN = re.compile(r"([A-Za-z_][\w.]{0,200})(?:: ?(.{0,4000}))?$")
_MOST = 4000
_CHUNK = 500
_MAX_TAG_BYTES = 128  # within which a line's tag ends
_HEADER = b"==> "
_FRAME_CHARS = " \t|+"  # first characters of frame lines
_FRAME_BYTES = frozenset(sign.encode() for sign in _FRAME_CHARS)
_FRAME_BEGINS = frozenset(_FRAME_CHARS)
_MAX_MESSAGE_LINES = 12  # message lines between an exception and a chained traceback


@dataclass(frozen=True, slots=True)
class RaisedException:
    """One exception."""

    type: str
    detail: str


@dataclass(slots=True)
class Traceback:
    """A traceback. `lines`: its line numbers; `more`: message lines below the last exception; `chain`: oldest first.

    `complete` is False if the text ends inside it.
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
        """Return False past the end."""
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
        """Strip tag and prefix."""
        body = lines.get_untagged_line(at)
        return body[len(self.prefix) :] if self.prefix and body.startswith(self.prefix) else body

    @property
    def _awaits_chained(self) -> bool:
        """A chaining text was read."""
        return bool(self._pending) and self._pending[-1] < 0

    def _take_frame(self, at: int, line: str, body: str) -> bool:
        if not body.strip() or body[0] in _FRAME_CHARS:
            self.lines.add(at)
            return True
        raised = _RAISED_PATTERN.match(body)
        if raised:
            self.chain.append(RaisedException(raised[1], (raised[2] or "").strip()))
            self.line, self.more, self._inside = line, [], False
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


RankTag = tuple[int, int, int, bool]
# By line kind: byte span of the rank, character end of the tag, and whether a frame may follow; None without a tag.
RankTags = dict[bytes, RankTag | None]


class RankedLines:
    """A piece's lines by rank, scanned once and on demand. `tags` caches line kinds."""

    def __init__(self, piece: LogPiece, tags: RankTags) -> None:
        self._piece, self._known = piece, tags
        self._files: bool | None = None
        self._headers: list[int] = []
        self._ranks: dict[str, list[int]] = {}
        self._names: dict[bytes, str] = {}
        self._first = self._next = 0  # first scanned line, and first line after it that was not

    def get_line(self, number: int) -> str:
        return self._piece.get_line(number)

    def is_frame(self, number: int) -> bool:
        """Return whether a scanned line's kind marks a frame."""
        kind = self._piece.kinds[number]
        return tag[3] if (tag := self._known[kind]) else kind[:1] in _FRAME_BYTES

    def can_chain(self, number: int) -> bool:
        """Return whether the line may start or announce a chained traceback."""
        kind = self._piece.kinds[number]
        return _START in kind or _ABOVE in kind

    def get_untagged_line(self, number: int) -> str:
        """Strip a scanned line's tag."""
        line, tag = self._piece.get_line(number), self._known[self._piece.kinds[number]]
        return line[tag[2] :].removeprefix(" ") if tag else line

    def iter_lines_after(self, number: int, rank: str | None) -> Iterator[int | None]:
        """Yield the rank's next lines in the same file, then None if the piece ends first."""
        if not self._first <= number < self._next:
            self._headers, self._ranks, self._first, self._next = [], {}, number, number
        place = number + 1
        most = place + _MOST
        while place < most:
            until = min(place + _CHUNK, most)
            self._scan_until(until)
            header = bisect_left(self._headers, place)
            last = min(self._headers[header], until) if header < len(self._headers) else until
            yield from self._list_rank_lines(rank, place, last)
            if last < until:
                return
            if self._next < until:
                yield None
                return
            place = until

    def _list_rank_lines(self, rank: str | None, first: int, until: int) -> Iterable[int]:
        if rank is None:
            return (number for number in range(first, min(until, self._next)) if not self._known[self._piece.kinds[number]])
        own = self._ranks.get(rank, [])
        return own[bisect_left(own, first) : bisect_left(own, until)]

    def _scan_until(self, until: int) -> None:
        first, kinds = self._next, self._piece.kinds[self._next : until]
        for kind in set(kinds).difference(self._known):
            self._known[kind] = _find_tag(kind)
        block, sizes, tags = self._piece.block, self._piece.sizes, list(map(self._known.get, kinds))
        for number, (begin, end, _, _) in zip(compress(count(first), tags), filter(None, tags), strict=False):
            start = sizes[number] + number
            rank = block[start + begin : start + end]
            self._ranks.setdefault(self._names.get(rank) or self._get_rank_name(rank), []).append(number)
        if self._files is None:
            self._files = _HEADER in self._piece.block
        if self._files:
            self._headers += [
                at for at, kind in enumerate(kinds, first) if kind.startswith(_HEADER) and parse_file_header(self._piece.get_line(at))
            ]
        self._next = first + len(kinds)

    def _get_rank_name(self, rank: bytes) -> str:
        name = self._names[rank] = str(int(rank.decode()))
        return name


def _find_tag(kind: bytes) -> RankTag | None:
    head = kind[:_MAX_TAG_BYTES].decode("utf-8", "replace")
    match = RANK_TAG_PATTERN.match(head)
    if not match:
        return None
    begin, end = (len(head[:at].encode()) for at in match.span(match.lastindex or 1))
    return begin, end, match.end(), head[match.end() :].removeprefix(" ")[:1] in _FRAME_BEGINS


def read_traceback(lines: RankedLines, number: int) -> Traceback:
    """Read the traceback at this line, skipping other ranks' lines."""
    tag, bare = split_rank_tag(lines.get_line(number))
    tail = Traceback(number, tag, bare[: max(bare.find(TRACEBACK_START), 0)], {number})
    for line in lines.iter_lines_after(number, tag):
        if line is None:
            return tail
        if not tail.take_line(line, lines):
            break
    tail.complete = True
    return tail
