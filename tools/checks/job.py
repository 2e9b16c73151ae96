"""A job's environment, and the tails of its logs with their owners, which `tools.checks.job_log_probe` finds and cuts. All tenant text: low trust."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kb.logs.compress import Template, add_line_numbers, compress_log
from kb.logs.job_log import read_job_log
from kb.logs.log_lines import LogEvent
from kb.logs.template_filters import FILTERS, FilterRule
from kb.needle_search import split_lines
from tools.checks.check_types import Check, Command, Format, build_left_out_fact, encode_program
from tools.checks.not_understood import build_not_understood_facts, iter_trouble_lines
from tools.fact import FROM_FILE, Fact, Status, build_unobserved_fact

# Ownership of job logs on a node. A fixed program on the node finds and cuts them (`tools.checks.job_log_probe`).
#
# It reads the inventory's folder, and the output files that Slurm names for its jobs on this node (arrays and
# heterogeneous parts have a name each) if the job's user owns them, because a tenant chooses that path. squeue gives the
# user as a number. A file not written for days belongs to another job and is not read.
#
# Names and links prove nothing in a shared folder: a file is opened once without following links, and its owner is read
# from that descriptor. It belongs to a job if its owner has that job on this node, and Slurm names the file as its output
# or the path names the job. A fresh random number marks each file, so no log line can imitate a header.

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
        return {"path": source_path, **({"uid": int(uid)} if uid else {}), **({"job": job, "nodes": nodes} if job else {})}


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
    row = _OWNER_PATTERN.match(head)
    if row is None:
        return _NO_OWNER
    return (row[1], row[2], row[3]) if "-" not in (row[2], row[3]) else (row[1], "", "")


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


# A job's environment, as the node kit prints it, and the tails of its logs. Both are tenant text: low trust.
#
# 41233 NCCL_IB_HCA=mlx5_0,mlx5_1
# NCCL INFO NCCL_IB_GID_INDEX set by environment to 0.
# ==> /var/log/jobs/812/rank_03.log <==
# [rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.

_VARIABLE_PATTERN = re.compile(r"(\d{1,10}) ([A-Za-z_][A-Za-z0-9_]{0,63})=(.*)$")
# Variables that the node kit shows. Others are never read: they may hold secrets.
WANTED_VARIABLE_PATTERN = re.compile(
    r"(?:NCCL|CUDA|MASTER|UCX|GLOO|TORCH)_\w{1,60}|WORLD_SIZE|RANK|LOCAL_RANK|LD_LIBRARY_PATH|SLURM_JOB_ID|OMP_NUM_THREADS"
)
_MAX_LISTED_IDS = 64
_MAX_TEMPLATES = 8
# A device named in a log is accepted only in these forms.
_DEVICE_PATTERN = re.compile(r"gpu\d{1,3}|[a-z][a-z0-9]{1,15}_\w{1,16}|[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d")
_LEFT_OUT_PATTERN = re.compile(r"(?m)^== left out: (\d{1,7} of \d{1,7} files .{0,200})$")
_NOT_READ_PATTERN = re.compile(r"(?m)^== not read: (.{1,300})$")
_NO_LOGS_PATTERN = re.compile(
    r"(?:find|tail): .{1,300}: No such file or directory|tail: cannot open|^== no log of .*$|^\[Errno \d+\] .*$|^== left out: .*$|^== not read: .*$",
    re.MULTILINE,
)
_NO_GPU_PROCESS = "== no GPU process"  # the kit's marker: the variables are from processes other than the ranks
# a rank's environment as printed with NCCL_DEBUG=INFO
_NCCL_SET_PATTERN = re.compile(r"NCCL INFO (NCCL_[A-Z0-9_]{1,60}) set (?:by (?:environment|plugin) )?to (\S{1,400}?)\.?\s*$")


def is_env(text: str) -> bool:
    return text.lstrip().startswith(_NO_GPU_PROCESS) or any(_VARIABLE_PATTERN.match(line) for line in split_lines(text[:8192])[:5])


def parse_env(text: str) -> Sequence[Fact]:
    """Return one fact per variable and value, with its processes as `pids`."""
    groups: dict[tuple[str, str], list[int]] = {}
    for line in split_lines(text):
        row = _VARIABLE_PATTERN.match(line)
        if row and WANTED_VARIABLE_PATTERN.fullmatch(row[2]):
            groups.setdefault((row[2], row[3][:1000]), []).append(int(row[1]))
    values = Counter(name for name, _ in groups)
    attributes = {"of": "launcher"} if _NO_GPU_PROCESS in text[:200] else {}
    return [
        Fact(
            "env",
            f"env.{name}",
            value,
            line=f"{name}={value}"[:500],
            attrs={"pids": pids[:_MAX_LISTED_IDS], "processes": len(pids), "differs": values[name] > 1, **attributes},
        )
        for (name, value), pids in groups.items()
    ]


def report_missing_env(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Report empty output as unobserved, not as fine: the job is gone."""
    reason = (
        "no process of a job is left to read it from, or there is no node kit to read it with; what its log tells of it is under joblog"
    )
    return facts or [build_unobserved_fact("env", Status.UNREADABLE, reason)]


def is_job_log(text: str) -> bool:
    return bool(text.strip())


def parse_job_log(text: str, regular: Callable[[str], Sequence[FilterRule]] = lambda _: FILTERS) -> Sequence[Fact]:
    """Return errors, rank count and first failure for each owner and job.

    `regular` returns the rules that drop lines from the templates; no other fact depends on them.
    """
    owned = split_logs_by_owner(text)
    parts = [_parse_logs(logs.text, regular(text), logs) for logs in owned] if owned else [_parse_logs(text, regular(text))]
    facts = [fact for part in parts for fact in part]
    if any(fact.key == "job.error" and fact.status is Status.OK for fact in facts):
        facts = [fact for fact in facts if fact.key != "job.error" or fact.status is Status.OK]
    log_facts = [
        Fact("joblog", "check.left_out", "tail", line=note[1])
        for note in (_LEFT_OUT_PATTERN.search(text), _NOT_READ_PATTERN.search(text))
        if note
    ]
    return [*facts, *log_facts]


def _parse_logs(text: str, rules: Sequence[FilterRule], logs: OwnedLogs | None = None) -> list[Fact]:
    body = "\n".join("" if _NO_LOGS_PATTERN.match(line) else line for line in split_lines(text)) if _NO_LOGS_PATTERN.search(text) else text
    if not body.strip():
        return [Fact("joblog", "job.log", False, line=text.strip().removeprefix("== ")[:200])]
    log = read_job_log(body)
    facts = [_build_error_fact(event) for event in log.events]
    if not facts:
        facts += build_not_understood_facts("joblog", iter_trouble_lines(body))
    if not facts:
        facts.append(Fact("joblog", "job.error", status=Status.ABSENT, line="no known error in the job's log"))
    if log.first_rank is not None:
        first = next((event for event in log.events if event.attrs.get("first")), None)
        attrs = {"file": first.attrs.get("file")} if first and logs else {}
        facts.append(Fact("joblog", "job.first_error_rank", log.first_rank, line=first.line if first else "", attrs=attrs))
    facts += [
        Fact(
            "joblog",
            "job.nccl_version",
            version,
            line=f"NCCL version {version}",
            attrs={"ranks": sorted(ranks)[:_MAX_LISTED_IDS], "rank": min(ranks)},
        )
        for version, ranks in log.versions.items()
        if ranks
    ]
    facts += [build_left_out_fact("joblog", log.left_out)] if log.left_out else []
    files = len(logs.paths) if logs else body.count("==> ")
    facts += [
        *_parse_nccl_env(body),
        Fact("joblog", "job.ranks", len(log.ranks)),
        Fact(
            "joblog",
            "job.log",
            True,
            line=f"{files or 1} log files",
            attrs=_digest_log(body, rules) | ({"lines": logs.lines} if logs else {}),
        ),
    ]
    return (
        [replace(fact, attrs={**fact.attrs, FROM_FILE: logs.build_source_attrs(str(fact.attrs.get("file") or ""))}) for fact in facts]
        if logs
        else facts
    )


def _digest_log(text: str, rules: Sequence[FilterRule]) -> dict[str, Any]:
    """Return the line count and the most informative `templates` with count, times and lines."""
    data = text.encode("utf-8", "replace")
    digest = compress_log(data, _MAX_TEMPLATES, rules)
    rows = [
        {"text": row.text[:200], "count": row.count, **_format_times(row), "line": line, "last_line": last}
        for row, line, last in add_line_numbers(data, digest.templates)
        if not row.text.startswith("==> ")  # tail's file header
    ]
    return {"lines": digest.lines, "templates": rows}


def _format_times(row: Template) -> dict[str, str]:
    return {name: time.isoformat() for name, time in (("first", row.first), ("last", row.last)) if time}


def _parse_nccl_env(text: str) -> list[Fact]:
    lines: dict[tuple[str, str], str] = {}
    for line in split_lines(text) if "NCCL INFO NCCL_" in text else ():
        if "NCCL INFO NCCL_" in line and (row := _NCCL_SET_PATTERN.search(line[:1000])):
            lines.setdefault((row[1], row[2]), line.strip()[:500])
    values = Counter(name for name, _ in lines)
    return [
        Fact("joblog", f"env.{name}", value, line=line, attrs={"of": "log", "differs": values[name] > 1})
        for (name, value), line in lines.items()
        if WANTED_VARIABLE_PATTERN.fullmatch(name)
    ]


def _build_error_fact(event: LogEvent) -> Fact:
    attrs = {name: value for name, value in event.attrs.items() if value is not None}
    device = event.device if _DEVICE_PATTERN.fullmatch(event.device or "") else None
    return Fact("joblog", event.kind, event.value, device, line=event.line[:1000], attrs=attrs, time=event.time)


def report_missing_log(facts: Sequence[Fact]) -> Sequence[Fact]:
    return facts or [Fact("joblog", "job.log", False, line="no log file is found")]


CHECKS = (
    Check(
        id="env",
        asks="Which NCCL, CUDA and launcher variables does the job run with?",
        commands=(Command("job", ("rackmedic-look", "env"), privileged=True, optional=True),),
        formats=(Format("environment", is_env, parse_env),),
        establishes=("env.*",),
        seconds=1.0,
        partial=True,
        damage="ignore",
        settle=report_missing_env,
    ),
    Check(
        id="joblog",
        asks="Which rank of the job failed first, and with what error?",
        commands=(Command("tail", ("python3", "-c", PROBE, "{job_logs}"), optional=True),),
        formats=(Format("job log", is_job_log, parse_job_log),),
        establishes=(
            "job.error",
            "job.nccl_version",
            "job.ranks",
            "job.first_error_rank",
            "job.log",
            "check.left_out",
            "check.not_understood",
            "env.*",
        ),
        seconds=2.0,
        partial=True,
        damage="ignore",
        timeout=30.0,
        settle=report_missing_log,
    ),
)
