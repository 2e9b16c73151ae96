"""Turn sentences into the features of the intent classifier: words, their neighbours and parts, with names as placeholders. Pure."""

import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from graph.dialogue.clauses import Clause
from graph.dialogue.mentions import is_exclusive_check

BUCKETS = 1 << 15  # Features are hashed into so many columns.
_PLACEHOLDERS = {  # Kind of a name → its placeholder; of two kinds for a word, the first counts.
    "host": "HOST", "person": "PERSON", "group": "GROUP", "job": "JOB", "xid": "XID", "device": "DEVICE",
    "remedy": "REMEDY", "check": "CHECK", "cause": "CAUSE", "time": "TIME",
}  # fmt: skip
_WORDS_COUNT = frozenset({"remedy", "check", "cause"})  # Beside the placeholder, the word itself is a feature.
_PART_SIZES = (3, 4, 5)


def compute_features(clauses: Sequence[Clause]) -> Mapping[int, float]:
    """Return column → value, of length one."""
    counts: dict[int, float] = {}
    for name, weight in _list_features(clauses):
        column = zlib.crc32(name.encode()) % BUCKETS
        counts[column] = counts.get(column, 0.0) + weight
    length = math.sqrt(sum(counts.values())) or 1.0
    return {column: math.sqrt(count) / length for column, count in counts.items()}


def _list_features(clauses: Sequence[Clause]) -> Iterator[tuple[str, float]]:
    size = 0
    for clause in clauses:
        tokens = _list_tokens(clause)
        size += len(tokens)
        framed = ["^", *tokens, "?" if clause.marked else "$"]
        yield from ((f"w:{token}", 1.0) for token in framed[1:])
        yield from ((f"b:{one} {two}", 1.0) for one, two in pairwise(framed))
        for one, two, three in zip(framed, framed[1:], framed[2:], strict=False):
            yield f"s:{one} {three}", 1.0
            yield f"t:{one} {two} {three}", 1.0
        for token in tokens:
            if not token.isupper():
                edged = f"<{token}>"
                yield from ((f"c:{edged[at : at + part]}", 0.5) for part in _PART_SIZES for at in range(len(edged) - part + 1))
    yield f"sentences:{min(len(clauses), 3)}", 1.0
    yield f"length:{min(size // 3, 6)}", 1.0


def _list_tokens(clause: Clause) -> list[str]:
    named, tokens, last = clause.named, list[str](), ""
    for at, word in enumerate(clause.words):
        kind = next((kind for kind in _PLACEHOLDERS if at in named.used.get(kind, ())), "")
        if kind and kind != last:
            tokens.append(_placeholder(kind, clause))
        if not kind or kind in _WORDS_COUNT:
            tokens.append(word)
        last = kind
    return tokens


def _placeholder(kind: str, clause: Clause) -> str:
    named = clause.named
    if kind == "host" and len(named.hosts) + len(named.unknown) > 1:
        return "HOSTS"
    if kind == "check" and is_exclusive_check(named.check):
        return "TEST"
    if kind == "remedy" and named.remedy == "resume_node":
        return "RESUME"
    return _PLACEHOLDERS[kind]
