"""Customer wording of causes:

English in the taxonomy's leaves, other languages here. A site's own leaf stays English.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import Field

from kb.schema import StrictModel, Text
from kb.taxonomy.taxonomy import CustomerFix, Taxonomy
from kb.yaml_files import Problems, list_yaml_files, read_document, validate_document

FOLDER = Path(__file__).parent
ENGLISH = "en"
_PART_PATTERN = re.compile(r", (?=your|Ihre?\b)")
_PROMISE_PATTERN = re.compile(r"\b(?:(?:is|are) (?:being|taken|replaced|restarted)|will be|wird|werden)\b")
_MUST_PATTERN = re.compile(r"\b(?:muss|müssen|sollten?)\b")  # says what needs to be done, not that the provider does it
_COMMENT_PATTERN = re.compile(r"(?<!\S)# ([^#\s][^#\n]*)$")


class BadWords(Exception):
    """Files that are refused; `problems` are `file:line: reason`, all of them."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))


@dataclass(frozen=True, slots=True)
class CauseWords:
    """Wording of one cause. `fix` is set if the customer can repair it."""

    title: str
    words: str
    fix: CustomerFix | None = None


class _CauseModel(StrictModel):
    words: Text
    title: Text = ""
    change: Text = ""
    works: Text = ""


class _LanguageModel(StrictModel):
    language: Annotated[Text, Field(pattern=r"^[a-z]{2}$")]
    # translations of comments in paste blocks, by the English text
    comments: dict[str, Text] = Field(default_factory=dict)
    causes: dict[str, _CauseModel]


@dataclass(frozen=True)
class CustomerWords:
    """Wording of all causes: `in_language[language][label]`."""

    taxonomy: Taxonomy
    in_language: Mapping[str, Mapping[str, _CauseModel]]
    comments: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # language → English comment → translation

    @property
    def languages(self) -> tuple[str, ...]:
        """English first."""
        return (ENGLISH, *sorted(self.in_language))

    def get_cause_words(self, label: str, language: str = ENGLISH) -> CauseWords:
        """Return a leaf's wording, in English as fallback. Raises KeyError."""
        leaf = self.taxonomy.get_leaf(label)
        words = self.in_language.get(language, {}).get(label)
        if words is None:
            return CauseWords(leaf.title, leaf.customer_words or f"{leaf.title}.", leaf.customer_fix)
        fix = leaf.customer_fix
        if fix is None:
            return CauseWords(words.title or leaf.title, words.words)
        paste = tuple(_translate_comments(block, self.comments.get(language, {})) for block in fix.paste)
        return CauseWords(words.title or leaf.title, words.words, CustomerFix(words.change or fix.change, paste, words.works or fix.works))


def remove_promises(words: str) -> str:
    """Remove what the provider does, for use before approval. The first clause stays."""
    first, *rest = words.removesuffix(".").split("; ")
    kept_clauses = [first]
    for clause in rest:
        plain_parts = [part for part in _PART_PATTERN.split(clause) if _MUST_PATTERN.search(part) or not _PROMISE_PATTERN.search(part)]
        kept_clauses += [", ".join(plain_parts)] if plain_parts else []
    return f"{'; '.join(kept_clauses)}."


def extract_comments(block: str) -> list[str]:
    """Return the text behind the last `# ` of each line."""
    return [match[1] for line in block.split("\n") if (match := _COMMENT_PATTERN.search(line))]


def _translate_comments(block: str, comments: Mapping[str, str]) -> str:
    return "\n".join(_COMMENT_PATTERN.sub(lambda found: f"# {comments.get(found[1], found[1])}", line) for line in block.split("\n"))


def load_customer_words(taxonomy: Taxonomy, folder: Path = FOLDER) -> CustomerWords:
    """Load every language. BadWords lists all problems: unknown leaf or comment, missing words, invalid file."""
    problems = Problems()
    languages: dict[str, Mapping[str, _CauseModel]] = {}
    comments: dict[str, Mapping[str, str]] = {}
    fixes = [leaf.customer_fix for leaf in taxonomy.leaves.values() if leaf.customer_fix]
    pasted_comments = {words for fix in fixes for block in fix.paste for words in extract_comments(block)}
    for document in filter(None, (read_document(path, problems) for path in list_yaml_files(folder))):
        if (file := validate_document(document, _LanguageModel, problems)) is None:
            continue
        languages[file.language], comments[file.language] = file.causes, file.comments
        for words in file.comments:
            if words not in pasted_comments:
                problems.add(document.find_position("comments", words), f"{words} is no comment of a block")
        for label in file.causes:
            if label not in taxonomy.leaves:
                problems.add(document.find_position("causes", label), f"{label} is no leaf")
    if problems.found:
        raise BadWords(tuple(problems.found))
    return CustomerWords(taxonomy, languages, comments)
