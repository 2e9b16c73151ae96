"""Whether a command that a site wrote down only reads. Refuses with the reason. Pure.

Nothing can prove of a program that it only reads. So there are known readers, by name and with the ways in which each only reads, and there are a
site's own programs, each by its whole path below a folder that the site names: whoever installs one there answers for it. All else is refused.
"""

import re
from collections.abc import Iterator, Sequence

from tools.checks.site.readers import READERS

_SYSTEM = re.compile(r"(?:/(?:usr/)?(?:local/)?s?bin/)?([A-Za-z0-9][A-Za-z0-9._+-]*)")
_VENDORS = re.compile(r"(?:/opt/(?:mellanox|nvidia|beegfs|slurm|rocm[\d.-]*)|/usr/lpp/mmfs|/usr/local/(?:cuda[\d.-]*|nvidia)|/run/nvidia/driver/usr)"
                      r"(?:/[a-z]+)?/s?bin/([A-Za-z0-9][A-Za-z0-9._+-]*)")  # fmt: skip
_PATH = re.compile(r"(?:/[A-Za-z0-9][A-Za-z0-9._+-]*)+")
_SHELL = re.compile(r"[|<>;&`\n\r\0]|\$[({A-Za-z_]|[\x01-\x1f\x7f\x85\u2028\u2029]")
_NEVER = re.compile(
    r"/(?:(?:usr/)?s?bin|(?:usr/)?lib(?:32|64|exec)?|usr|usr/local|etc|root|home|tmp|var|var/tmp|dev|dev/shm|proc|sys|run|boot|opt|mnt|media)?"
)

_NOBODYS = re.compile(r"/(?:tmp|var/tmp|dev|proc|sys|bin|sbin)/")
"""Below these: what anybody may write, and what is no file."""


def folder_refused(folder: str) -> str:
    """Why a folder cannot hold a site's own programs; empty where it can."""
    bare = folder.rstrip("/")
    if not _PATH.fullmatch(bare) or _NEVER.fullmatch(bare) or _NOBODYS.match(bare):
        return f"{folder!r} is no folder of a site's own programs: an absolute path that the system and other packages do not share, like /opt/site/checks"
    return ""


def refusals(argv: Sequence[str], programs: Sequence[str] = ()) -> Iterator[str]:
    """Every reason why this command is not run; none where it may be. `programs` are the folders of the site's own programs."""
    if not argv:
        yield "names no program"
        return
    for word in argv:
        if _SHELL.search(word) or word != word.strip() or not word:
            yield f"{word!r} belongs to a shell line; commands run without a shell, each word as it stands"
    if not _is_own(argv[0], programs):
        yield from _by_table(argv)


def _is_own(program: str, folders: Sequence[str]) -> bool:
    """A path that lies below one of the folders; each of its names begins with a letter or number, so it goes down only."""
    return bool(_PATH.fullmatch(program)) and any(
        program.startswith(f"{folder.rstrip('/')}/") for folder in folders if not folder_refused(folder)
    )


def _by_table(argv: Sequence[str]) -> Iterator[str]:
    found = _SYSTEM.fullmatch(argv[0]) or _VENDORS.fullmatch(argv[0])
    uses = READERS.get(found[1], ()) if found else ()
    if not uses:
        yield (
            f"{argv[0][:60]!r} is no program that is known to only read; install your own in a folder that RACKMEDIC_CHECK_PROGRAMS names,"
            " and write its whole path"
        )
    elif not any(use.admits(argv[1:]) for use in uses):
        yield f"{found[1] if found else ''} {' '.join(argv[1:])[:60]!r} is none of the ways to only read that are known of it"
