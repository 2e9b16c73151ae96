"""Python tracebacks in a log, also where many ranks write into one file: where each ends, and what was raised.

[rank13]: Traceback (most recent call last):
[rank13]:   File "train.py", line 12, in <module>
[rank13]: KeyError: 'input_ids'
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from kb.logs.job.ranks import TAG, file_of, untag

START = "Traceback (most recent call last)"
CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
_RAISED = re.compile(r"([A-Za-z_][\w.]{0,200})(?:: ?(.{0,4000}))?$")
_LONGEST = 16_384
_MOST = 4000
_CHUNK = 256
_MORE = 12
"""Lines of message that may follow an exception before a chained traceback goes on."""


@dataclass(frozen=True, slots=True)
class Raised:
    """One exception of a chain, oldest first in `Traceback.chain`."""

    type: str
    detail: str


@dataclass(slots=True)
class Traceback:
    """`lines` are the offsets of the lines that belong to it; `more` the lines of message below the last exception.

    `complete` is False where the text ends inside it.
    """

    start: int
    rank: str | None
    prefix: str
    lines: set[int] = field(default_factory=set)
    chain: list[Raised] = field(default_factory=list)
    more: list[tuple[int, str]] = field(default_factory=list)
    line: str = ""
    complete: bool = False
    _inside: bool = True
    _pending: list[int] = field(default_factory=list)

    def take(self, at: int, line: str, body: str) -> bool:
        """One further line of this rank; False when it is past the end."""
        body = body[len(self.prefix) :] if self.prefix and body.startswith(self.prefix) else body
        return self._frame(at, line, body) if self._inside else self._after(at, body)

    def _frame(self, at: int, line: str, body: str) -> bool:
        if not body.strip() or body[0] in " \t|+":
            self.lines.add(at)
            return True
        raised = _RAISED.match(body)
        if raised:
            self.chain.append(Raised(raised[1], (raised[2] or "").strip()))
            self.line, self.more, self._inside = line, [], False
            self.lines.add(at)
        return raised is not None

    def _after(self, at: int, body: str) -> bool:
        if START in body:
            self._inside = bool(self._pending) and self._pending[-1] < 0
            self.lines |= {at, *map(abs, self._pending)} if self._inside else set()
            self._pending = []
            return self._inside
        if CHAINED[0] in body or CHAINED[1] in body:
            self._pending.append(-at)
        elif not self._pending or self._pending[-1] >= 0 or body.strip():
            self._pending.append(at)
            self.more.append((at, body))
        return len(self._pending) < _MORE


class Lines:
    """A text's lines by the rank whose tag they carry, looked at as far as a traceback asks and once, however many tracebacks there are."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lines: list[str] = []
        self._ends: list[int] = []
        """Characters of all lines up to each, ends of lines apart."""
        self._files = False
        self._headers: list[int] = []
        self._ranks: dict[str | None, list[int]] = {}
        self._tags: dict[int, tuple[str, int]] = {}
        """Of the lines that were looked at and have a tag: its rank, and where it ends."""
        self._first = self._next = 0
        """Numbers of the first line that was looked at, and of the first behind it that was not."""

    def at(self, start: int) -> str:
        """One line."""
        end = self._text.find("\n", start)
        end = len(self._text) if end < 0 else end
        return self._text[start : min(end, start + _LONGEST)].rstrip("\r")

    def after(self, start: int, rank: str | None) -> Iterator[tuple[int, str, str] | None]:
        """The rank's next lines in the same file: where, the line, and without its tag. None last, where the text ends first."""
        place = self._place(start) + 1
        most = place + _MOST
        while place < most:
            until = min(place + _CHUNK, most)
            self._look(until)
            headers = self._headers[bisect_left(self._headers, place) :]
            for number in self._of(rank, place, min(headers[0], until) if headers else until):
                line, end = self._lines[number][:_LONGEST].rstrip("\r"), self._tags.get(number, (None, 0))[1]
                yield self._start(number), line, line[end:].removeprefix(" ") if end else line
            if headers and headers[0] < until:
                return
            if self._next < until:
                yield None
                return
            place = until

    def _of(self, rank: str | None, first: int, until: int) -> Sequence[int]:
        """The numbers of the rank's lines."""
        if rank is None:
            return [number for number in range(first, min(until, self._next)) if number not in self._tags]
        own = self._ranks.get(rank, [])
        return own[bisect_left(own, first) : bisect_left(own, until)]

    def _start(self, number: int) -> int:
        return self._ends[number - 1] + number if number else 0

    def _place(self, start: int) -> int:
        """The line's number. What lies before it is of no use any more when nobody has looked so far."""
        if not self._ends:
            self._lines = self._text.split("\n")
            if not self._lines[-1]:
                self._lines.pop()
            self._ends = list(accumulate(map(len, self._lines)))
            self._files = "==> " in self._text
        place = bisect_left(range(len(self._lines)), start, key=self._start)
        if not self._first <= place < self._next:
            self._headers, self._ranks, self._tags, self._first, self._next = [], {}, {}, place, place
        return place

    def _look(self, until: int) -> None:
        first, lines = self._next, self._lines[self._next : until]
        for number, found in enumerate(map(TAG.match, lines), first):
            if found:
                rank = str(int(found[found.lastindex or 1]))
                self._tags[number] = (rank, found.end())
                self._ranks.setdefault(rank, []).append(number)
        if self._files:
            self._headers += [at for at, line in enumerate(lines, first) if file_of(line[:_LONGEST].rstrip("\r"))]
        self._next = first + len(lines)


def read(lines: Lines, start: int) -> Traceback:
    """The traceback whose first line begins at `start`; lines of other ranks in between are left alone."""
    tag, bare = untag(lines.at(start))
    tail = Traceback(start, tag, bare[: max(bare.find(START), 0)], {start})
    for found in lines.after(start, tag):
        if found is None:
            return tail
        if not tail.take(*found):
            break
    tail.complete = True
    return tail
