"""Read a streamed body whole and unmodified, or not at all. Pure."""

from collections.abc import AsyncIterable
from typing import Final

# Ask for no compression: a small compressed answer could fill the memory when unpacked.
IDENTITY_ENCODING_HEADERS: Final = {"Accept-Encoding": "identity"}


async def read_limited_body(pieces: AsyncIterable[bytes], most: int) -> bytes | None:
    """Return all bytes; None if there are more than `most`."""
    read = bytearray()
    async for piece in pieces:
        read += piece
        if len(read) > most:
            return None
    return bytes(read)
