"""Text to search terms: lower case, no filler, light endings cut, numbers kept with the word before them (`xid 79` → `xid79`).

Different words of one meaning become one term, so that a report that says `card` or `hung` finds what says `GPU` or `hang`.
"""

import re
import zlib
from collections.abc import Iterable, Mapping

_WORD_PATTERN = re.compile(r"[a-z0-9_]+")
_MAX_READ_CHARS = 20_000
"""Characters of a text that are worth reading for words."""
MIN_TELLING_WORDS = 2
"""Words that must be left of a text."""
_FILLER_TEXT = """
a also an and any anyone are as at be but by can could did do does for from had has have he hello help hi i if in into is it its just me my
of on or our please she should so some than that the their them then there these they this to up us was we were what when which while who
why will with would you your
"""
_FILLER_WORDS = frozenset(_FILLER_TEXT.split())
_ENDINGS = (("ies", "y", 5), ("sses", "ss", 6), ("ing", "", 6), ("ed", "", 5), ("s", "", 4))
"""Ending, what takes its place, and how long a word must be."""

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
"""What is written in several ways, or in several words, as one word."""
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
_SYNONYMS = {word: term for term, words in _SYNONYM_TEXTS.items() for word in words.split()}
"""Words as they are after their endings are cut, and the one that stands for them."""

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
"""What tools print whatever the cause is: advice, the heads of tables, and what stands in the log of every healthy start."""
_ALWAYS_PATTERN = re.compile("|".join(_ALWAYS_PRINTED), re.IGNORECASE | re.MULTILINE)
_CLAUSE_PATTERN = re.compile(r"[^\n,;]+")
_WELL_PATTERN = re.compile(
    r"(?::[ \t]{1,9}(?:No|NO|N/A|OK|Not Active|None)|\bP(?:ass|ASS)(?:ed|ED)?(?: \([^)]{0,60}\))?|"
    r"(?i:\b(?:errors?|ecc|retired|remapped|pending|uncorr\w{0,20}|corr\w{0,20}|crc|replays?)\b[^.]{0,30}[:= ][ \t]?0))[ \t.]{0,9}$"
)
"""How a clause ends that a tool names only to say that it is well: `Remapping Failure Occurred : No`, `Inforom Pass`, `ECC errors: 0`."""
_NONE_OF_PATTERN = re.compile(r"\bno (?:new |more )?(?:xids?|ecc|ooms?|nvlink|thermal|mce|link)\b[^\n.,;]{0,15}", re.IGNORECASE)


def strip_boilerplate(text: str) -> str:
    """A text without what says nothing about its cause. Where nothing else is in it: nothing if it says that all is well, else all of it."""
    printed = _ALWAYS_PATTERN.sub(" ", text[:_MAX_READ_CHARS])
    told = _NONE_OF_PATTERN.sub(" ", _CLAUSE_PATTERN.sub(_drop_if_healthy, printed)) + text[_MAX_READ_CHARS:]
    if len(told.split()) > MIN_TELLING_WORDS:
        return told
    return "" if any(_WELL_PATTERN.search(clause[-120:]) for clause in _CLAUSE_PATTERN.findall(printed)) else text


def _drop_if_healthy(clause: re.Match[str]) -> str:
    return " " if _WELL_PATTERN.search(clause[0][-120:]) else clause[0]


def extract_terms(text: str) -> list[str]:
    """The terms of a text in order, repeats included."""
    words = _WORD_PATTERN.findall(_COMPOUND_PATTERN.sub(_name_compound, text[:_MAX_READ_CHARS].lower()))
    found: list[str] = []
    for before, word in zip(["", *words], words, strict=False):
        if word in _FILLER_WORDS or (word.isdigit() and len(word) > 6):
            continue
        found.append(word if word.isdigit() else _stem_word(word))
        if word.isdigit() and before.isalpha() and before not in _FILLER_WORDS:
            found.append(before + word)
        found += [_stem_word(part) for part in word.split("_") if len(part) > 2] if "_" in word else []
    return found


def hash_term(term: str) -> int:
    """A number for a term that is the same on every machine: what a sparse vector is indexed by."""
    return zlib.crc32(term.encode())


def join_texts(parts: Iterable[str]) -> str:
    """Several texts as one."""
    return "\n".join(part for part in parts if part)


def _name_compound(found: re.Match[str]) -> str:
    return f" {found.lastgroup} "


def _stem_word(word: str) -> str:
    for ending, put, least in _ENDINGS:
        if len(word) >= least and word.endswith(ending) and not word.endswith("ss") and not word.endswith("us"):
            word = word[: -len(ending)] + put
            break
    return _SYNONYMS.get(word, word)
