"""Extract what people used in a thread to find the cause: checks, other commands, quoted errors and lasting facts.

No model is asked. The result is a draft for review.
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
MAX_PER_KIND = 4  # entries kept in each field of `ThreadContents`
MIN_SENTENCE_CHARS = 20
MAX_SENTENCE_CHARS = 200
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
    """Reader of threads. Build it once and reuse it.

    Attributes:
        programs: Check ids and their arguments by program.
        keys: Fact keys on which some cause has a clue.
    """

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
        return cls(checks, {program: tuple(pairs) for program, pairs in checks_by_program.items()}, keys)

    def read_thread(self, row: ExportRow) -> ThreadContents:
        text = row.text[:MAX_THREAD_CHARS]
        checks: list[str] = []
        other_commands: list[str] = []
        for words in iter_commands(text):
            check = self._find_check(words)
            if check:
                checks.append(check)
            elif not any(explain_refused_command(words)):
                other_commands.append(" ".join(words))
        symptoms = parse_report(text, (), UNKNOWN_TIME).symptoms
        sentences = [squash_blanks(part) for part in _SENTENCE_END_PATTERN.split(text) if part.strip()]
        return ThreadContents(
            looks=_select_most_common(checks),
            commands=_select_most_common(other_commands),
            errors=self._list_errors(text),
            symptoms=tuple(symptom for symptom in symptoms if symptom != "vague")[:MAX_PER_KIND],
            lasting=_select_most_common(sentence for sentence in sentences if is_lasting_statement(sentence)),
            told=_select_most_common(sentence for sentence in sentences if is_instruction(sentence)),
        )

    def _find_check(self, words: tuple[str, ...]) -> str:
        """Return the check with the same program and the most shared arguments, or an empty string.

        If both have arguments, at least one must be the same.
        """
        arguments = set(words[1:])
        candidates = self.programs.get(_get_program(words[0]), ())
        check, check_arguments = max(
            candidates, key=lambda candidate: (len(candidate[1] & arguments), -len(candidate[1])), default=("", frozenset[str]())
        )
        has_shared_argument = bool(check_arguments & arguments)
        return check if has_shared_argument or not check_arguments or not arguments else ""

    def _list_errors(self, text: str) -> tuple[str, ...]:
        facts = [fact for fact in extract_pasted_facts(text, self.checks).facts if fact.key in self.keys]
        errors = [f"{fact.key}={fact.value}" for fact in facts if isinstance(fact.value, str | int) and not isinstance(fact.value, bool)]
        return _select_most_common(error for error in errors if len(error) <= MAX_SENTENCE_CHARS)


def iter_commands(text: str) -> Iterator[tuple[str, ...]]:
    """Yield commands typed after a prompt or between backticks, without what follows a pipe."""
    for match in _COMMAND_PATTERN.finditer(text):
        words = (match["prompt"] or match["ticks"]).partition("|")[0].split()
        while words and words[0] in ("sudo", "-n"):
            words = words[1:]
        if words and all(_COMMAND_WORD_PATTERN.fullmatch(word) for word in words):
            yield tuple(words)


def is_lasting_statement(sentence: str) -> bool:
    """Return whether a sentence states how machines are, rather than what happened to them or what someone thinks."""
    if not _has_quotable_length(sentence) or _TRANSIENT_PATTERN.search(sentence):
        return False
    return bool(_MACHINE_PATTERN.search(sentence) and _STATE_VERB_PATTERN.search(sentence))


def is_instruction(sentence: str) -> bool:
    """Return whether a sentence says where to look."""
    return _has_quotable_length(sentence) and _INSTRUCTION_PATTERN.search(sentence) is not None


def _has_quotable_length(sentence: str) -> bool:
    return MIN_SENTENCE_CHARS <= len(sentence) <= MAX_SENTENCE_CHARS


def _get_program(word: str) -> str:
    return PurePosixPath(word).name


def _select_most_common(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for name, _ in Counter(names).most_common(MAX_PER_KIND))
