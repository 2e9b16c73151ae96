"""Preview of a deletion: file count, size, and the largest files with owner, age and open state.

The node kit applies the remedy's own tests. No text from a ticket or log enters the query.
"""

import re
from dataclasses import dataclass

from tools.action import Action
from tools.nodekit.generate import LOOK_COMMAND
from tools.remedies import REMEDIES
from tools.transport import Transport, Unreachable

# the kit prints 100 lines with paths of at most 600 characters
LISTING_TIMEOUT_SECONDS = 9.5
MAX_LISTING_BYTES = 80 * 1024
MAX_LISTED_FILES = 100
_END_PATTERN = re.compile(r"end ([0-9]{1,3})")
_TOTAL_PATTERN = re.compile(r"total ([0-9]{1,12}) ([0-9]{1,18})")
_OPENS_PATTERN = re.compile(r"opens ([0-9]{1,3})")
_FILE_PATTERN = re.compile(r"(file|open) ([0-9]{1,9}) ([0-9]{1,18}) ([^ ]{1,64}) (.{1,600})")


@dataclass(frozen=True, slots=True)
class OldFile:
    """A file to delete: `size` in bytes on disk, `minutes` since its last write, `open` None if unobserved."""

    path: str
    size: int
    owner: str
    minutes: int
    open: bool | None = None


@dataclass(frozen=True, slots=True)
class DeletePreview:
    """The files to delete. `why` says why they could not be read; `whole` is False after a timeout."""

    files: int = 0
    size: int = 0
    largest: tuple[OldFile, ...] = ()
    whole: bool = True
    why: str = ""


async def preview_delete(action: Action, transport: Transport) -> DeletePreview | None:
    """Return what the action would delete now; None for a remedy without preview."""
    remedy = REMEDIES.get(action.remedy)
    if remedy is None or not remedy.preview:
        return None
    argv = (*LOOK_COMMAND, f"{remedy.id}.preview", *action.args.values())
    try:
        result = await transport.run(action.via, argv, timeout=LISTING_TIMEOUT_SECONDS, cap=MAX_LISTING_BYTES)
    except Unreachable as error:
        return DeletePreview(why=error.why)
    if result.timed_out or result.exit_status is None:
        return DeletePreview(why="no answer in time")
    complaint = result.stderr.decode("utf-8", "replace").strip()
    if result.exit_status != 0:
        if "usage: rackmedic-look" in complaint:
            return DeletePreview(why="its node kit is older than this question")
        return DeletePreview(why=complaint[:200] or f"exit status {result.exit_status}")
    return parse_delete_preview(result.text) or DeletePreview(why=complaint[:200] or "an answer of another shape")


def parse_delete_preview(text: str) -> DeletePreview | None:
    """Parse the kit's answer; None for an unknown format. Older kits do not report open files."""
    lines = text.removesuffix("\n").split("\n")
    end = _END_PATTERN.fullmatch(lines[0])
    total = _TOTAL_PATTERN.fullmatch(lines[1]) if len(lines) > 1 else None
    opens = _OPENS_PATTERN.fullmatch(lines[2]) if len(lines) > 2 else None
    file_matches = [_FILE_PATTERN.fullmatch(line) for line in lines[3 if opens else 2 :]]
    if end is None or total is None or len(file_matches) > MAX_LISTED_FILES or not all(file_matches):
        return None
    is_complete = opens is not None and int(opens[1]) < 124  # timeout(1) exits with 124 or more
    largest = tuple(
        OldFile(match[5], int(match[3]), match[4], int(match[2]), _parse_open_state(match[1], is_complete))
        for match in file_matches
        if match
    )
    return DeletePreview(int(total[1]), int(total[2]), largest, whole=int(end[1]) < 124)


def _parse_open_state(kind: str, is_complete: bool) -> bool | None:
    """Return whether the file is open; None if the list of open files is incomplete."""
    if kind == "open":
        return True
    return False if is_complete else None
