"""Prompt texts, one file a question; the first line of each is its version. Bump it with every change of the text.

Rule they keep: what people or machines wrote goes between marks that no text can guess, and is called data there.
"""

import secrets
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PROMPT_DIR = Path(__file__).parent
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
    """One question, ready to send: trusted instructions, and the data apart."""

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
    """Build a question. `offered`: trusted ids to choose from. `data`: untrusted text by title, between marks drawn for
    this call.
    """
    mark = secrets.token_hex(8)
    common = load_prompt("common").text.replace("{mark}", mark)
    lists = [f"{title}:\n" + "\n".join(f"- {choice}" for choice in ids) for title, ids in offered.items()]
    blocks = [f"{title}:\n<<{mark}\n{text}\n{mark}>>" for title, text in data.items()]
    return ModelQuestion(f"{load_prompt(name, folder).text}\n\n{common}", "\n\n".join((*lists, *blocks)))
