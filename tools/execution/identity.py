"""Identity of a machine: host key and boot id. A change of either means another machine than the one diagnosed."""

import re
from typing import Protocol, runtime_checkable

from tools.checks.kernel import BOOT_ID
from tools.transport import Transport, Unreachable

READ_TIMEOUT_SECONDS = 20.0
MAX_READ_BYTES = 16 * 1024
_BOOT_ID_PATTERN = re.compile(r"[A-Za-z0-9._-]{1,64}")


@runtime_checkable
class HostKeyTransport(Protocol):
    """A transport that knows which host key it verified."""

    async def fingerprint(self, host: str) -> str: ...


async def read_host_key_fingerprint(host: str, transport: Transport) -> str:
    """Return the host key's fingerprint, or "" if the transport knows no keys."""
    return await transport.fingerprint(host) if isinstance(transport, HostKeyTransport) else ""


async def read_boot_id(host: str, transport: Transport, *, seconds: float = READ_TIMEOUT_SECONDS) -> str:
    """Return the current boot id. Raises Unreachable."""
    result = await transport.run(host, BOOT_ID, timeout=seconds, cap=MAX_READ_BYTES)
    boot = result.text.strip()
    if boot and not _BOOT_ID_PATTERN.fullmatch(boot):  # it enters the action and its record, so a host may only write an id
        raise Unreachable(host, "what it printed as its boot id is none")
    if result.exit_status != 0 or not boot:
        raise Unreachable(host, f"its boot id cannot be read: {result.stderr.decode('utf-8', 'replace').strip()[:200] or 'no answer'}")
    return boot
