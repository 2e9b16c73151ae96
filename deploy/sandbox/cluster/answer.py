"""What a command leaves behind on a simulated node, before a transport carries it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ShellAnswer:
    """`hangs`: it never ends by itself. `seconds` is how long it takes on the virtual clock."""

    stdout: bytes = b""
    stderr: bytes = b""
    status: int = 0
    seconds: float = 0.05
    hangs: bool = False


def said(text: str, status: int = 0, stderr: str = "") -> ShellAnswer:
    """An answer from text."""
    return ShellAnswer(text.encode(), stderr.encode(), status)


HANGS = ShellAnswer(hangs=True, status=124)
