"""A host's boot id is accepted; any other text is not."""

import pytest

from tests.support.samples_checks import BOOT_ID
from tools.execution.identity import read_boot_id
from tools.transport import CommandResult, Unreachable


class Prints:
    """A host that prints this text for every command."""

    clock = "virtual"

    def __init__(self, text: str) -> None:
        self._text = text

    async def run(self, host: str, argv: object, *, timeout: float, cap: int) -> CommandResult:
        return CommandResult(self._text.encode(), b"", 0, 0.1)

    async def aclose(self) -> None:
        pass


async def test_a_boot_id_is_taken() -> None:
    assert await read_boot_id("m1", Prints(BOOT_ID)) == BOOT_ID.strip()


@pytest.mark.parametrize("text", [f"{BOOT_ID}password=hunter22", "password=hunter22", "a" * 65, "a b", "<!channel>", "\u202e1"])
async def test_a_text_in_its_place_gets_into_no_action(text: str) -> None:
    with pytest.raises(Unreachable, match="is none"):
        await read_boot_id("m1", Prints(text))
