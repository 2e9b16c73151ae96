"""The logs that a node holds of its jobs, found and cut by one fixed program that runs there (`tools.checks.job_log_probe`), and whose each of them is.

Read are files of the folder that the inventory names, and what Slurm says its jobs on this node write to (arrays and parts of a heterogeneous job
have a name each), as far as their own user owns it: a tenant chooses that path. Whose a job is says squeue, in a number. A file that nobody wrote
to for days is of another job, and never read for this one.

In a folder that several write to, names and links prove nothing: a file is opened once, without following a link, and its owner is asked of that
descriptor. It belongs to a job where its owner has that job on this node, and Slurm names the file as its output or the path names the job. The
program marks each file with a number that it draws anew each time, so that no line of a log can pose as the head of another one.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kb.scan import split_lines
from tools.checks.embedded_program import encode_program

PROBE = encode_program(Path(__file__).with_name("job_log_probe.py"))
"""Opens regular files for reading, follows no link of others, and starts squeue and scontrol alone. Its only argument is the folder."""
MAX_OWNERS = 16
"""Owners and jobs that one answer is taken apart by; what more there are has no owner that is established."""
_MARKED_PATTERN = re.compile(r"(?m)^== logs (\d{20})$")
_OWNER_PATTERN = re.compile(r"== of uid=(\d{1,10}) job=(\d{1,10}|-) nodes=([\w.,\[\]-]{1,2000}) \d{20}$")
_NO_OWNER = ("", "", "")


@dataclass(frozen=True, slots=True)
class OwnedLogs:
    """The logs of one owner and job, as the text that they stand in with everything else left blank, so that numbers of lines stay. `owner` is (uid, job,
    nodes), each "" where it is not established."""

    owner: tuple[str, str, str]
    paths: tuple[str, ...]
    text: str
    lines: int

    def build_source_attrs(self, path: str = "") -> Mapping[str, Any]:
        """What a fact of these logs carries; of a path that is none of theirs, the folder that they have in common."""
        uid, job, nodes = self.owner
        here = path if path in self.paths else _find_common_path(self.paths)
        return {"path": here, **({"uid": int(uid)} if uid else {}), **({"job": job, "nodes": nodes} if job else {})}


def split_logs_by_owner(text: str) -> list[OwnedLogs]:
    """The logs by owner and job, in the order in which they come. Empty for a text that is not the program's."""
    found = _MARKED_PATTERN.search(text)
    if not found:
        return []
    lines, mark = split_lines(text), f" {found[1]}"
    parts: dict[tuple[str, str, str], list[tuple[int, int]]] = {}
    heads = [at for at, line in enumerate(lines) if at and line.endswith(mark) and line.startswith("== of ")]
    for at, after in zip(heads, [*heads[1:], len(lines) + 1], strict=True):
        owner = _parse_owner(lines[at])
        owner = owner if owner in parts or len(parts) < MAX_OWNERS else _NO_OWNER
        parts.setdefault(owner, []).append((at - 1, after - 1))
    return [_build_owned_logs(owner, lines, spans) for owner, spans in parts.items()]


def _parse_owner(head: str) -> tuple[str, str, str]:
    """Whatever is not all there establishes no job."""
    row = _OWNER_PATTERN.match(head)
    if row is None:
        return _NO_OWNER
    return (row[1], row[2], row[3]) if "-" not in (row[2], row[3]) else (row[1], "", "")


def _build_owned_logs(owner: tuple[str, str, str], lines: Sequence[str], spans: Sequence[tuple[int, int]]) -> OwnedLogs:
    kept = [""] * len(lines)
    paths = []
    for start, end in spans:
        paths.append(lines[start].removeprefix("==> ").removesuffix(" <=="))
        kept[start] = lines[start]
        kept[start + 2 : end] = [f" {line}" if line.startswith("==> ") else line for line in lines[start + 2 : end]]
    return OwnedLogs(owner, tuple(paths), "\n".join(kept) + "\n", sum(end - start - 1 for start, end in spans))


def _find_common_path(paths: Sequence[str]) -> str:
    if len(paths) == 1:
        return paths[0]
    parts = [path.split("/") for path in paths]
    same = next((n for n, row in enumerate(zip(*parts, strict=False)) if len(set(row)) > 1), min(map(len, parts)))
    return "/".join(parts[0][:same]) or "/"
