"""dmesg and the journal's kernel messages."""

import json
import re
from datetime import datetime
from zoneinfo import ZoneInfo

from deploy.sandbox.cluster.answer import ShellAnswer, text_answer
from deploy.sandbox.cluster.machines.log_lines import KernelLine
from deploy.sandbox.cluster.render.query import Query
from tools.checks.kernel import KERNEL_GREP_PATTERN

_RELEVANT_PATTERN = re.compile(KERNEL_GREP_PATTERN)
DAY_SECONDS = 86400.0
NO_ENTRIES = "-- No entries --\n"
PRIORITIES = {"emerg": 0, "alert": 1, "crit": 2, "err": 3, "warn": 4, "notice": 5, "info": 6, "debug": 7}


def render_ring_buffer(query: Query) -> ShellAnswer:
    """`dmesg --decode --time-format iso`: this boot's lines."""
    node = query.node
    if not query.as_root and node.dmesg_restrict:
        return text_answer("", 1, "dmesg: read kernel buffer failed: Operation not permitted\n")
    lines = [_format_ring_line(query, line) for line in node.kernel_log if line.boot == "now" and line.t <= query.at]
    return text_answer(truncate_log("".join(lines), node.log_keep))


def render_journal(query: Query) -> ShellAnswer:
    """`journalctl -o json … --since=-24h -p warning _TRANSPORT=kernel`: the last day, including earlier boots."""
    return _render_journal_lines(query, _get_last_day_lines(query))


def render_newest(query: Query) -> ShellAnswer:
    """`journalctl -o json … --boot --reverse --grep=… _TRANSPORT=kernel`: relevant lines of this boot, newest first."""
    return _render_relevant_lines(query, [line for line in query.node.kernel_log if line.boot == "now" and line.t <= query.at])


def render_recent(query: Query) -> ShellAnswer:
    """`journalctl -o json … --since=-24h -p warning --reverse --grep=… _TRANSPORT=kernel`: relevant lines of the last
    day, newest first.
    """
    return _render_relevant_lines(query, _get_last_day_lines(query))


def _get_last_day_lines(query: Query) -> list[KernelLine]:
    return [line for line in query.node.kernel_log if query.at - DAY_SECONDS <= line.t <= query.at and PRIORITIES[line.level] <= 4]


def _render_relevant_lines(query: Query, lines: list[KernelLine]) -> ShellAnswer:
    relevant_lines = [line for line in lines if _RELEVANT_PATTERN.search(line.text)]
    relevant_lines.sort(key=lambda line: line.t, reverse=True)
    return _render_journal_lines(query, relevant_lines)


def _render_journal_lines(query: Query, lines: list[KernelLine]) -> ShellAnswer:
    node = query.node
    if not query.as_root and node.dmesg_restrict:
        return refuse_journal()
    entries = [_format_journal_entry(query, i, line) for i, line in enumerate(lines)]
    return text_answer(truncate_log("".join(entries), node.log_keep) or NO_ENTRIES)


def render_boot_id(query: Query) -> ShellAnswer:
    return text_answer(add_dashes(query.node.boot_id) + "\n")


def add_dashes(plain: str) -> str:
    """Return a boot id with dashes as in /proc; the journal has it without."""
    return "-".join((plain[:8], plain[8:12], plain[12:16], plain[16:20], plain[20:]))


def refuse_journal() -> ShellAnswer:
    """Return journalctl's refusal to a user outside the adm group."""
    hint = (
        "Hint: You are currently not seeing messages from other users and the system.\n      Users in groups "
        "'adm', 'systemd-journal' can see all messages.\n"
    )
    return text_answer("", 1, hint + "No journal files were opened due to insufficient permissions.\n")


def truncate_log(text: str, keep: str) -> str:
    """Truncate a log to its last 200 lines, or its first 4 kB."""
    if keep.startswith("first"):
        return text[:4096]
    return "".join(text.splitlines(keepends=True)[-200:]) if keep else text


def to_microseconds(moment: datetime) -> int:
    """Return the time in the journal's unit."""
    utc_time = moment.astimezone(ZoneInfo("UTC"))
    return int(utc_time.timestamp()) * 1_000_000 + utc_time.microsecond


def _format_ring_line(query: Query, line: KernelLine) -> str:
    stamp = query.clock(line.t).isoformat(timespec="microseconds").replace(".", ",")
    return f"kern  :{line.level:<6}: {stamp} {line.text}\n"


def _format_journal_entry(query: Query, number: int, line: KernelLine) -> str:
    boot = query.node.boot_id if line.boot == "now" else query.node.previous_boot_id
    since_boot = line.t - query.node.booted if line.boot == "now" else 400_000 + line.t
    entry = {
        "__CURSOR": f"s={query.node.boot_id[::-1]};i={number + 1:x};b={boot}",
        "__REALTIME_TIMESTAMP": str(to_microseconds(query.clock(line.t))),
        "__MONOTONIC_TIMESTAMP": str(int(max(since_boot, 0) * 1_000_000)),
        "_BOOT_ID": boot,
        "PRIORITY": str(PRIORITIES[line.level]),
        "SYSLOG_FACILITY": "0",
        "SYSLOG_IDENTIFIER": "kernel",
        "MESSAGE": line.text,
    }
    return json.dumps(entry) + "\n"
