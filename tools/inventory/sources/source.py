"""What inventory sources share: their rows, and running their commands with a fixed argv and a time limit."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kb.needle_search import split_lines
from tools.inventory.host_ranges import HOST_NAME_PATTERN
from tools.transport import Transport, Unreachable

# Common output of inventory sources, as rows of an inventory file.

HOST_NAME = HOST_NAME_PATTERN


class BadSource(ValueError):
    """A source that cannot be read. `problems` are whole sentences that name the field or the line."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


@dataclass(slots=True)
class SourceRows:
    """One source's rows: `groups` maps names to hosts in order, `hosts` to inventory file fields."""

    groups: dict[str, list[str]] = field(default_factory=dict)
    hosts: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add_host(self, group: str, host: str) -> None:
        members = self.groups.setdefault(group, [])
        if host not in members:
            members.append(host)

    def to_raw(self) -> dict[str, Any]:
        groups = {name: {"hosts": ",".join(members)} for name, members in self.groups.items() if members}
        return {"groups": groups, "hosts": {name: row for name, row in self.hosts.items() if row}}


def merge_rows(own: Mapping[str, Any], found: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge field by field: the file's own rows win, then the later source."""
    merged: dict[str, Any] = {}
    for layer in (*found, own):
        for part in ("groups", "hosts"):
            rows = layer.get(part)
            if isinstance(rows, Mapping):
                into = merged.setdefault(part, {})
                for name, row in rows.items():
                    into[name] = {**into.get(name, {}), **row} if isinstance(row, Mapping) else row
    return {**own, "groups": merged.get("groups", {}), "hosts": merged.get("hosts", {})}


# Run commands of inventory sources, here or on a host: fixed argv, time limit, BadSource on trouble.

COMMAND_TIMEOUT_SECONDS = 30.0
MAX_OUTPUT_BYTES = 64 << 20


class CommandFailed(BadSource):
    """The command ran and ended with an error; `complaint` is the last line of what it said."""

    def __init__(self, problem: str, complaint: str) -> None:
        super().__init__([problem])
        self.complaint = complaint


async def run_here(argv: Sequence[str]) -> str:
    """Return a local command's stdout. Raises BadSource."""
    return _decode_output(argv, *await run_process_here(argv))


async def run_process_here(argv: Sequence[str]) -> tuple[int | None, bytes, bytes]:
    """Return exit status, stdout and stderr. Raises BadSource if it cannot run or times out."""
    try:
        pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL  # without a terminal no password prompt can wait
        process = await asyncio.create_subprocess_exec(*argv, stdin=nothing, stdout=pipe, stderr=pipe)
    except OSError as error:
        raise BadSource([f"{argv[0]}: cannot be run here: {error.strerror}"]) from error
    try:
        out, err = await asyncio.wait_for(process.communicate(), COMMAND_TIMEOUT_SECONDS)
    except TimeoutError as error:
        raise BadSource([f"{' '.join(argv)}: no answer within {COMMAND_TIMEOUT_SECONDS:g} s"]) from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode, out, err


async def run_on_host(transport: Transport, host: str, argv: Sequence[str]) -> str:
    """Return a command's stdout on a host. Raises BadSource."""
    try:
        result = await transport.run(host, argv, timeout=COMMAND_TIMEOUT_SECONDS, cap=MAX_OUTPUT_BYTES)
    except Unreachable as error:
        raise BadSource([f"{host}: {error.why}"]) from error
    if result.truncated or result.timed_out or result.exit_status is None:
        raise BadSource([f"{host}: {' '.join(argv)}: no whole answer within {COMMAND_TIMEOUT_SECONDS:g} s"])
    return _decode_output(argv, result.exit_status, result.stdout, result.stderr)


def _decode_output(argv: Sequence[str], status: int | None, out: bytes, err: bytes) -> str:
    if status != 0:
        complaint = split_lines((err or out).decode("utf-8", "replace").strip())
        complaint_text = complaint[-1][:200] if complaint else ""
        raise CommandFailed(f"{' '.join(argv)}: {complaint_text or f'exit status {status}'}", complaint_text)
    return out.decode("utf-8", "replace")
