"""An NTP server with a wrong time, for chrony on a rack's nodes."""

import asyncio
import struct
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

from deploy.lab.layout import Rack

NTP_PORT = 123
SINCE_1900 = 2_208_988_800  # seconds from NTP's epoch to 1970


def ntp_stamp(at: float) -> bytes:
    """Return a time in NTP format: seconds and fraction, 32 bits each."""
    return struct.pack("!II", int(at) + SINCE_1900, int(at % 1 * 2**32))


def ntp_answer(asked: bytes, now: float) -> bytes:
    """Return a stratum 2 answer at `now` (RFC 5905, figure 8); the client's transmit time becomes the origin."""
    version = asked[0] & 0b00111000
    head = struct.pack("!BBbbIII", version | 4, 2, asked[2], -20, 0, 64, 0x7F000001)
    return head + ntp_stamp(now - 5) + asked[40:48] + ntp_stamp(now) + ntp_stamp(now)


class _Liar(asyncio.DatagramProtocol):
    def __init__(self, ahead: float) -> None:
        self._ahead = ahead

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)  # always true, but typed so only from Python 3.12 on

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        if len(data) >= 48:
            self._transport.sendto(ntp_answer(data, time.time() + self._ahead), addr)


@asynccontextmanager
async def lying_clock(rack: Rack, ahead: float) -> AsyncIterator[str]:
    """Serve a time `ahead` seconds ahead on this machine's address in the rack; yield the address."""
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(lambda: _Liar(ahead), local_addr=(rack.gateway, NTP_PORT))
    try:
        yield rack.gateway
    finally:
        transport.close()
