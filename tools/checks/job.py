"""A job's environment, as the node kit prints it, and the tails of its logs. Both are tenant text: low trust.

41233 NCCL_IB_HCA=mlx5_0,mlx5_1
NCCL INFO NCCL_IB_GID_INDEX set by environment to 0.
==> /var/log/jobs/812/rank_03.log <==
[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kb.logs.compress import Template, add_line_numbers, compress_log
from kb.logs.job_log import read_job_log
from kb.logs.log_events import LogEvent
from kb.logs.template_filters import FILTERS, FilterRule
from kb.needle_search import split_lines
from tools.checks.check_types import Check, Command, Format
from tools.checks.fact_limits import build_left_out_fact
from tools.checks.job_log_owners import PROBE, OwnedLogs, split_logs_by_owner
from tools.checks.not_understood import build_not_understood_facts, iter_trouble_lines
from tools.fact import FROM_FILE, Fact, Status, build_unobserved_fact

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
    pids_by_setting: dict[tuple[str, str], list[int]] = {}
    for line in split_lines(text):
        match = _VARIABLE_PATTERN.match(line)
        if match and WANTED_VARIABLE_PATTERN.fullmatch(match[2]):
            pid, name, value = int(match[1]), match[2], match[3][:1000]
            pids_by_setting.setdefault((name, value), []).append(pid)
    value_counts = Counter(name for name, _ in pids_by_setting)
    origin = {"of": "launcher"} if _NO_GPU_PROCESS in text[:200] else {}
    facts = []
    for (name, value), pids in pids_by_setting.items():
        attrs = {"pids": pids[:_MAX_LISTED_IDS], "processes": len(pids), "differs": value_counts[name] > 1, **origin}
        facts.append(Fact("env", f"env.{name}", value, line=f"{name}={value}"[:500], attrs=attrs))
    return facts


def report_missing_env(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Report empty output as unobserved: without a process of the job nothing is known about its environment."""
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
    logs_by_owner: Sequence[OwnedLogs | None] = split_logs_by_owner(text) or [None]
    facts = [fact for logs in logs_by_owner for fact in _parse_logs(logs.text if logs else text, regular(text), logs)]
    if any(fact.key == "job.error" and fact.status is Status.OK for fact in facts):
        facts = [fact for fact in facts if fact.key != "job.error" or fact.status is Status.OK]
    probe_notes = (_LEFT_OUT_PATTERN.search(text), _NOT_READ_PATTERN.search(text))
    return [*facts, *(Fact("joblog", "check.left_out", "tail", line=note[1]) for note in probe_notes if note)]


def _parse_logs(text: str, rules: Sequence[FilterRule], logs: OwnedLogs | None = None) -> list[Fact]:
    """Return the facts of one owner's logs; of the whole text if the owner is unknown."""
    body = text
    if _NO_LOGS_PATTERN.search(text):
        body = "\n".join("" if _NO_LOGS_PATTERN.match(line) else line for line in split_lines(text))
    if not body.strip():
        return [Fact("joblog", "job.log", False, line=text.strip().removeprefix("== ")[:200])]
    log = read_job_log(body)
    facts = [_build_error_fact(event) for event in log.events]
    if not facts:
        facts += build_not_understood_facts("joblog", iter_trouble_lines(body))
    if not facts:
        facts.append(Fact("joblog", "job.error", status=Status.ABSENT, line="no known error in the job's log"))
    if log.first_rank is not None:
        first_error = next((event for event in log.events if event.attrs.get("first")), None)
        attrs = {"file": first_error.attrs.get("file")} if first_error and logs else {}
        facts.append(Fact("joblog", "job.first_error_rank", log.first_rank, line=first_error.line if first_error else "", attrs=attrs))
    facts += _build_version_facts(log.versions)
    if log.left_out:
        facts.append(build_left_out_fact("joblog", log.left_out))
    facts += _parse_nccl_env(body)
    facts.append(Fact("joblog", "job.ranks", len(log.ranks)))
    file_count = len(logs.paths) if logs else body.count("==> ")
    log_attrs = _digest_log(body, rules) | ({"lines": logs.lines} if logs else {})
    facts.append(Fact("joblog", "job.log", True, line=f"{file_count or 1} log files", attrs=log_attrs))
    return [_add_source(fact, logs) for fact in facts] if logs else facts


def _build_version_facts(ranks_by_version: Mapping[str, Collection[str]]) -> list[Fact]:
    facts = []
    for version, ranks in ranks_by_version.items():
        if ranks:
            attrs = {"ranks": sorted(ranks)[:_MAX_LISTED_IDS], "rank": min(ranks)}
            facts.append(Fact("joblog", "job.nccl_version", version, line=f"NCCL version {version}", attrs=attrs))
    return facts


def _add_source(fact: Fact, logs: OwnedLogs) -> Fact:
    source = logs.build_source_attrs(str(fact.attrs.get("file") or ""))
    return replace(fact, attrs={**fact.attrs, FROM_FILE: source})


def _digest_log(text: str, rules: Sequence[FilterRule]) -> dict[str, Any]:
    """Return the line count and the most informative `templates` with count, times and lines."""
    data = text.encode("utf-8", "replace")
    digest = compress_log(data, _MAX_TEMPLATES, rules)
    templates = [
        {"text": template.text[:200], "count": template.count, **_format_times(template), "line": first_line, "last_line": last_line}
        for template, first_line, last_line in add_line_numbers(data, digest.templates)
        if not template.text.startswith("==> ")  # tail's file header
    ]
    return {"lines": digest.lines, "templates": templates}


def _format_times(template: Template) -> dict[str, str]:
    return {name: time.isoformat() for name, time in (("first", template.first), ("last", template.last)) if time}


def _parse_nccl_env(text: str) -> list[Fact]:
    """Return the NCCL variables that the ranks printed into their log."""
    if "NCCL INFO NCCL_" not in text:
        return []
    line_by_setting: dict[tuple[str, str], str] = {}
    for line in split_lines(text):
        if "NCCL INFO NCCL_" in line and (setting := _NCCL_SET_PATTERN.search(line[:1000])):
            line_by_setting.setdefault((setting[1], setting[2]), line.strip()[:500])
    value_counts = Counter(name for name, _ in line_by_setting)
    return [
        Fact("joblog", f"env.{name}", value, line=line, attrs={"of": "log", "differs": value_counts[name] > 1})
        for (name, value), line in line_by_setting.items()
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
