"""The result of a command on a simulated node."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ShellAnswer:
    """`hangs`: the command never ends. `seconds`: its duration on the virtual clock."""

    stdout: bytes = b""
    stderr: bytes = b""
    status: int = 0
    seconds: float = 0.05
    hangs: bool = False


def text_answer(text: str, status: int = 0, stderr: str = "") -> ShellAnswer:
    return ShellAnswer(text.encode(), stderr.encode(), status)


HANGING = ShellAnswer(hangs=True, status=124)
