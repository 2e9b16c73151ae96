"""A time server that lies, for chrony on a rack's nodes to believe."""

import asyncio
import struct
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

from deploy.lab.layout import Rack

NTP_PORT = 123
SINCE_1900 = 2_208_988_800
"""Seconds from NTP's epoch to 1970."""


def ntp_stamp(at: float) -> bytes:
    """A moment as NTP writes it: seconds and their fraction, 32 bits each."""
    return struct.pack("!II", int(at) + SINCE_1900, int(at % 1 * 2**32))


def ntp_answer(asked: bytes, now: float) -> bytes:
    """What a server of stratum 2 answers at `now` (RFC 5905, figure 8); its client's transmit time comes back as the origin."""
    version = asked[0] & 0b00111000
    head = struct.pack("!BBbbIII", version | 4, 2, asked[2], -20, 0, 64, 0x7F000001)
    return head + ntp_stamp(now - 5) + asked[40:48] + ntp_stamp(now) + ntp_stamp(now)


class _Liar(asyncio.DatagramProtocol):
    def __init__(self, ahead: float) -> None:
        self._ahead = ahead

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)  # it is, though of no such class before Python 3.12

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        if len(data) >= 48:
            self._transport.sendto(ntp_answer(data, time.time() + self._ahead), addr)


@asynccontextmanager
async def lying_clock(rack: Rack, ahead: float) -> AsyncIterator[str]:
    """On this machine's own address in the rack, some seconds ahead; its address."""
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(lambda: _Liar(ahead), local_addr=(rack.gateway, NTP_PORT))
    try:
        yield rack.gateway
    finally:
        transport.close()
