"""Ownership of job logs on a node. A fixed program on the node finds and cuts them (`tools.checks.job_log_probe`).

It reads the inventory's folder, and the output files that Slurm names for its jobs on this node (arrays and
heterogeneous parts have a name each) if the job's user owns them, because a tenant chooses that path. squeue gives the
user as a number. A file not written for days belongs to another job and is not read.

Names and links prove nothing in a shared folder: a file is opened once without following links, and its owner is read
from that descriptor. It belongs to a job if its owner has that job on this node, and Slurm names the file as its output
or the path names the job. A fresh random number marks each file, so no log line can imitate a header.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kb.needle_search import split_lines
from tools.checks.sent_programs import encode_program

# Opens regular files read-only, follows no foreign links, starts only squeue and scontrol. Its argument is the folder.
PROBE = encode_program(Path(__file__).with_name("job_log_probe.py"))
MAX_OWNERS = 16  # owner and job pairs of one answer; logs beyond it count as without owner
_MARKED_PATTERN = re.compile(r"(?m)^== logs (\d{20})$")
_OWNER_PATTERN = re.compile(r"== of uid=(\d{1,10}) job=(\d{1,10}|-) nodes=([\w.,\[\]-]{1,2000}) \d{20}$")
_NO_OWNER = ("", "", "")


@dataclass(frozen=True, slots=True)
class OwnedLogs:
    """The logs of one owner and job, with all other lines blanked so that line numbers stay valid.

    `owner` is (uid, job, nodes), each "" if not established.
    """

    owner: tuple[str, str, str]
    paths: tuple[str, ...]
    text: str
    lines: int

    def build_source_attrs(self, path: str = "") -> Mapping[str, Any]:
        """Return a fact's source; a path not among these logs becomes their common folder."""
        uid, job, nodes = self.owner
        source_path = path if path in self.paths else _find_common_path(self.paths)
        attrs: dict[str, Any] = {"path": source_path}
        if uid:
            attrs["uid"] = int(uid)
        if job:
            attrs |= {"job": job, "nodes": nodes}
        return attrs


def split_logs_by_owner(text: str) -> list[OwnedLogs]:
    """Return logs by owner and job, in order; empty if not the program's output."""
    match = _MARKED_PATTERN.search(text)
    if not match:
        return []
    lines, mark = split_lines(text), f" {match[1]}"
    parts: dict[tuple[str, str, str], list[tuple[int, int]]] = {}
    heads = [at for at, line in enumerate(lines) if at and line.endswith(mark) and line.startswith("== of ")]
    for at, after in zip(heads, [*heads[1:], len(lines) + 1], strict=True):
        owner = _parse_owner(lines[at])
        owner = owner if owner in parts or len(parts) < MAX_OWNERS else _NO_OWNER
        parts.setdefault(owner, []).append((at - 1, after - 1))
    return [_build_owned_logs(owner, lines, spans) for owner, spans in parts.items()]


def _parse_owner(head: str) -> tuple[str, str, str]:
    """An incomplete header establishes no job."""
    match = _OWNER_PATTERN.match(head)
    if match is None:
        return _NO_OWNER
    return (match[1], match[2], match[3]) if "-" not in (match[2], match[3]) else (match[1], "", "")


def _build_owned_logs(owner: tuple[str, str, str], lines: Sequence[str], spans: Sequence[tuple[int, int]]) -> OwnedLogs:
    own_lines = [""] * len(lines)
    paths = []
    for start, end in spans:
        paths.append(lines[start].removeprefix("==> ").removesuffix(" <=="))
        own_lines[start] = lines[start]
        own_lines[start + 2 : end] = [f" {line}" if line.startswith("==> ") else line for line in lines[start + 2 : end]]
    return OwnedLogs(owner, tuple(paths), "\n".join(own_lines) + "\n", sum(end - start - 1 for start, end in spans))


def _find_common_path(paths: Sequence[str]) -> str:
    if len(paths) == 1:
        return paths[0]
    parts = [path.split("/") for path in paths]
    same = next((n for n, row in enumerate(zip(*parts, strict=False)) if len(set(row)) > 1), min(map(len, parts)))
    return "/".join(parts[0][:same]) or "/"
