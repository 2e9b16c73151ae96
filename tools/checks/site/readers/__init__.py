"""Programs that a site's checks may run, with their read-only usages, one table per subject. May import `usage`."""

from collections.abc import Mapping

from tools.checks.site.readers import cluster, devices, files, host, network, storage
from tools.checks.site.usage import Usage

# By program name. An alias (busybox, a script, a link) is another program.
PROGRAM_USAGES: Mapping[str, tuple[Usage, ...]] = {
    **files.PROGRAM_USAGES,
    **host.PROGRAM_USAGES,
    **devices.PROGRAM_USAGES,
    **network.PROGRAM_USAGES,
    **storage.PROGRAM_USAGES,
    **cluster.PROGRAM_USAGES,
}
