"""Programs that a site's checks may run, and the ways in which each only reads: one table a subject, joined here. May import `usage`."""

from collections.abc import Mapping

from tools.checks.site.readers import cluster, devices, files, host, network, storage
from tools.checks.site.usage import Usage

PROGRAM_USAGES: Mapping[str, tuple[Usage, ...]] = {
    **files.PROGRAM_USAGES,
    **host.PROGRAM_USAGES,
    **devices.PROGRAM_USAGES,
    **network.PROGRAM_USAGES,
    **storage.PROGRAM_USAGES,
    **cluster.PROGRAM_USAGES,
}
"""By the program's name. Another word for it (busybox, a script, a link) is another program."""
