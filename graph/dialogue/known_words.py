"""Words of the training phrases, which the spelling corrector keeps. `python -m graph.dialogue.train` writes the file."""

from functools import cache
from pathlib import Path
from typing import Final

KNOWN_WORDS_PATH: Final = Path(__file__).parent / "known_words.txt"


@cache
def list_known_words() -> frozenset[str]:
    return frozenset(KNOWN_WORDS_PATH.read_text(encoding="utf-8").split())
