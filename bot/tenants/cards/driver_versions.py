"""Values for the slots of a block that a tenant pastes, with the driver versions of their hosts."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from tools.fact import Fact, Status

# Values for a cause's block on these hosts: slot → value, from the site's profile.
SlotValueLookup = Callable[[str, Sequence[str]], Mapping[str, str]]

DRIVER_VERSION_KEY = "driver.version"
CUDA_VERSION_KEY = "driver.cuda_version"


def add_driver_versions(slot_values: SlotValueLookup, facts: Iterable[Fact], own: Collection[str]) -> SlotValueLookup:
    """Add the oldest version on the cause's hosts (else on all `own`): what runs on that runs everywhere."""
    read = [
        fact
        for fact in facts
        if fact.key in (DRIVER_VERSION_KEY, CUDA_VERSION_KEY) and fact.status is Status.OK and not fact.stale and fact.host in own
    ]

    def filled(label: str, hosts: Sequence[str]) -> Mapping[str, str]:
        slots = {}
        for slot, key in (("driver", DRIVER_VERSION_KEY), ("cuda", CUDA_VERSION_KEY)):
            versions = [str(fact.value) for fact in read if fact.key == key and fact.host in (hosts or own)]
            if plain_versions := [version for version in versions if _parse_version(version)]:
                slots[slot] = min(plain_versions, key=_parse_version)
        return {**slots, **slot_values(label, hosts)}

    return filled


def _parse_version(version: str) -> tuple[int, ...]:
    """Return an empty tuple for anything but a plain version."""
    parts = version.split(".")
    return tuple(map(int, parts)) if all(part.isascii() and part.isdigit() and len(part) < 8 for part in parts) else ()
