"""Decide whether a site's command only reads; refuse with the reason. Pure.

No program can be proven to only read. Allowed are known programs in listed usages, and the site's own by full path
below
a configured folder, whose installers are responsible.
"""

import re
from collections.abc import Iterator, Sequence

from tools.checks.site.readers import PROGRAM_USAGES

_SYSTEM_PROGRAM_PATTERN = re.compile(r"(?:/(?:usr/)?(?:local/)?s?bin/)?([A-Za-z0-9][A-Za-z0-9._+-]*)")
_VENDOR_PROGRAM_PATTERN = re.compile(r"(?:/opt/(?:mellanox|nvidia|beegfs|slurm|rocm[\d.-]*)|/usr/lpp/mmfs|/usr/local/(?:cuda[\d.-]*|nvidia)|/run/nvidia/driver/usr)"
                      r"(?:/[a-z]+)?/s?bin/([A-Za-z0-9][A-Za-z0-9._+-]*)")  # fmt: skip
_PATH_PATTERN = re.compile(r"(?:/[A-Za-z0-9][A-Za-z0-9._+-]*)+")
_SHELL_PATTERN = re.compile(r"[|<>;&`\n\r\0]|\$[({A-Za-z_]|[\x01-\x1f\x7f\x85\u2028\u2029]")
_SYSTEM_FOLDER_PATTERN = re.compile(
    r"/(?:(?:usr/)?s?bin|(?:usr/)?lib(?:32|64|exec)?|usr|usr/local|etc|root|home|tmp|var|var/tmp|dev|dev/shm|proc|sys|run|boot|opt|mnt|media)?"
)

# writable by any user, or not real files
_SHARED_FOLDER_PATTERN = re.compile(r"/(?:tmp|var/tmp|dev|proc|sys|bin|sbin)/")


def explain_refused_folder(folder: str) -> str:
    """Return why a folder cannot hold a site's own programs, or ""."""
    bare = folder.rstrip("/")
    if not _PATH_PATTERN.fullmatch(bare) or _SYSTEM_FOLDER_PATTERN.fullmatch(bare) or _SHARED_FOLDER_PATTERN.match(bare):
        return f"{folder!r} is no folder of a site's own programs: an absolute path that the system and other packages do not share, like /opt/site/checks"
    return ""


def explain_refused_command(argv: Sequence[str], programs: Sequence[str] = ()) -> Iterator[str]:
    """Yield every reason against the command. `programs`: folders of the site's own programs."""
    if not argv:
        yield "names no program"
        return
    for word in argv:
        if _SHELL_PATTERN.search(word) or word != word.strip() or not word:
            yield f"{word!r} belongs to a shell line; commands run without a shell, each word as it stands"
    if not _is_site_program(argv[0], programs):
        yield from _explain_unknown_usage(argv)


def _is_site_program(program: str, folders: Sequence[str]) -> bool:
    """Path parts start with a letter or digit, so `..` is impossible."""
    return bool(_PATH_PATTERN.fullmatch(program)) and any(
        program.startswith(f"{folder.rstrip('/')}/") for folder in folders if not explain_refused_folder(folder)
    )


def _explain_unknown_usage(argv: Sequence[str]) -> Iterator[str]:
    match = _SYSTEM_PROGRAM_PATTERN.fullmatch(argv[0]) or _VENDOR_PROGRAM_PATTERN.fullmatch(argv[0])
    uses = PROGRAM_USAGES.get(match[1], ()) if match else ()
    if not uses:
        yield (
            f"{argv[0][:60]!r} is no program that is known to only read; install your own in a folder that RACKMEDIC_CHECK_PROGRAMS names,"
            " and write its whole path"
        )
    elif not any(use.is_allowed(argv[1:]) for use in uses):
        yield f"{match[1] if match else ''} {' '.join(argv[1:])[:60]!r} is none of the ways to only read that are known of it"
