"""What somebody else sends piece by piece, whole or not at all, and as it is. Pure."""

from collections.abc import AsyncIterable
from typing import Final

IDENTITY_ENCODING_HEADERS: Final = {"Accept-Encoding": "identity"}
"""What we ask of whoever answers us: a small packed answer can be as large as our memory, so nothing is unpacked."""


async def read_limited_body(pieces: AsyncIterable[bytes], most: int) -> bytes | None:
    """All of the bytes; None where there are more than `most`."""
    read = bytearray()
    async for piece in pieces:
        read += piece
        if len(read) > most:
            return None
    return bytes(read)
