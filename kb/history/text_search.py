"""Search terms of a text, and BM25 over a small set of texts. Pure."""

import math
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

# Search terms: lower case, no filler, light stems, numbers joined with the word before (`xid 79` → `xid79`).
#
# Synonyms share a term: `card` or `hung` finds `GPU` or `hang`.

_WORD_PATTERN = re.compile(r"[a-z0-9_]+")
_MAX_READ_CHARS = 20_000
MIN_TELLING_WORDS = 2  # words that must remain of a text
_FILLER_TEXT = """
a also an and any anyone are as at be but by can could did do does for from had has have he hello help hi i if in into is it its just me my
of on or our please she should so some than that the their them then there these they this to up us was we were what when which while who
why will with would you your
"""
_FILLER_WORDS = frozenset(_FILLER_TEXT.split())
# ending, replacement, minimum word length
_ENDINGS = (("ies", "y", 5), ("sses", "ss", 6), ("ing", "", 6), ("ed", "", 5), ("s", "", 4))
# spelling variants and phrases that become one word
_COMPOUNDS: Mapping[str, str] = {
    "allreduce": r"all[ _-]?reduce\w*",
    "allgather": r"all[ _-]?gather\w*",
    "alltoall": r"all[ _-]?to[ _-]?all\w*",
    "reducescatter": r"reduce[ _-]?scatter\w*",
    "timeout": r"\btim(?:e|ed|es|ing)[ _-]?outs?\b",
    "p2p": r"\bp2p\w*|peer[ -]to[ -]peer|peer (?:access|cop(?:y|ies)|memory)",
    "oom": r"\booms?\b|out[ -]of[ -]memory|outofmemory\w*",
    "shm": r"\bshm\w*|/dev/shm|shared[ -]memory",
    "nic": r"network (?:adapter|card|interface)s?",
    "fabricmanager": r"fabric[ -]?manager\w*",
    "gpudirect": r"\bgdr(?:dma)?\b|gpu[ -]?direct(?:[ -]?rdma)?",
    "nvlink": r"nv[ -]?link\w*",
    "nvswitch": r"nv[ -]?switch\w*",
    "infiniband": r"infini ?band",
    "dataloader": r"data[ -]?load(?:er|ers|ing)\b",
    "checkpoint": r"check[ -]?points?\b",
    "filesystem": r"file[ -]?systems?",
    "segfault": r"seg(?:mentation)?[ -]?fault\w*",
    "nonfatal": r"\bnon[ -]?fatal\w*",
    "deviceside": r"device[ -]?side",
    "hang": r"dead[ -]?lock\w*|stands? still|stood still|never returns?|blocks? for ?ever",
}
_COMPOUND_PATTERN = re.compile("|".join(f"(?P<{term}>{pattern})" for term, pattern in _COMPOUNDS.items()))
_SYNONYM_TEXTS = {
    "bandwidth": "algbw busbw throughput",
    "crash": "abort crashe die died",
    "gpu": "accelerator card",
    "hang": "freez freeze froze frozen hung stall stuck",
    "heat": "hot overheat temperature thermal",
    "infiniband": "ib",
    "library": "lib",
    "mismatch": "differ different disagree",
    "miss": "absent disappear gone lack vanish",
    "nic": "adapter hca",
    "node": "box host machine",
    "restart": "reboot",
    "slow": "degrad degrade slower slowly sluggish",
}
# stemmed word → representative term
_SYNONYMS = {word: term for term, words in _SYNONYM_TEXTS.items() for word in words.split()}
# boilerplate of tools, independent of the cause: advice, table heads, normal startup lines
_ALWAYS_PRINTED = (
    r"for debugging\W+consider passing \w+=1",
    r"compile with \W?torch_use_cuda_dsa[^\n.]{0,300}",
    r"cuda kernel errors might\b[^\n]{0,300}",
    r"\(?run with nccl_debug=\w+[^\n)]{0,300}\)?",
    r"if reserved memory is\b[^\n]{0,300}",
    r"see documentation for memory\b[^\n]{0,300}",
    r"some nccl operations have\b[^\n]{0,300}",
    r"to avoid data inconsistency\b[^\n]{0,300}",
    r"make sure that the\W+latest nvidia driver\b[^\n.]{0,300}",
    r"this usually reflects invalid\b[^\n.]{0,300}",
    r"system call \(e\.g\.[^\n]{0,300}?device error",
    r"call to cuda function\W+failed",
    r"a call failed possibly\b[^\n.]{0,300}",
    r"it can be also\b[^\n]{0,300}",
    r"net/plugin ?: ?(?:no plugin found|plugin load)[^\n]{0,300}",
    r"using internal net\w* plugin\w*",
    r"setting omp_num_threads environment\b[^\n]{0,300}",
    r"^[ \t]{0,9}legend:[ \t]{0,9}$",
    r"^[ \t]{0,9}(?:x|sys|node|phb|pxb|pix|nv#)[ \t]{1,9}= [^\n]{0,300}",
    r"(?:cpu|numa) affinity(?=[ \t]{1,9}(?:numa|gpu)|[ \t]{0,9}$)|gpu numa id",
    r"^[^\n]{0,300}\bpersistence-m\b[^\n]{0,300}$",
    r"^[^\n]{0,300}\bfan[ \t]{1,9}temp[ \t]{1,9}perf\b[^\n]{0,300}$",
    r"\bmig m\.",
    r"\blocalgid [0-9a-f:.]{2,45}|\bremotegids? ?[0-9a-f:.]{2,45}",
    r"no running processes found",
    r"check dcgm and system\b[^\n]{0,300}?rerun diagnostics",
)
_ALWAYS_PATTERN = re.compile("|".join(_ALWAYS_PRINTED), re.IGNORECASE | re.MULTILINE)
_CLAUSE_PATTERN = re.compile(r"[^\n,;]+")
# ends a clause that reports health: `Remapping Failure Occurred : No`, `Inforom Pass`, `ECC errors: 0`
_WELL_PATTERN = re.compile(
    r"(?::[ \t]{1,9}(?:No|NO|N/A|OK|Not Active|None)|\bP(?:ass|ASS)(?:ed|ED)?(?: \([^)]{0,60}\))?|"
    r"(?i:\b(?:errors?|ecc|retired|remapped|pending|uncorr\w{0,20}|corr\w{0,20}|crc|replays?)\b[^.]{0,30}[:= ][ \t]?0))[ \t.]{0,9}$"
)
_NONE_OF_PATTERN = re.compile(r"\bno (?:new |more )?(?:xids?|ecc|ooms?|nvlink|thermal|mce|link)\b[^\n.,;]{0,15}", re.IGNORECASE)


def strip_boilerplate(text: str) -> str:
    """Remove what is independent of the cause. If too little remains: "" for a healthy report, else all of it."""
    printed = _ALWAYS_PATTERN.sub(" ", text[:_MAX_READ_CHARS])
    stripped = _NONE_OF_PATTERN.sub(" ", _CLAUSE_PATTERN.sub(_drop_if_healthy, printed)) + text[_MAX_READ_CHARS:]
    if len(stripped.split()) > MIN_TELLING_WORDS:
        return stripped
    return "" if any(_WELL_PATTERN.search(clause[-120:]) for clause in _CLAUSE_PATTERN.findall(printed)) else text


def _drop_if_healthy(clause: re.Match[str]) -> str:
    return " " if _WELL_PATTERN.search(clause[0][-120:]) else clause[0]


def extract_terms(text: str) -> list[str]:
    """Return the terms in order, with repeats."""
    words = _WORD_PATTERN.findall(_COMPOUND_PATTERN.sub(_name_compound, text[:_MAX_READ_CHARS].lower()))
    terms: list[str] = []
    for before, word in zip(["", *words], words, strict=False):
        if word in _FILLER_WORDS or (word.isdigit() and len(word) > 6):
            continue
        terms.append(word if word.isdigit() else _stem_word(word))
        if word.isdigit() and before.isalpha() and before not in _FILLER_WORDS:
            terms.append(before + word)
        terms += [_stem_word(part) for part in word.split("_") if len(part) > 2] if "_" in word else []
    return terms


def hash_term(term: str) -> int:
    """Return a machine-independent index for the sparse vector."""
    return zlib.crc32(term.encode())


def join_texts(parts: Iterable[str]) -> str:
    """Join non-empty texts by line."""
    return "\n".join(part for part in parts if part)


def _name_compound(found: re.Match[str]) -> str:
    return f" {found.lastgroup} "


def _stem_word(word: str) -> str:
    for ending, put, least in _ENDINGS:
        if len(word) >= least and word.endswith(ending) and not word.endswith("ss") and not word.endswith("us"):
            word = word[: -len(ending)] + put
            break
    return _SYNONYMS.get(word, word)


# BM25 over a small set of texts. Pure Python: a few hundred texts rank in about a millisecond.

TERM_SATURATION = 2.0  # k1: saturation of repeated terms
LENGTH_NORMALIZATION = 0.6  # b: penalty for long texts


def compute_term_weights(terms: Sequence[str], average: float) -> dict[str, float]:
    """Return saturated term counts."""
    length_penalty = TERM_SATURATION * (1 - LENGTH_NORMALIZATION + LENGTH_NORMALIZATION * len(terms) / max(average, 1.0))
    return {term: count * (TERM_SATURATION + 1) / (count + length_penalty) for term, count in Counter(terms).items()}


@dataclass(frozen=True)
class BM25Corpus:
    """Texts by name, ready for ranking."""

    documents: Mapping[str, Mapping[str, float]]
    rarity: Mapping[str, float]
    average: float

    @classmethod
    def build(cls, texts: Mapping[str, str]) -> "BM25Corpus":
        terms = {name: extract_terms(text) for name, text in texts.items()}
        average = sum(map(len, terms.values())) / max(len(terms), 1)
        document_counts = Counter(term for words in terms.values() for term in set(words))
        rarity = {term: math.log(1 + (len(terms) - times + 0.5) / (times + 0.5)) for term, times in document_counts.items()}
        return cls({name: compute_term_weights(words, average) for name, words in terms.items()}, rarity, average)

    def score_documents(self, text: str) -> dict[str, float]:
        """Score texts that share a term with the query."""
        query = set(extract_terms(text)) & self.rarity.keys()
        scores = {
            name: sum(self.rarity[term] * weights[term] for term in query if term in weights) for name, weights in self.documents.items()
        }
        return {name: score for name, score in scores.items() if score > 0}

    def compute_similarity(self, text: str, other: str) -> float:
        """Return rarity-weighted similarity, 0 to 1."""
        return self.compute_term_similarity(frozenset(extract_terms(text)), frozenset(extract_terms(other)))

    def compute_term_similarity(self, mine: frozenset[str], theirs: frozenset[str]) -> float:
        unknown = math.log(1 + (len(self.documents) + 0.5) / 0.5)

        def size(terms: frozenset[str]) -> float:
            return math.sqrt(sum(self.rarity.get(term, unknown) ** 2 for term in terms))

        scale = size(mine) * size(theirs)
        return sum(self.rarity.get(term, unknown) ** 2 for term in mine & theirs) / scale if scale else 0.0
