"""What a thread's people used to find its cause: known checks, other commands, quoted errors, lasting facts. Pure, no
model; a draft for review.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Final

from graph.extraction.pasted_text import extract_pasted_facts
from graph.extraction.reports import parse_report
from kb.exports.row import ExportRow
from kb.schema import squash_blanks
from kb.taxonomy.taxonomy import Taxonomy
from tools.checks.check_types import Check
from tools.checks.site.readonly import explain_refused_command

UNKNOWN_TIME: Final = datetime(1970, 1, 1, tzinfo=UTC)
MAX_PER_KIND = 4  # Entries kept per kind
MAX_SENTENCE_CHARS = 200  # characters of a sentence
MAX_THREAD_CHARS = 6_000  # characters read per thread
_COMMAND_PATTERN: Final = re.compile(r"(?:^|\n)\s{0,4}[$#] (?P<prompt>[a-z/][^\n]{2,120})|`(?P<ticks>[a-z/][^`\n]{2,120})`")
_COMMAND_WORD_PATTERN: Final = re.compile(r"[A-Za-z0-9_./:=,+%@-]{1,80}")
_SENTENCE_END_PATTERN: Final = re.compile(r"(?<=[.!?])\s|\n")
_MACHINE_PATTERN: Final = re.compile(
    r"\bmlx5_\d|\b(?:eth|ib|bond|en[spo])\d|\bGPU ?\d|\bNVSwitch|\bPCIe slot|\b(?:rack|switch|storage|partition|subnet|VLAN|BIOS|firmware)\b"
    r"|\b(?:this|that|these|those|our|all) (?:SKU|node type|nodes|racks|fabric|cluster|servers|hosts|machines)\b",
    re.IGNORECASE,
)
_STATE_VERB_PATTERN: Final = re.compile(
    r"\b(?:is|are|has|have|uses?|carries|hangs?|goes|belongs?|needs?|must|never|always|only|cannot|supports?)\b", re.IGNORECASE
)
_TRANSIENT_PATTERN: Final = re.compile(
    r"\b(?:was|were|had|did|i|we|my|you|your|now|today|yesterday|tonight|just|currently|still|looks?|seems?|maybe|perhaps|might|think|guess"
    r"|fail\w*|error\w*|broken|down|hung|crash\w*|please|thanks|same)\b|\?",
    re.IGNORECASE,
)
_INSTRUCTION_PATTERN: Final = re.compile(
    r"^(?:please |first |then |to be sure |next )?(?:check|run|look at|verify|compare|inspect)\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class ThreadContents:
    looks: tuple[str, ...] = ()  # Ids of checks equivalent to commands typed by hand, most frequent first.
    commands: tuple[str, ...] = ()  # Read-only commands that no check runs, words separated by a blank.
    errors: tuple[str, ...] = ()  # Quoted errors as `key=value` of the extractors.
    symptoms: tuple[str, ...] = ()
    lasting: tuple[str, ...] = ()  # Sentences about the machines that stay true after the incident.
    told: tuple[str, ...] = ()  # Sentences that say where to look.


NO_CONTENTS: Final = ThreadContents()


@dataclass(frozen=True, slots=True)
class ThreadReader:
    """Reads threads; build it once and reuse it. `keys`: fact keys on which some cause has a clue."""

    checks: Mapping[str, Check]
    programs: Mapping[str, tuple[tuple[str, frozenset[str]], ...]]
    keys: frozenset[str]

    @classmethod
    def from_checks(cls, checks: Mapping[str, Check], taxonomy: Taxonomy) -> "ThreadReader":
        checks_by_program: dict[str, list[tuple[str, frozenset[str]]]] = {}
        for check in checks.values():
            for command in check.commands:
                checks_by_program.setdefault(_get_program(command.argv[0]), []).append((check.id, frozenset(command.argv[1:])))
        keys = frozenset(clue.key for leaf in taxonomy.leaves.values() for clue in leaf.evidence)
        return cls(checks, {name: tuple(rows) for name, rows in checks_by_program.items()}, keys)

    def read_thread(self, row: ExportRow) -> ThreadContents:
        text = row.text[:MAX_THREAD_CHARS]
        found_checks = [*map(self._find_check, typed := list(iter_commands(text)))]
        own = (
            " ".join(words) for words, look in zip(typed, found_checks, strict=True) if not look and not any(explain_refused_command(words))
        )
        sentences = [squash_blanks(part) for part in _SENTENCE_END_PATTERN.split(text) if part.strip()]
        return ThreadContents(
            looks=_select_most_common(look for look in found_checks if look),
            commands=_select_most_common(own),
            errors=self._list_errors(text),
            symptoms=tuple(one for one in parse_report(text, (), UNKNOWN_TIME).symptoms if one != "vague")[:MAX_PER_KIND],
            lasting=_select_most_common(one for one in sentences if is_lasting_statement(one)),
            told=_select_most_common(one for one in sentences if 20 <= len(one) <= MAX_SENTENCE_CHARS and _INSTRUCTION_PATTERN.search(one)),
        )

    def _find_check(self, words: tuple[str, ...]) -> str:
        """Return the check with the same program and most shared arguments, at least one if both have any."""
        rows = self.programs.get(_get_program(words[0]), ())
        arguments = set(words[1:])
        best = max(rows, key=lambda row: (len(row[1] & arguments), -len(row[1])), default=("", frozenset()))
        return best[0] if best[1] & arguments or not best[1] or not arguments else ""

    def _list_errors(self, text: str) -> tuple[str, ...]:
        facts = (fact for fact in extract_pasted_facts(text, self.checks).facts if fact.key in self.keys)
        plain = (f"{fact.key}={fact.value}" for fact in facts if isinstance(fact.value, str | int) and not isinstance(fact.value, bool))
        return _select_most_common(one for one in plain if len(one) <= MAX_SENTENCE_CHARS)


def iter_commands(text: str) -> Iterator[tuple[str, ...]]:
    """Yield commands typed after a prompt or between backticks, without what follows a pipe."""
    for match in _COMMAND_PATTERN.finditer(text):
        words = (match["prompt"] or match["ticks"]).partition("|")[0].split()
        while words and words[0] in ("sudo", "-n"):
            words = words[1:]
        if words and all(_COMMAND_WORD_PATTERN.fullmatch(word) for word in words):
            yield tuple(words)


def is_lasting_statement(sentence: str) -> bool:
    """Return whether a sentence states how machines are, not what happened to them or who says it."""
    return (
        20 <= len(sentence) <= MAX_SENTENCE_CHARS
        and bool(_MACHINE_PATTERN.search(sentence) and _STATE_VERB_PATTERN.search(sentence))
        and not _TRANSIENT_PATTERN.search(sentence)
    )


def _get_program(word: str) -> str:
    return PurePosixPath(word).name


def _select_most_common(found: Iterable[str]) -> tuple[str, ...]:
    return tuple(one for one, _ in Counter(found).most_common(MAX_PER_KIND))
