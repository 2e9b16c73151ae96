"""Lines that may report trouble in no known form: such output is neither clean nor bad. Pure."""

import re
from collections.abc import Iterable, Iterator

from kb.needle_search import Needles
from tools.fact import Fact

NOT_UNDERSTOOD_KEY = "check.not_understood"
_MAX_LINES = 3
_MAX_LINE_CHARS = 300
_TROUBLE_PATTERN = re.compile(
    r"NCCL WARN|\b(?:[Ee]rrors?|ERRORS?|[Ff]atal|FATAL|CRITICAL|[Ff]ail(?:ed|ure|s)?|FAIL(?:ED|URE)?|[Pp]anic|[Dd]egraded|[Uu]ncorrect\w{1,6}|"
    r"[Tt]imed out|[Tt]imeout|TIMEOUT|[Rr]efused|[Dd]enied|[Uu]nreachable|[Cc]orrupt(?:ed)?|[Ll]ost|[Dd]own|DOWN|[Bb]roken|[Mm]issing|[Ii]nvalid)\b"
)
# Prefilter: without one of these no line matches `_TROUBLE_PATTERN`.
_TROUBLE_NEEDLES = Needles(
    (
        *(
            "NCCL WARN",
            "rror",
            "ERROR",
            "atal",
            "FATAL",
            "CRITICAL",
            "ail",
            "FAIL",
            "anic",
            "egraded",
            "ncorrect",
            "imed out",
            "imeout",
            "TIMEOUT",
        ),
        *("efused", "enied", "nreachable", "orrupt", "Lost", "lost", "Down", "down", "DOWN", "roken", "issing", "nvalid"),
    )
)
# trouble words next to a zero or a negation
_HARMLESS_PATTERN = re.compile(
    r"\b(?:no|0|zero|without|ignor\w{2,4}) (?:\w{1,20} ){0,2}(?:errors?|failures?|timeouts?|fail(?:ed)?)\b|"
    r"\b(?:errors?|failures?|failed|timeouts?|lost|down|missing|invalid|degraded|corrupted)[\w .()/-]{0,40}[:=|] *"
    r"(?:0x)?(?:0+|no|none|n/a|false|disabled|not active|ok)\b|"
    r"\btimeout[\w ()]{0,20}[=:] ?\d"
)
_LEVEL_WITHOUT_TROUBLE_PATTERN = re.compile(r"\bINFO\b|\bDEBUG\b")  # log levels that report no trouble


def build_not_understood_facts(check: str, lines: Iterable[str]) -> list[Fact]:
    """Return one fact that counts the lines and keeps the first three; nothing without lines.

    A parser that returns it must not also report clean output (ABSENT, such as "no trouble in the event log").
    """
    count = 0
    first: list[str] = []
    for line in lines:
        count += 1
        if len(first) < _MAX_LINES:
            first.append(line.strip()[:_MAX_LINE_CHARS])
    if not count:
        return []
    return [Fact(check, NOT_UNDERSTOOD_KEY, count, line=first[0], attrs={"first": first[0][:80], "lines": first})]


def iter_trouble_lines(text: str) -> Iterator[str]:
    for start, end in _TROUBLE_NEEDLES.find_in_text(text):
        head = text[start : min(end, start + 500)]
        if _TROUBLE_PATTERN.search(head) and not _HARMLESS_PATTERN.search(head.lower()) and not _LEVEL_WITHOUT_TROUBLE_PATTERN.search(head):
            yield text[start:end].removesuffix("\r")
