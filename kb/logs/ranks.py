"""Find a log line's rank from its tag or its file name."""

import re

# Launchers' line tags. Exactly one group matches, and no digit value matters, so zeroed lines match alike.
RANK_TAG_PATTERN = re.compile(
    r"\s{0,8}(?:\[rank ?(\d{1,6})\]:?|\[Rank (\d{1,6})\]:?|\[default(\d{1,4})\]:|\[\d{1,4},(\d{1,6})\](?:<std(?:err|out)>)?:|"
    r"\[(\d{1,6})\]:? |Rank (\d{1,6})\]?:|rank ?(\d{1,6}):|(\d{1,5}): (?=\S))"
)
_INSIDE_PATTERN = re.compile(
    r"(?:\[PG [^\]]{0,60}Rank (\d{1,6})\]|\[[Rr]ank (\d{1,6})\]|\bGlobal rank (\d{1,6})\b|\b[Rr]ank[ =:]{1,2}(\d{1,6})\b(?! and\b))"
)
_NCCL_PATTERN = re.compile(r"[^\s:]{1,255}:\d{1,10}:\d{1,10} \[(\d{1,3})\] (?:\S{1,80}:\d{1,5} (?:\(\w{1,60}\) )?)?NCCL ")
_HEADER_PATTERN = re.compile(r"==> (.{1,4096}) <==$")
_FILE_PATTERN = re.compile(
    r"rank[-_.=]?(\d{1,6})(?!.*rank[-_.=]?\d)|/(\d{1,6})/std(?:err|out)\.log$|(?:task|proc|worker)[-_.]?(\d{1,6})\.\w+$|[-_]\d{2,}[-_.](\d{1,5})\.(?:log|out|err)$",
    re.IGNORECASE,
)


def parse_file_header(line: str) -> str | None:
    """Return the path of a `tail -v` header, or None."""
    match = _HEADER_PATTERN.match(line) if line.startswith("==> ") else None
    return match[1] if match else None


def get_rank_from_path(path: str) -> str | None:
    """Return 8 for `/logs/4711/rank_8.log`, 5 for torchrun's `attempt_0/5/stderr.log`."""
    match = _FILE_PATTERN.search(path)
    return next((group for group in match.groups() if group is not None), None) if match else None


def split_rank_tag(line: str) -> tuple[str | None, str]:
    """Return the tag's rank and the line without it."""
    match = RANK_TAG_PATTERN.match(line)
    if not match:
        return None, line
    return str(int(match[match.lastindex or 1])), line[match.end() :].removeprefix(" ")


def find_rank_in_message(line: str) -> str | None:
    """Find the rank in `[Rank 2]` or `[PG 0 Rank 2]`."""
    match = _INSIDE_PATTERN.search(line[:2000]) if "ank" in line else None
    return next((str(int(group)) for group in match.groups() if group), None) if match else None


def find_nccl_device(line: str) -> str | None:
    """Return the CUDA device of NCCL's tag, a last resort: it is the rank only in single-node jobs."""
    match = _NCCL_PATTERN.search(line[:400])
    return match[1] if match else None
