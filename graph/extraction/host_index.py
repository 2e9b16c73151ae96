"""Known hosts by the spellings that people use."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from tools.inventory.name_suggestions import compute_edit_distance

# GPU models, devices and other things numbered like hosts.
NON_HOST_PATTERN = re.compile(
    r"(?:gb|[habvlpt]|rtx|gtx|mi|mlx|cuda|gpu|gpus|ib|eth|ens|enp|nvme|xid|rank|cx)[_-]?\d+[a-z]*$", re.IGNORECASE
)
# Names that are hosts in any fleet: a host word and a number that counts no devices.
_HOST_WORD_PATTERN = re.compile(
    r"(?:gpu|node|host|srv|server|compute|machine)(?:[-_](?:0\d{1,3}|\d{3,4})|0\d{1,3})$|[dh]gx[-_]?0\d{1,3}$", re.IGNORECASE
)
# Last labels that many sites use, so they do not tell whose host it is.
_PRIVATE_DOMAINS = frozenset({"local", "localdomain", "internal", "intranet", "lan", "corp", "private", "cluster"})
_FILE_EXTENSIONS = frozenset({"gz", "xz", "zst", "bz2", "zip", "log", "txt", "out", "err", "json", "yaml", "yml", "py", "sh", "pt"})
_TRAILING_NUMBER_PATTERN = re.compile(r"^(.*?)(\d+)$")
_PIECE_PATTERN = re.compile(r"[^\W\d_]+|[0-9]+")
MAX_ROW_NUMBERS = 64  # Numbers that are looked up together in one row of hosts.
_MAX_DEVICES_PER_HOST = 16  # GPUs per machine: `gpu19` is not a GPU.


class HostIndex:
    """Known hosts by any case, short or full name, and unambiguous numbers with other zeros.

    `known`: hosts, or a mapping of all their names to hosts. Built once per inventory: the cost grows with all hosts.
    """

    def __init__(self, hosts: Collection[str], domains: Collection[str] | None = None) -> None:
        host_of = hosts if isinstance(hosts, Mapping) else {host: host for host in hosts}
        short = [(name.partition(".")[0].lower(), host) for name, host in host_of.items()]
        self._domains = domains
        self._exact = {name.lower(): host for name, host in host_of.items()}
        self._short = _index_unique(short)
        self._numbered = _index_unique((key, host) for name, host in short if (key := _get_number_key(name)))
        self._spelt = _index_unique((_normalize_pieces(name), host) for name, host in short)
        self.stems = {stem for host in hosts if (stem := get_stem(host))}
        self._padded = {get_stem(host) for host in hosts if get_digits(host).startswith("0")}
        self._letters = {strip_separators(stem) for stem in self.stems}
        self._numbers = {number for host in hosts if (number := get_digits(host))}
        self._width = max(map(len, self._numbers), default=1)
        self.wordy = {name: host for name, host in self._exact.items() if not any(letter.isdigit() for letter in name)}
        # `wordy`: hosts named by a word without digits
        self._of_number = _index_unique((digits, host) for name, host in short if (digits := get_digits(name)))
        self._of_count = _index_unique((str(int(digits)), host) for name, host in short if 0 < len(digits := get_digits(name)) < 10)

        self._hosts_of_count = _index_rows(short)
        self._stem_of_word = _index_unique((stem.rstrip("-_"), stem) for stem in self.stems)

    def __bool__(self) -> bool:
        return bool(self._exact)

    def find_by_digits(self, number: str) -> str | None:
        return self._of_number.get(number)

    def find_host(self, name: str) -> str | None:
        lowered = name.lower().rstrip(".")
        short, _, domain = lowered.partition(".")
        host = self._exact.get(lowered) or self._short.get(lowered)
        if host or not self._is_own_domain(domain):
            return host
        return (self._short.get(short) if domain else None) or self._find_with_other_zeros(short)

    def find_similar_host(self, name: str) -> str | None:
        """Return the one host with the same letters and number, if only separators differ or no known host has a
        domain.
        """
        short, _, domain = name.lower().partition(".")
        if domain and self._domains:
            return None
        return self._short.get(short) or self._find_with_other_zeros(short) or self._spelt.get(_normalize_pieces(short))

    def _is_own_domain(self, domain: str) -> bool:
        """Log files are named after hosts, too, so a file extension is not a domain."""
        if self._domains is None or "." not in domain:
            return True
        if any(f".{domain}".endswith(f".{own_domain}") or f".{own_domain}".endswith(f".{domain}") for own_domain in self._domains):
            return True
        last = domain.rpartition(".")[2]
        return last in _FILE_EXTENSIONS or (not self._domains and last in _PRIVATE_DOMAINS)

    def _find_with_other_zeros(self, short: str) -> str | None:
        """Extra zeros are a typing error only if the inventory pads none."""
        host = self._numbered.get(_get_number_key(short)) if _get_number_key(short) else None
        return host if host and (len(short) < len(host.partition(".")[0]) or get_stem(short) not in self._padded) else None

    def has_spelling(self, name: str) -> bool:
        return name.lower() in self._exact or name.lower() in self._short

    def is_numbered_alike(self, name: str) -> bool:
        return get_stem(name) in self.stems

    def is_numbered(self, name: str) -> bool:
        """Return whether it is one of numbered hosts, known or not, or a known one but for separators."""
        return (
            bool(self.find_host(name)) or self.is_numbered_alike(name) or bool(self.looks_like_host(name) and self.find_similar_host(name))
        )

    def looks_like_host(self, name: str) -> bool:
        """Return whether it is numbered like known hosts, nearly spelt like one, or a usual host name."""
        return (
            self.is_numbered_alike(name)
            or self._is_misspelt(name)
            or bool(self._exact and _HOST_WORD_PATTERN.match(name.partition(".")[0]))
        )

    def _is_misspelt(self, name: str) -> bool:
        """Other separators, or one wrong letter before a known host's number. `gpu3` and `gpu-12` are devices."""
        letters, digits = strip_separators(get_stem(name)), get_digits(name)
        if len(letters) < 2 or not digits:
            return False
        if letters in self._letters:
            return not NON_HOST_PATTERN.match(name) or digits[:-1].startswith("0") or int(digits[:9]) >= _MAX_DEVICES_PER_HOST
        if len(digits) < 2 or (NON_HOST_PATTERN.match(name) and not digits.startswith("0")):
            return False
        return digits in self._numbers and any(len(letter) > 2 and compute_edit_distance(letters, letter) == 1 for letter in self._letters)

    def find_by_number(self, number: int) -> str | None:
        return self._of_count.get(str(number))

    def find_row(self, numbers: Sequence[int]) -> list[str]:
        """Return the hosts with all these numbers if exactly one stem has them all."""
        rows = [self._hosts_of_count.get(number, {}) for number in numbers[:MAX_ROW_NUMBERS]]
        stems = set(rows[0]).intersection(*rows[1:]) if len(numbers) <= MAX_ROW_NUMBERS else set()
        return [row[stem] for stem in stems for row in rows] if len(stems) == 1 else []

    def find_stem(self, word: str) -> str:
        """Return the stem that a word stands for: `gpu` and `gpus` for hosts `gpu-001`."""
        word = word.lower()
        return self._stem_of_word.get(word) or self._stem_of_word.get(word.removesuffix("s")) or ""

    def build_stem_name(self, stem: str, number: int) -> str:
        """Return the host of this stem and number, or the name that it would have."""
        host = self._hosts_of_count.get(number, {}).get(stem)
        return host or f"{stem}{str(number).zfill(self._width if stem in self._padded else 1)}"

    def build_name(self, number: int) -> str | None:
        """Return the name of a host with this number, if all hosts share one stem."""
        if len(self.stems) != 1:
            return None
        stem = next(iter(self.stems))
        return f"{stem}{str(number).zfill(self._width if stem in self._padded else 1)}"


def _index_rows(short: Iterable[tuple[str, str]]) -> Mapping[int, Mapping[str, str]]:
    rows: dict[int, dict[str, str]] = {}
    for name, host in short:
        if (stem := get_stem(name)) and len(digits := get_digits(name)) < 10:
            rows.setdefault(int(digits), {})[stem] = host
    return rows


def get_stem(name: str) -> str:
    """Return what precedes a name's final number; empty without one."""
    match = _TRAILING_NUMBER_PATTERN.match(name.partition(".")[0].lower())
    return match[1] if match and match[1] else ""


def get_digits(name: str) -> str:
    match = _TRAILING_NUMBER_PATTERN.match(name.partition(".")[0])
    return match[2] if match else ""


def strip_separators(stem: str) -> str:
    return re.sub(r"[-_]", "", stem.lower())


def _index_unique(pairs: Iterable[tuple[str, str]]) -> Mapping[str, str]:
    index: dict[str, str] = {}
    twice: set[str] = set()
    for key, host in pairs:
        if index.setdefault(key, host) != host:
            twice.add(key)
    return {key: host for key, host in index.items() if key not in twice}


def _normalize_pieces(short: str) -> str:
    """`gpu_003` equals `gpu3`."""
    return " ".join(str(int(piece)) if piece.isdecimal() and len(piece) < 10 else piece for piece in _PIECE_PATTERN.findall(short))


def _get_number_key(short: str) -> str:
    match = _TRAILING_NUMBER_PATTERN.match(short.lower())
    return f"{match[1]}{int(match[2])}" if match and match[1] and len(match[2]) < 10 else ""
