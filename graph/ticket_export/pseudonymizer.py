"""Replace private names in exported text by signatures; only common and public words pass.

A text is split into chunks. A chunk passes as a number, as a device or host in question, or if RackMedic's public
tables contain it. Everything else (paths, models, data sets, scripts, people, addresses) becomes `~` and twelve hex
digits of HMAC-SHA256 under the site's salt, so that unforeseen names stay private, too.
"""

import hashlib
import hmac
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from graph.ticket_export.common_words import COMMON_WORDS
from graph.ticket_export.document import PseudonymKind
from kb.redact import redact_start
from tools.inventory.host_ranges import BadRange, expand_host_range

SIGNATURE_HEX_DIGITS = 12
MAX_TEXT_CHARS = 4000  # Characters read per text.
_CHUNK_PATTERN = re.compile(r"[^\s\"'`(){}\[\]<>,;|=!?*\\]+")
_RANGE_PATTERN = r"[A-Za-z][\w.-]{0,40}\[\d[\d,-]{0,80}\][\w.-]{0,40}"
_PIECE_PATTERN = re.compile(rf"(?P<range>{_RANGE_PATTERN})|{_CHUNK_PATTERN.pattern}")
_EDGE_CHARS = ".:-+"
_INNER_PATTERN = re.compile(r"[^:@]+")
_PUBLIC_SHAPE_PATTERN: Final = re.compile(
    r"""(?ix:
      [+-]?\d+(?:\.\d+){0,2}(?:%|[kmgt]i?b(?:/s)?|[kmg]hz|gt/s|gb/s|ms|us|ns|s|m|h|d|w|c|x|th|nd|rd|st)? # numbers and their units
    | \d+x                                                        # of a template
    | \d{1,4}[-/]\d{1,2}[-/]\d{1,4}(?:t\d{1,2})?                  # days
    | t?\d{1,6}(?:\.\d{1,9})?(?:[+-]\d{2})?z?                      # parts of a time
    | rank\d{1,5}
    | 0x[0-9a-f]{1,16}
    | ~[0-9a-f]{12}                                               # what was signed already
    | [0-9a-f]{2,8}\.[0-9a-f]                                     # the end of a PCI address
    | (?:gpu|nv|sm_|compute_|nvme|sd[a-z]|eth|ib|mlx[45]_|nvswitch|numa|cpu|dimm|psu|fan|xid|sxid|cuda|cu|rc)
      \d{1,3}(?:[a-z_]\d{1,3}){0,2}                               # devices and their numbers
    | gpu-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}             # the UUID of a GPU
    | v?\d+(?:\.\d+){1,2}(?:[+-](?:cu|cuda|rc)\d*(?:\.\d+)?){0,2}    # versions
    | \d+(?:\.\d+){2}(?:-\d+){1,2}(?:-(?:generic|nvidia|nvidia-64k|aws|azure|gcp|oracle|amd64|cloud-amd64|lowlatency))?  # of kernels
    | [0-9a-f]{2}(?:\.[0-9a-f]{2}){4}                              # of a VBIOS
    )"""
)
_BDF_PATTERN = re.compile(r"(?i)\b(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?\b")
# Tried in this order; `other` if none matches.
_KIND_PATTERNS: Mapping[PseudonymKind, re.Pattern[str]] = {
    "model": re.compile(r"(?i)\.(?:safetensors|ckpt|pt|pth|onnx|gguf)$|(?:^|[-_/])\d+(?:x\d+)?b(?:$|[-_/])|checkpoint|model"),
    "data": re.compile(r"(?i)\.(?:parquet|jsonl?|csv|tar|zst|arrow|tfrecord|idx|bin|mds)$|data"),
    "code": re.compile(r"(?i)\.(?:py|sh|cu|cpp|cc|h|so|ya?ml|toml|sif|sqsh)(?:$|\.\d)|[a-z0-9]/[a-z0-9].*|\w\.\w"),
}


def collect_public_chunks(texts: Iterable[str]) -> frozenset[str]:
    """Return the chunks of public texts and their parts in lower case, and common words."""
    words = set(COMMON_WORDS)
    for text in texts:
        for chunk in _CHUNK_PATTERN.findall(text):
            words.update(part.strip(_EDGE_CHARS).lower() for part in (chunk, *_INNER_PATTERN.findall(chunk)))
    words.discard("")
    return frozenset(words)


@dataclass(frozen=True)
class Pseudonymizer:
    """Prepares one incident's texts for export.

    `public` holds the chunks that stay readable and `hosts` the site's names of the hosts in question. `names` are known
    names of the workload, which are signed even if they are public.
    """

    salt: bytes
    public: Collection[str]
    hosts: Collection[str] = ()
    names: Collection[str] = ()

    def pseudonymize_text(self, text: str, max_chars: int = 400) -> str:
        """Return the text with private names signed, on one line of at most `max_chars` characters."""
        pieces: list[str] = []
        room = max_chars
        for piece in self._iter_pieces(text):
            room -= len(piece)
            if room < 0:
                pieces.append("…" if room + len(piece) > 0 else "")
                break
            pieces.append(piece)
        return "".join(pieces).strip()[:max_chars]

    def pseudonymize_name(self, name: str, max_chars: int = 80) -> str:
        if not name or self._is_public(name):
            return self.pseudonymize_text(name, max_chars)
        return self.sign_name(name)

    def sign_name(self, name: str) -> str:
        digest = hmac.new(self.salt, name.casefold().encode("utf-8", "replace"), hashlib.sha256).hexdigest()
        return f"~{digest[:SIGNATURE_HEX_DIGITS]}"

    def find_signatures(self, texts: Iterable[str]) -> dict[str, PseudonymKind]:
        """Return the signature of every private name in these texts, with the kind of name."""
        signatures: dict[str, PseudonymKind] = {}
        for text in texts:
            for chunk in _split_chunks(text):
                signatures |= {self.sign_name(name): guess_name_kind(name) for name in self._list_hidden_names(chunk)}
        return signatures

    def _iter_pieces(self, text: str) -> Iterator[str]:
        """Yield the redacted text in pieces, private chunks replaced by their signatures."""
        text = " ".join(redact_start(text, MAX_TEXT_CHARS).split())
        end = 0
        for match in _PIECE_PATTERN.finditer(text):
            yield _keep_ascii(text[end : match.start()])
            if not match["range"]:
                yield self._pseudonymize_chunk(match[0])
            elif self._is_own_range(match[0]):
                yield match[0]
            else:
                yield self._pseudonymize_range(match[0])
            end = match.end()
        yield _keep_ascii(text[end:])

    def _pseudonymize_range(self, text: str) -> str:
        """Treat brackets with other hosts as plain text."""
        return _CHUNK_PATTERN.sub(lambda match: self._pseudonymize_chunk(match[0]), text)

    def _is_own_range(self, text: str) -> bool:
        try:
            return {name.lower() for name in expand_host_range(text)} <= self._hosts
        except BadRange:
            return False

    def _pseudonymize_chunk(self, chunk: str) -> str:
        if self._is_public(chunk):
            return chunk
        body = chunk.strip(_EDGE_CHARS)
        if not body:
            return chunk
        prefix, _, suffix = chunk.partition(body)
        if "/" in body or "@" in body or ":" not in body:
            return f"{prefix}{self.sign_name(body)}{suffix}"
        parts = [part if not part or self._is_public(part) else self.sign_name(part) for part in body.split(":")]
        return f"{prefix}{':'.join(parts)}{suffix}"

    def _list_hidden_names(self, chunk: str) -> list[str]:
        body = chunk.strip(_EDGE_CHARS)
        if not body or self._is_public(chunk):
            return []
        if "/" in body or "@" in body or ":" not in body:
            return [body]
        return [part for part in body.split(":") if part and not self._is_public(part)]

    def _is_public(self, chunk: str) -> bool:
        body = chunk.strip(_EDGE_CHARS)
        lower = body.lower()
        if not body or lower in self._hosts:
            return True
        if lower in self._names or not body.isascii():
            return False
        host, _, device = lower.partition("/")
        if device and host in self._hosts:
            return self._is_public(device)
        if _PUBLIC_SHAPE_PATTERN.fullmatch(body) or _BDF_PATTERN.fullmatch(body) or lower in self.public:
            return True
        if ":" not in body or "@" in body or "/" in body:
            return False
        return all(self._is_public(part) for part in body.split(":") if part)

    @cached_property
    def _hosts(self) -> frozenset[str]:
        return frozenset(name.lower() for name in self.hosts)

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(name.lower() for name in self.names if name)


def _keep_ascii(text: str) -> str:
    return "".join(char for char in text if char.isascii())


def _split_chunks(text: str) -> list[str]:
    return _CHUNK_PATTERN.findall(" ".join(redact_start(text, MAX_TEXT_CHARS).split()))


def guess_name_kind(name: str) -> PseudonymKind:
    """Guess from its form what a private name denotes."""
    for kind, pattern in _KIND_PATTERNS.items():
        if pattern.search(name):
            return kind
    return "other"
