"""What a command leaves behind on a simulated node, before a transport carries it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Answer:
    """`hangs`: it never ends by itself. `seconds` is how long it takes on the virtual clock."""

    stdout: bytes = b""
    stderr: bytes = b""
    status: int = 0
    seconds: float = 0.05
    hangs: bool = False


def said(text: str, status: int = 0, stderr: str = "") -> Answer:
    """An answer from text."""
    return Answer(text.encode(), stderr.encode(), status)


HANGS = Answer(hangs=True, status=124)
