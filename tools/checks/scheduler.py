"""Scheduler state of a node and its jobs: Slurm here, Kubernetes in `tools.checks.kubernetes`.

NodeName=gpu-017 Arch=x86_64 State=IDLE+DRAIN ThreadsPerCore=1 Reason=maintenance CHG-20417 [root@2026-05-20T03:01:00]
812|PREEMPTED|0:15|2026-05-20T01:00:00|2026-05-20T03:00:00
"""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from kb.needle_search import split_lines
from tools.checks import kubernetes
from tools.checks.check_types import Check, Command, Format, Unreadable
from tools.fact import Fact, Status, build_unobserved_fact

CHECK = "sched"
_STATE_PATTERN = re.compile(r"\bState=([A-Z_]{2,24}[*~#!%$@^-]?(?:\+[A-Z_]{2,24}){0,6})")
_REASON_PATTERN = re.compile(r"\bReason=(.{1,400}?)(?: \[([^\]@\n]{1,64})@([^\]\n]{1,40})\])?\s*$", re.MULTILINE)
_PARTITIONS_PATTERN = re.compile(r"\bPartitions=([A-Za-z0-9_.,-]{1,200})")
_UNKNOWN_PATTERN = re.compile(r"Node \S{1,80} not found|Invalid node name")
_RUNNING_JOB_PATTERN = re.compile(r"(\d{1,12}),([A-Z_]{2,20}),([A-Za-z0-9_][\w.@$-]{0,63})\s*$")
NODE_HOLDING_STATES = frozenset({"RUNNING", "COMPLETING", "SUSPENDED", "CONFIGURING", "STOPPED"})
MAX_JOBS, MAX_PARTITIONS = 64, 16
# The controller rejects this host's credential.
_REJECTED_PATTERN = re.compile(r".{0,120}(?:Zero Bytes were transmitted or received|Invalid authentication credential)")
_NO_ACCOUNTS_PATTERN = re.compile(r"accounting storage is disabled", re.IGNORECASE)

# Why Slurm could not be queried (messages of 22.05 to 24.05), worded alike on every host. The first match counts.
SLURM_ERRORS: Mapping[str, str] = {
    r"munge|[Pp]rotocol authentication error|Invalid authentication credential": "munge does not vouch for this node (is munged up, here and there?)",
    r"Zero Bytes were transmitted or received": "the controller (slurmctld) hangs up on this host (does it have the same munge key and the right time?)",
    r"Problem talking to the database|slurm_persist_conn|Unable to connect to database": "the accounting database (slurmdbd) does not answer",
    r"Unable to contact slurm controller|slurmctld": "the controller (slurmctld) does not answer",
    r"Could not establish a configuration source|[Uu]nable to (?:process|open) \S*conf|fatal: ": "its commands have no usable slurm.conf",
}

# Reasons that slurmctld and slurmd set themselves (22.05 to 24.05), for any recorded user: never planned maintenance.
SLURM_REASONS: Mapping[str, str] = {
    r"gres/gpu\S* count (?:reported lower than configured|too low)": "gpus_missing",
    r"Kill task failed": "kill_task_failed",
    r"Not responding": "not_responding",
    r"batch job complete failure": "batch_job_failure",
    r"(?:Prolog|Epilog) error": "prolog_failed",
    r"Node unexpectedly rebooted": "rebooted",
    r"Low (?:RealMemory|TmpDisk|CPUs|socket|Cores)|(?:RealMemory|CPUs) count": "hardware_missing",
}
# State words of Slurm and Kubernetes nodes that take no jobs, or only some users' jobs.
OUT_OF_SERVICE_WORDS = (
    *("DOWN", "DRAIN", "FAIL", "INVAL", "MAINT", "NOT_RESPONDING", "NO_RESPOND", "RESERVED", "POWER", "REBOOT", "BLOCKED", "FUTURE"),
    *("ERROR", "UNKNOWN", "NotReady", "SchedulingDisabled", "Pressure"),
)
OWN_REASON_PREFIX = "rackmedic:"  # prefix of reasons that RackMedic sets
_JOB_PATTERN = re.compile(
    r"(?P<job>\d{1,12}(?:_\d{1,9})?)\|(?P<state>[A-Z_]{2,20})(?: by (?P<uid>\d{1,10}))?\|(?P<exit>\d{1,3}:\d{1,3})\|"
    r"(?P<started>[0-9T:-]{1,25}|Unknown)\|(?P<ended>[0-9T:-]{1,25}|Unknown)\s*$"
)


def is_node(text: str) -> bool:
    head = text[:8192]
    return (
        ("NodeName=" in head and "State=" in head)
        or (head.lstrip().startswith("{") and '"nodes"' in head)
        or bool(_UNKNOWN_PATTERN.search(head) or _explain_slurm_error(head))
    )


def parse_node(text: str) -> Sequence[Fact]:
    """Return state and reason. A node unknown to Slurm is absent; an unreachable Slurm is unobserved."""
    if text.lstrip().startswith("{"):
        return _parse_json_node(text)
    state = _STATE_PATTERN.search(text)
    if state is None:
        return _build_error_facts(text)
    words = [re.sub(r"\W", "", word) for word in state[1].split("+")]
    if "*" in state[1]:
        words.append("NOT_RESPONDING")
    reason = _REASON_PATTERN.search(text)
    partitions = _PARTITIONS_PATTERN.search(text)
    facts = _build_node_facts(words, reason[1], reason[2] or "", reason[3] or "") if reason else _build_node_facts(words, "")
    return [*facts, *_build_partition_facts(partitions[1].split(",") if partitions else [])]


def _build_error_facts(text: str) -> list[Fact]:
    """Return why Slurm gave no state. Raise Unreadable if the output names no known reason."""
    if unknown_node := _UNKNOWN_PATTERN.search(text):
        return [Fact(CHECK, "sched.state", status=Status.ABSENT, line=unknown_node[0][:200])]
    problem = _explain_slurm_error(text)
    if not problem:
        raise Unreadable("a node without its State")
    facts = [build_unobserved_fact(CHECK, Status.UNREACHABLE, f"Slurm could not be asked: {problem}")]
    if rejection := _REJECTED_PATTERN.search(text[:8192]):
        facts.append(Fact(CHECK, "base.answer", "rejected", "scheduler", line=rejection[0][:200]))
    return facts


def _explain_slurm_error(text: str) -> str:
    return next((meaning for pattern, meaning in SLURM_ERRORS.items() if re.search(pattern, text[:8192])), "")


def _parse_json_node(text: str) -> list[Fact]:
    try:
        tree = json.loads(text[: text.rfind("}") + 1])
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"expected JSON: {error}") from error
    nodes = tree.get("nodes") if isinstance(tree, dict) else None
    node: Any = nodes[0] if isinstance(nodes, list) and nodes else None
    state = node.get("state") if isinstance(node, Mapping) else None
    words = [str(word) for word in state] if isinstance(state, list) else str(state or "").split("+")
    if not words or not all(re.fullmatch(r"[A-Z_]{2,24}", word) for word in words):
        raise Unreadable("expected a node with its state")
    since = _format_timestamp(node.get("reason_changed_at"))
    facts = _build_node_facts(words, str(node.get("reason") or ""), str(node.get("reason_set_by_user") or ""), since)
    partitions = node.get("partitions")
    return [*facts, *_build_partition_facts([str(name)[:64] for name in partitions] if isinstance(partitions, list) else [])]


def _build_partition_facts(partitions: Sequence[str]) -> list[Fact]:
    names = [name for name in partitions if name][:MAX_PARTITIONS]
    return [Fact(CHECK, "sched.partitions", names, line=f"Partitions={','.join(names)}")] if names else []


def _format_timestamp(timestamp: Any) -> str:
    """Format seconds since 1970, which newer versions of Slurm put into an object. Return an empty text for others."""
    seconds = timestamp.get("number") if isinstance(timestamp, Mapping) else timestamp
    if not isinstance(seconds, int) or not 0 < seconds < 1 << 33:
        return ""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _build_node_facts(words: Sequence[str], reason: str, user: str = "", since: str = "") -> list[Fact]:
    state = "+".join(dict.fromkeys(words))[:120]
    reason = " ".join(reason.split())[:300]
    line = f"State={state}" + (f" Reason={reason}" if reason else "")
    reason = "" if reason.lower() in ("none", "(null)") else reason
    if not reason:
        return [Fact(CHECK, "sched.state", state, line=line)]
    origin = {name: value for name, value in (("by", user[:64]), ("since", since[:40])) if value}
    state_attrs = {"reason": reason, "why": kubernetes.format_out_of_service(reason, **origin), **origin}
    slurm_reason = next((name for pattern, name in SLURM_REASONS.items() if re.search(pattern, reason, re.IGNORECASE)), "")
    reason_attrs = {"told": slurm_reason, **origin} if slurm_reason else origin
    return [
        Fact(CHECK, "sched.state", state, line=line, attrs=state_attrs),
        Fact(CHECK, "sched.reason", reason, line=line, attrs=reason_attrs),
    ]


def is_jobs(text: str) -> bool:
    return any(_JOB_PATTERN.match(line) for line in split_lines(text[:4096])[:20])


def is_running_jobs(text: str) -> bool:
    return any(_RUNNING_JOB_PATTERN.match(line) for line in split_lines(text[:2048])[:5])


def parse_running_jobs(text: str) -> Sequence[Fact]:
    """Return the queue's jobs on the node. They are needed where jobs have no cgroups: no process shows its job there."""
    jobs = [match for match in map(_RUNNING_JOB_PATTERN.match, split_lines(text)) if match]
    job_ids = list(dict.fromkeys(job[1] for job in jobs if job[2] in NODE_HOLDING_STATES))
    if not job_ids:
        return []
    users = sorted({job[3] for job in jobs})[:8]
    return [Fact(CHECK, "sched.running", job_ids[:MAX_JOBS], line=jobs[0][0].strip()[:200], attrs={"users": users})]


def parse_no_accounting(text: str) -> Sequence[Fact]:
    """Report absent: the site's Slurm keeps no accounts."""
    return [Fact(CHECK, "sched.job", status=Status.ABSENT, line=text.strip()[:200])]


def parse_jobs(text: str) -> Sequence[Fact]:
    """Return the job that started last."""
    jobs = [match for match in map(_JOB_PATTERN.match, split_lines(text)) if match]
    last_job = max(jobs, key=lambda job: (job["started"] != "Unknown", job["started"]))
    attrs = {name: last_job[name] for name in ("job", "exit", "started", "ended", "uid") if last_job[name]}
    return [Fact(CHECK, "sched.job", last_job["state"], line=last_job[0].strip(), attrs=attrs)]


def drop_repeated_facts(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Keep one copy of an error that several commands report."""
    return list({(fact.key, fact.line): fact for fact in facts}.values())


_ENDED_JOBS_COMMAND = "sacct -n -P -X -N {node} -S now-1days -o JobID,State,ExitCode,Start,End"

CHECKS = (
    Check(
        id=CHECK,
        asks="What does the scheduler say of the node and of the last job on it?",
        commands=(
            Command("shown", ("scontrol", "-o", "show", "node", "{node}"), optional=True, scheduler="slurm"),
            Command("ended", tuple(_ENDED_JOBS_COMMAND.split()), optional=True, scheduler="slurm"),
            Command("running", ("squeue", "-h", "-w", "{node}", "-o", "%A,%T,%u"), optional=True, scheduler="slurm"),
            *kubernetes.COMMANDS,
        ),
        formats=(
            *kubernetes.FORMATS,
            Format("scontrol show node", is_node, parse_node),
            Format("sacct", is_jobs, parse_jobs),
            Format("squeue", is_running_jobs, parse_running_jobs),
            Format("sacct without accounts", lambda text: bool(_NO_ACCOUNTS_PATTERN.search(text[:400])), parse_no_accounting),
        ),
        establishes=(
            "sched.state",
            "sched.reason",
            "sched.job",
            "sched.partitions",
            "sched.running",
            "sched.pods",
            "sched.gpus",
            "base.answer",
        ),
        seconds=2.0,
        damage="ignore",
        without="sched.state",
        settle=drop_repeated_facts,
    ),
)
