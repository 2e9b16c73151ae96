"""Prompt texts, one file a question; the first line of each is its version. Bump it with every change of the text.

Rules they keep: what people or machines wrote goes between marks that no text can guess, and is called data there. What
is the same in all questions of a kind comes first, so that a provider can cache it.
"""

import re
import secrets
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kb.redact import redact_once

PROMPT_DIR = Path(__file__).parent
MARK_HEAD = "MARK: "
MARK_CHARS = 16
_MARK_PATTERN = re.compile(rf"^{MARK_HEAD}([0-9a-f]{{{MARK_CHARS}}})$", re.MULTILINE)
_LINE_BREAK_PATTERN = re.compile(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")
QUESTION_NAMES = ("read", "explore", "critique", "intent", "label")


class BadPrompt(Exception):
    """A prompt file is not as it should be. Names the file."""


@dataclass(frozen=True, slots=True)
class Prompt:
    name: str
    version: int
    text: str


@dataclass(frozen=True, slots=True)
class ModelQuestion:
    """One question, redacted and ready to send: trusted instructions, and lists and data apart."""

    system: str
    user: str
    sample: int = 0  # Number of the sample: 0 is the likeliest answer, others are drawn.

    @property
    def size(self) -> int:
        return len(self.system) + len(self.user)


@cache
def load_prompt(name: str, folder: Path = PROMPT_DIR) -> Prompt:
    path = folder / f"{name}.md"
    head, _, text = path.read_text(encoding="utf-8").partition("\n")
    key, _, version = head.partition(":")
    if key.strip() != "version" or not version.strip().isdigit() or not text.strip():
        raise BadPrompt(f"{path}: the first line must be 'version: N', the rest the prompt")
    return Prompt(name, int(version), text.strip())


def build_question(name: str, offered: dict[str, list[str]], data: dict[str, str], folder: Path = PROMPT_DIR) -> ModelQuestion:
    """Build a question.

    Instructions are sent as they are; lists and data are redacted, each by itself.

    Args:
        offered: Trusted ids to choose from by title. Put lists that differ between incidents last.
        data: Untrusted text by title, put between marks drawn for this call.
    """
    mark = secrets.token_hex(MARK_CHARS // 2)
    lists = [f"{title}:\n{redact_once(_format_list(choices))}" for title, choices in offered.items()]
    blocks = [f"{title}:\n<<{mark}\n{redact_once(text)}\n{mark}>>" for title, text in data.items()]
    system = f"{load_prompt(name, folder).text}\n\n{load_prompt('common').text}"
    return ModelQuestion(system, "\n\n".join((*lists, f"{MARK_HEAD}{mark}", *blocks)))


def find_mark(question: ModelQuestion) -> str:
    """Return the mark of this question. It comes before all data, so that no text can pass for it."""
    match = _MARK_PATTERN.search(question.user)
    return match[1] if match else ""


def _format_list(choices: list[str]) -> str:
    """Return one line per choice."""
    return "\n".join(f"- {_LINE_BREAK_PATTERN.sub(' ', choice)}" for choice in choices)
