"""The words for one cause in one language. English stands with the leaves of the taxonomy, other languages in a file each beside this one.

A leaf of a site's own has its English everywhere: better the wrong language than none.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from kb.shapes import StrictModel, Text
from kb.taxonomy.customer_fix import CustomerFix
from kb.taxonomy.labels import Taxonomy
from kb.yaml import Problems, files_of, read, validated

FOLDER = Path(__file__).parent
ENGLISH = "en"


class BadWords(Exception):
    """Files that are refused; `problems` are `file:line: reason`, all of them."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))


@dataclass(frozen=True, slots=True)
class CauseWords:
    """What a customer reads about one cause. `fix` is there where the cause is theirs to mend."""

    title: str
    words: str
    fix: CustomerFix | None = None


class _Cause(StrictModel):
    words: Text
    title: Text = ""
    change: Text = ""
    works: Text = ""


class _Language(StrictModel):
    language: Annotated[Text, Field(pattern=r"^[a-z]{2}$")]
    causes: dict[str, _Cause]


@dataclass(frozen=True)
class CustomerWords:
    """All causes in all languages: `in_language[language][label]`."""

    taxonomy: Taxonomy
    in_language: Mapping[str, Mapping[str, _Cause]]

    @property
    def languages(self) -> tuple[str, ...]:
        """English first."""
        return (ENGLISH, *sorted(self.in_language))

    def cause(self, label: str, language: str = ENGLISH) -> CauseWords:
        """The words for a leaf, in English where that language has none. Raises KeyError for what is no leaf."""
        leaf = self.taxonomy.leaf(label)
        said = self.in_language.get(language, {}).get(label)
        if said is None:
            return CauseWords(leaf.title, leaf.customer_words, leaf.customer_fix)
        fix = leaf.customer_fix
        told = CustomerFix(said.change or fix.change, fix.paste, said.works or fix.works) if fix else None
        return CauseWords(said.title or leaf.title, said.words, told)


def load_customer_words(taxonomy: Taxonomy, folder: Path = FOLDER) -> CustomerWords:
    """Every language of the folder. Raises BadWords with all problems: an unknown leaf, a missing word, no shape of a file."""
    problems = Problems()
    languages: dict[str, Mapping[str, _Cause]] = {}
    for document in filter(None, (read(path, problems) for path in files_of(folder))):
        if (file := validated(document, _Language, problems)) is None:
            continue
        languages[file.language] = file.causes
        for label in file.causes:
            if label not in taxonomy.leaves:
                problems.note(document.place("causes", label), f"{label} is no leaf")
    if problems.found:
        raise BadWords(tuple(problems.found))
    return CustomerWords(taxonomy, languages)
