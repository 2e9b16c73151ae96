"""Parse `scontrol show node` and `scontrol show job`, as JSON or text.

NodeName=gpu-001 NodeAddr=10.0.0.1 NodeHostName=gpu-001 Gres=gpu:h100:8 State=IDLE+DRAIN Partitions=train,all Reason=Xid 79 [root@…]
JobId=4711 JobName=train … NumTasks=16 … NodeList=gpu-[001-002] … StdOut=/shared/logs/4711.out
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kb.needle_search import split_lines
from tools.inventory.host_ranges import BadRange, expand_host_range
from tools.inventory.sources.source import HOST_NAME, BadSource, SourceRows

NODES_JSON_COMMAND = ("scontrol", "show", "node", "--json")
NODES_PLAIN_COMMAND = ("scontrol", "-o", "show", "node")
_FIELD_PATTERN = re.compile(r"(?:^|(?<=\s))([A-Z][A-Za-z_]*(?:[:/][A-Za-z]+){0,2})=")
UNKNOWN_JOB_TEXT = "invalid job id"  # error texts of scontrol (unknown job) and sacct (no accounting)
ACCOUNTING_OFF_TEXT = "accounting storage is disabled"  # in lower case
PARENT_JOB_FIELDS = ("ArrayJobId", "HetJobId")  # fields of a task's or component's record that name its job
MAX_TASKS = 2000
_NO_NODES = ("", "(null)", "None assigned", "n/a")


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """A Slurm job. `hosts` is empty while it waits; `environment`: variables equal on all ranks."""

    id: str
    hosts: tuple[str, ...]
    ranks: int = 0
    state: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    tasks: int = 1  # array tasks or components of a heterogeneous job


def build_job_argv(job: str) -> tuple[str, ...]:
    """Return the query. Raises BadSource for an invalid job id."""
    if not re.fullmatch(r"\d{1,12}(?:_\d{1,6})?", job):
        raise BadSource([f"{job!r} is no Slurm job id"])
    return ("scontrol", "show", "job", job)


def build_accounting_argv(job: str) -> tuple[str, ...]:
    """Return the query for any user's job (without `-a` a plain user sees only their own). Raises BadSource for a bad id."""
    return ("sacct", "-n", "-P", "-X", "-a", "-j", build_job_argv(job)[-1], "-o", "JobID,State,NodeList")


def parse_accounting(text: str) -> SlurmJob | None:
    """Parse `4711|FAILED|gpu-[001-002]`, one line per array task; None without lines. Raises BadSource for other text."""
    columns_of_lines = (line.split("|") for line in split_lines(text)[:MAX_TASKS])
    tasks = [columns for columns in columns_of_lines if len(columns) == 3]
    if not tasks:
        return None
    try:
        hosts = tuple(dict.fromkeys(host for _, _, nodes in tasks if nodes not in _NO_NODES for host in expand_host_range(nodes)))
    except BadRange as error:
        raise BadSource([f"sacct: NodeList: {error}"]) from error
    states = dict.fromkeys(state.split()[0] for _, state, _ in tasks if state.strip())  # `CANCELLED by 1001`
    return SlurmJob(tasks[0][0], hosts, state="+".join(list(states)[:4]))


def parse_nodes(text: str, *, gpus_only: bool = True) -> SourceRows:
    """Return hosts by partition, without GPU-less nodes if any has GPUs. Raises BadSource for other text."""
    nodes = list(_iter_json_nodes(text) if text.lstrip().startswith("{") else _iter_plain_nodes(text))
    if not nodes:
        raise BadSource(["scontrol show node: no node in the output"])
    gpu_nodes = [node for node in nodes if "gpu" in node["gres"]] if gpus_only else []
    source_rows = SourceRows()
    problems = []
    for node in gpu_nodes or nodes:
        name = node["name"]
        if not re.fullmatch(HOST_NAME, name):
            problems.append(f"scontrol show node: NodeName {name!r} is no host name")
            continue
        for partition in node["partitions"] or ["slurm"]:
            source_rows.add_host(partition, name)
        if node["address"] and node["address"] != name:
            source_rows.hosts[name] = {"address": node["address"]}
    if problems:
        raise BadSource(problems)
    return source_rows


def _iter_json_nodes(text: str) -> Iterator[dict[str, Any]]:
    document = _parse_document(text, "node")
    nodes = document.get("nodes")
    if not isinstance(nodes, list):
        raise BadSource(["scontrol show node --json: `nodes` is missing or no list"])
    for index, node in enumerate(nodes):
        name = node.get("name") if isinstance(node, dict) else None
        if not isinstance(name, str):
            raise BadSource([f"scontrol show node --json: nodes[{index}].name is missing or no text"])
        partitions = node.get("partitions") or []
        if not isinstance(partitions, list):
            partitions = str(partitions).split(",")
        yield {
            "name": name,
            "address": str(node.get("address") or node.get("hostname") or ""),
            "gres": str(node.get("gres") or node.get("tres") or ""),
            "partitions": [str(partition) for partition in partitions],
        }


def _iter_plain_nodes(text: str) -> Iterator[dict[str, Any]]:
    for number, record in _iter_records(text, "NodeName="):
        fields = parse_fields(record)
        if not fields.get("NodeName"):
            raise BadSource([f"scontrol show node, line {number}: begins with no NodeName="])
        partitions = fields.get("Partitions", "")
        yield {
            "name": fields["NodeName"],
            "address": fields.get("NodeAddr", ""),
            "gres": fields.get("Gres", ""),
            "partitions": [part for part in partitions.split(",") if part and part != "(null)"],
        }


def _iter_records(text: str, begins: str) -> Iterator[tuple[int, str]]:
    """Yield one record per line (`-o`), or joined indented lines."""
    first, lines = 0, list[str]()
    for number, line in enumerate(split_lines(text), 1):
        if line.startswith(begins) and lines:
            yield first, " ".join(lines)
            lines = []
        if line.strip():
            first = number if not lines else first
            lines.append(line.strip())
    if lines:
        yield first, " ".join(lines)


def parse_fields(record: str) -> dict[str, str]:
    """Split `A=1 Reason=two words B=3`; a value ends at the next capitalised name."""
    matches = list(_FIELD_PATTERN.finditer(record))
    ends = [*(match.start() for match in matches), len(record)][1:]
    return {match[1]: record[match.end() : end].strip() for match, end in zip(matches, ends, strict=True)}


def parse_job(text: str) -> SlurmJob:
    """Parse either format, merging array tasks and heterogeneous components. Raises BadSource for other text."""
    records = _parse_json_jobs(text) if text.lstrip().startswith("{") else _parse_plain_jobs(text)
    if not records or not records[0].get("JobId"):
        raise BadSource([f"scontrol show job: {(split_lines(text.strip()) or ['no output'])[0][:120]!r}"])
    tasks = [_build_job(record) for record in records[:MAX_TASKS]]
    if len(tasks) == 1:
        return tasks[0]
    states = dict.fromkeys(task.state for task in tasks if task.state)
    shared_environment = {
        name: value for name, value in tasks[0].environment.items() if all(task.environment.get(name) == value for task in tasks)
    }
    hosts = tuple(dict.fromkeys(host for task in tasks for host in task.hosts))
    parent_id = next((records[0][name] for name in PARENT_JOB_FIELDS if records[0].get(name)), records[0]["JobId"])
    ranks = sum(task.ranks for task in tasks)
    return SlurmJob(parent_id, hosts, ranks, "+".join(list(states)[:4]), shared_environment, tasks=sum(task.tasks for task in tasks))


def _parse_plain_jobs(text: str) -> list[dict[str, str]]:
    return [parse_fields(" ".join(record.split())) for _, record in _iter_records(text, "JobId=")]


def _build_job(fields: Mapping[str, str]) -> SlurmJob:
    nodes = fields.get("NodeList", "")
    try:
        hosts = tuple(expand_host_range(nodes)) if nodes not in _NO_NODES else ()
        tasks = 1
        if fields.get("ArrayTaskId", "").strip("0123456789"):  # a range of tasks such as `0-7%2`
            tasks = len(expand_host_range(f"t[{fields['ArrayTaskId'].partition('%')[0]}]"))
    except BadRange as error:
        raise BadSource([f"scontrol show job: NodeList or ArrayTaskId: {error}"]) from error
    ranks_match = re.match(r"[0-9]{1,9}", fields.get("NumTasks", ""))
    ranks = int(ranks_match[0]) if ranks_match else 0
    job_id = fields["JobId"]
    if fields.get("ArrayJobId") and fields.get("ArrayTaskId", "").isdigit():
        job_id = f"{fields['ArrayJobId']}_{fields['ArrayTaskId']}"
    variables = {
        "SLURM_JOB_ID": fields["JobId"],
        "SLURM_JOB_NAME": fields.get("JobName", ""),
        "SLURM_JOB_NODELIST": nodes,
        "SLURM_JOB_NUM_NODES": str(len(hosts)) if hosts else "",
        "SLURM_NTASKS": str(ranks or ""),
        "SLURM_JOB_PARTITION": fields.get("Partition", ""),
        "SLURM_SUBMIT_DIR": fields.get("WorkDir", ""),
    }
    environment = {name: value for name, value in variables.items() if value and value != "(null)"}
    return SlurmJob(job_id, hosts, ranks, fields.get("JobState", ""), environment, tasks=tasks)


def _parse_json_jobs(text: str) -> list[dict[str, str]]:
    jobs = _parse_document(text, "job").get("jobs")
    if not isinstance(jobs, list) or not jobs or not all(isinstance(job, dict) for job in jobs):
        raise BadSource(["scontrol show job --json: `jobs` is missing or empty"])
    return [_convert_json_job(job) for job in jobs]


def _convert_json_job(job: Mapping[str, Any]) -> dict[str, str]:
    tasks, state = job.get("tasks"), job.get("job_state")
    return {
        "JobId": str(job.get("job_id") or ""),
        "ArrayJobId": _format_number(job.get("array_job_id")),
        "ArrayTaskId": _format_number(job.get("array_task_id"), zero=True) or str(job.get("array_task_string") or ""),
        "HetJobId": _format_number(job.get("het_job_id")),
        "JobName": str(job.get("name") or ""),
        "NodeList": str(job.get("nodes") or ""),
        "NumTasks": str(tasks.get("number", "") if isinstance(tasks, dict) else tasks or ""),
        "JobState": "+".join(map(str, state)) if isinstance(state, list) else str(state or ""),
        "Partition": str(job.get("partition") or ""),
        "WorkDir": str(job.get("current_working_directory") or ""),
    }


def _format_number(value: Any, *, zero: bool = False) -> str:
    """Return a JSON number, `7` or newer releases' `{"set": true, "number": 7}`, as text; "" if it is not set."""
    if isinstance(value, Mapping):
        value = value.get("number") if value.get("set") else None
    return str(value) if isinstance(value, int) and not isinstance(value, bool) and (value or zero) else ""


def _parse_document(text: str, what: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadSource([f"scontrol show {what} --json: is no JSON: {error}"]) from error
    if not isinstance(document, dict):
        raise BadSource([f"scontrol show {what} --json: is no JSON object"])
    return document
