"""Which hosts and which job a text names. Hosts match as whole words against those that are known; ranges may be written in any way. Pure.

What looks like a host and is none of the known ones is named as such, in the spelling of the text: it is never taken for another.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from tools.inventory.nearest import slips
from tools.inventory.ranges import BadRange, expand

_TOKEN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252}[A-Za-z0-9])?(?![A-Za-z0-9])")
_BRACKETS = re.compile(r"(?<![\w.-])[A-Za-z][A-Za-z0-9._-]{0,80}[\[{][0-9][0-9,. :-]{0,200}[\]}][A-Za-z0-9.-]{0,80}")
_SPAN = re.compile(
    r"(?<![\w.-])(?P<name>[A-Za-z][A-Za-z0-9._-]{0,80}?)(?P<low>\d{1,6})(?:\.[a-z][\w.-]{0,80})?"
    r"(?P<by> ?(?:\.\.\.?|…) ?| ?(?:to|through|thru|until|[-–—]>?) ?|-)(?P<again>[A-Za-z][A-Za-z0-9._-]{0,80}?)?(?P<high>\d{1,6})(?![\w])"
)
_LIST = re.compile(
    r"(?<![\w.-])(?P<name>[A-Za-z][A-Za-z0-9._-]{0,80}?)(?P<low>\d{1,6})(?P<more>(?: ?(?:,|/|&|and|or|\+)(?: and|"
    r" or)? ?\d{1,6}(?![\w.:%/-])){1,64})"
)
_NODES = re.compile(
    r"(?<!\d )\b(?:nodes?|hosts?|machines?|servers?) #?(?P<low>\d{1,6})(?:(?: ?(?:-|–|to|through|\.\.) ?)"
    r"(?P<high>\d{1,6}))?(?![\w.:%])(?! ?(?:gpu|node|rank|times|x\b|minute|hour))",
    re.IGNORECASE,
)
_CALLED = re.compile(
    r"\b(?:nodes?|hosts?|machines?|servers?|box) (?:called |named )?[`*'\"]?(?P<name>[a-z][a-z0-9.-]{0,60}\d[a-z0-9.-]{0,60})",
    re.IGNORECASE,
)
_NO_HOST = re.compile(r"(?:gb|[habvlpt]|rtx|gtx|mi|mlx|cuda|gpu|gpus|ib|eth|ens|enp|nvme|xid|rank|cx)[_-]?\d+[a-z]*$", re.IGNORECASE)
"""GPU models, devices and other things that are numbered like hosts."""
_HOST_WORD = re.compile(
    r"(?:gpu|node|host|srv|server|compute|machine)(?:[-_](?:0\d{1,3}|\d{3,4})|0\d{1,3})$|[dh]gx[-_]?0\d{1,3}$", re.IGNORECASE
)
"""Names that are hosts in any fleet: a word for one and a number that counts no devices."""
_PRIVATE = frozenset({"local", "localdomain", "internal", "intranet", "lan", "corp", "private", "cluster"})
"""Last labels that no two sites share, so that they say nothing about whose host it is."""
_FILES = frozenset({"gz", "xz", "zst", "bz2", "zip", "log", "txt", "out", "err", "json", "yaml", "yml", "py", "sh", "pt"})
_NUMBER = re.compile(r"^(.*?)(\d+)$")
_JOB = (
    re.compile(
        r"\b(?:slurm[ _-]?)?job[ _-]?(?:id|number|no\.?|nr\.?)?[ ]?[:=#`'\"]{0,3} ?(?:is |was )?[#`*'\"]{0,2}"
        r"(?P<job>\d{2,12}(?:_\d{1,6})?)(?![\w-])",
        re.IGNORECASE,
    ),
    re.compile(
        r"\b(?:slurm[ _-]?)?job [#`*'\"]{0,2}(?P<job>\d)(?![\w%:-]|\.\d)"
        r"(?! ?(?:of|x|times?|gpus?|nodes?|hosts?|ranks?|tasks?|steps?|seconds?|minutes?|hours?|days?|weeks?|more|other)\b)",
        re.IGNORECASE,
    ),
    re.compile(
        r"\b(?:slurm[ _]?)?job[ _-]?id[ ]?[:=]? ?[`'\"]?(?P<job>[A-Za-z0-9][A-Za-z0-9._-]{0,63}\d[A-Za-z0-9._-]{0,20}|\d{1,12})",
        re.IGNORECASE,
    ),
    re.compile(r"\bjob(?: called| named)?[ :=]{1,2}[`'\"](?P<job>[A-Za-z0-9][A-Za-z0-9._-]{1,63})[`'\"]", re.IGNORECASE),
)
_FEW = 512
"""Hosts that one range may name before it is taken for something else."""


@dataclass(frozen=True, slots=True)
class Named:
    """Hosts in the order of the text."""

    hosts: tuple[str, ...]
    unknown: tuple[str, ...]


def hosts_in(text: str, known: "Collection[str] | HostBook", domains: Collection[str] | None = None) -> Named:
    """IdeaChoices hosts the text names, and names and ranges that look like hosts but are not known. Who reads many texts gives a book, with its
    domains in it.

    `domains` are those of the known hosts: a full name of another domain is another host. None where any is believed, as in what
    our own machines print.
    """
    book = known if isinstance(known, HostBook) else HostBook(known, domains)
    found: list[tuple[int, str]] = []
    rest = text
    for pattern, names in ((_BRACKETS, _bracketed), (_SPAN, _spanned), (_LIST, _listed)):
        for match in pattern.finditer(rest):
            members = names(match, book)
            if members:
                found += [(match.start(), name) for name in members]
                rest = rest[: match.start()] + " " * len(match[0]) + rest[match.end() :]
    found += [(match.start(), name) for match in _NODES.finditer(rest) for name in _numbered(match, book)]
    found += [(match.start(), match[0]) for match in _TOKEN.finditer(rest) if book.knows(match[0]) or book.looks_like_one(match[0])]
    found += [(match.start(), match["name"].rstrip(".-")) for match in _CALLED.finditer(rest) if book and not _NO_HOST.match(match["name"])]
    return _sorted_out(found, book)


_BARE_NUMBER = re.compile(r"(?<![\w.:/#\[,-])0\d{2,5}(?![\w.:%\]-])")


_COUNTS_ELSE = re.compile(
    r"\b(?:jobs?|ranks?|steps?|epochs?|iterations?|batch|tickets?|incidents?|codes?|s?xids?|pids?|errors?|runs?|rooms?|racks?|ports?|lanes?|"
    r"tasks?|arrays?|users?|versions?|attempts?|lines?|ids?|nr|no|number)\W{0,3}(?:is |was )?(?:\d{1,8}(?:, ?| and | or | ?/ ?)){0,4}$",
    re.IGNORECASE,
)
"""What stands before a number that counts no hosts."""
_LONGEST_COUNT = 64


def with_full_names(text: str, known: "Collection[str] | HostBook") -> str:
    """The text with `003` written as `gpu-003`, where the numbers of the known hosts are written so and only one has it. A bare number with
    zeros before it is hardly anything else among people who look at numbered hosts."""
    book = known if isinstance(known, HostBook) else HostBook(known)

    def full(found: re.Match[str]) -> str:
        before = text[max(0, found.start() - _LONGEST_COUNT) : found.start()]
        return found[0] if _COUNTS_ELSE.search(before) else book.called(found[0]) or found[0]

    return _BARE_NUMBER.sub(full, text)


def job_in(text: str) -> str:
    """The job id, or nothing."""
    found = next((found for pattern in _JOB if (found := pattern.search(text))), None)
    return found["job"].rstrip(".-") if found else ""


class HostBook:
    """The known hosts under the spellings people use: any case, short or full name, a number without its zeros where that is unambiguous.
    `known`: hosts, or every name of theirs and the host that it is of. Written once for each inventory: its cost is that of all hosts."""

    def __init__(self, known: Collection[str], domains: Collection[str] | None = None) -> None:
        host_of = known if isinstance(known, Mapping) else {host: host for host in known}
        self._domains = domains
        self._exact = {name.lower(): host for name, host in host_of.items()}
        self._short = _unique((name.partition(".")[0].lower(), host) for name, host in host_of.items())
        self._numbered = _unique((key, host) for name, host in host_of.items() if (key := _key(name.partition(".")[0])))
        self.stems = {stem for host in known if (stem := _stem(host))}
        self._letters = {_letters(stem) for stem in self.stems}
        self._numbers = {number for host in known if (number := _digits(host))}
        self._widths = {len(number) for number in self._numbers}
        self.wordy = {name: host for name, host in self._exact.items() if not any(letter.isdigit() for letter in name)}
        """Hosts whose names are words."""
        self._of_number = _unique((digits, host) for name, host in host_of.items() if (digits := _digits(name.partition(".")[0])))

    def __bool__(self) -> bool:
        return bool(self._exact)

    def called(self, number: str) -> str | None:
        """The one host that has this number, in this very spelling."""
        return self._of_number.get(number)

    def knows(self, name: str) -> str | None:
        """The known host of this name."""
        lowered = name.lower().rstrip(".")
        short, _, domain = lowered.partition(".")
        found = self._exact.get(lowered) or self._short.get(lowered)
        if found or not self._ours(domain):
            return found
        return (self._short.get(short) if domain else None) or self._without_zeros(short)

    def _ours(self, domain: str) -> bool:
        """Whether a short name with this behind it may be one of the known hosts. A file is called after a host, too."""
        if self._domains is None or "." not in domain or domain in self._domains:
            return True
        last = domain.rpartition(".")[2]
        return last in _FILES or (not self._domains and last in _PRIVATE)

    def _without_zeros(self, short: str) -> str | None:
        host = self._numbered.get(_key(short)) if _key(short) else None
        return host if host and len(short) < len(host.partition(".")[0]) else None

    def has(self, name: str) -> bool:
        """It is known in this very spelling."""
        return name.lower() in self._exact or name.lower() in self._short

    def resembles(self, name: str) -> bool:
        """It is numbered like the known hosts."""
        return _stem(name) in self.stems

    def looks_like_one(self, name: str) -> bool:
        """Numbered like the known hosts, spelt almost like one of them, or called what hosts are called anywhere."""
        return self.resembles(name) or self._misspelt(name) or bool(self._exact and _HOST_WORD.match(name.partition(".")[0]))

    def _misspelt(self, name: str) -> bool:
        """Other separators, or one slip in the letters before the very number of a known host. `gpu3` and `gpu-12` are devices."""
        letters, digits = _letters(_stem(name)), _digits(name)
        if len(letters) < 2 or len(digits) < 2 or (_NO_HOST.match(name) and not digits.startswith("0")):
            return False
        if letters in self._letters:
            return len(digits) in self._widths
        return digits in self._numbers and any(len(theirs) > 2 and slips(letters, theirs) == 1 for theirs in self._letters)

    def numbered(self, number: int) -> str | None:
        """The host of this number, where all hosts share one stem."""
        return self._numbered.get(f"{next(iter(self.stems))}{number}") if len(self.stems) == 1 else None


def _unique(pairs: Iterable[tuple[str, str]]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    twice: set[str] = set()
    for key, host in pairs:
        if found.setdefault(key, host) != host:
            twice.add(key)
    return {key: host for key, host in found.items() if key not in twice}


def _stem(name: str) -> str:
    found = _NUMBER.match(name.partition(".")[0].lower())
    return found[1] if found and found[1] else ""


def _digits(name: str) -> str:
    found = _NUMBER.match(name.partition(".")[0])
    return found[2] if found else ""


def _letters(stem: str) -> str:
    return re.sub(r"[-_]", "", stem)


def _key(short: str) -> str:
    found = _NUMBER.match(short.lower())
    return f"{found[1]}{int(found[2])}" if found and found[1] and len(found[2]) < 10 else ""


def _bracketed(match: re.Match[str], book: HostBook) -> list[str]:
    """The range's hosts; the range itself where it is one of the known hosts' and cannot be read."""
    text = match[0].replace("{", "[").replace("}", "]").replace("...", "-").replace("..", "-").replace(" ", "").rstrip(".-")
    ours = text.partition("[")[0].lower() in book.stems
    return _expanded(text, book) or ([text] if ours else [])


def _spanned(match: re.Match[str], book: HostBook) -> list[str]:
    again = match["again"]
    if again is not None and again.lower() != match["name"].lower():
        return []
    if not again and match["by"].strip() in ("to", "through", "thru", "until") and not match["by"].startswith(" "):
        return []
    ends = [f"{match['name']}{match[end]}" for end in ("low", "high")]
    if match["by"] == "-" and not again and not all(book.has(name) for name in ends):
        return []  # gpu-2-4 is more often a name than a range
    return _expanded(f"{match['name']}[{match['low']}-{match['high']}]", book)


def _listed(match: re.Match[str], book: HostBook) -> list[str]:
    numbers = [match["low"], *re.findall(r"\d{1,6}", match["more"])]
    if len({len(number) for number in numbers}) > 1 and not all(book.knows(f"{match['name']}{number}") for number in numbers):
        return []
    return _of_stem([f"{match['name']}{number}" for number in numbers], book)


def _expanded(text: str, book: HostBook) -> list[str]:
    try:
        return _of_stem(expand(text), book)
    except BadRange:
        return []


def _of_stem(names: list[str], book: HostBook) -> list[str]:
    """A range counts when it is one of hosts: at least one is known, or numbered like one."""
    real = len(names) <= _FEW and any(book.knows(name) or book.resembles(name) for name in names)
    return names if real else []


def _numbered(match: re.Match[str], book: HostBook) -> list[str]:
    low, high = int(match["low"]), int(match["high"] or match["low"])
    numbers = range(low, high + 1) if low <= high < low + _FEW else []
    return [host for number in numbers if (host := book.numbered(number))]


def _sorted_out(found: list[tuple[int, str]], book: HostBook) -> Named:
    names = [name for _, name in sorted(found, key=lambda row: row[0])]
    hosts = dict.fromkeys(host for name in names if (host := book.knows(name)))
    unknown = dict.fromkeys(name for name in names if not book.knows(name))
    return Named(tuple(hosts), tuple(unknown))
