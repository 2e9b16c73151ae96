"""systemd units and their journal."""

import json

from deploy.sandbox.cluster.answer import ShellAnswer, text_answer
from deploy.sandbox.cluster.render.kernel import DAY_SECONDS, NO_ENTRIES, refuse_journal, to_microseconds, truncate_log
from deploy.sandbox.cluster.render.query import Query


def render_units(query: Query) -> ShellAnswer:
    """`systemctl show`: one block per unit."""
    blocks = []
    for name, unit in query.node.services.items():
        properties = (
            f"Result={unit.result}", f"ExecMainStatus={unit.exit_status}", f"Id={name}.service",
            f"LoadState={unit.load}", f"ActiveState={unit.active}", f"SubState={unit.sub}", "NRestarts=0",
            f"UnitFileState={'' if unit.load == 'not-found' else unit.enabled}", "ConditionResult=yes", "FreezerState=running",
        )  # fmt: skip
        blocks.append("\n".join(properties) + "\n")
    return text_answer("\n".join(blocks))


def render_journal(query: Query) -> ShellAnswer:
    """`journalctl -o json -u …`: the last day."""
    node = query.node
    if not query.as_root and node.dmesg_restrict:
        return refuse_journal()
    entries = []
    last_day = [line for line in node.journal if query.at - DAY_SECONDS <= line.t <= query.at]
    for i, line in enumerate(last_day):
        boot = node.boot_id if line.boot == "now" else node.previous_boot_id
        entry = {
            "__CURSOR": f"s={node.boot_id[::-1]};i={i + 4097:x};b={boot}",
            "__REALTIME_TIMESTAMP": str(to_microseconds(query.clock(line.t))),
            "__MONOTONIC_TIMESTAMP": str(int(max(line.t - node.booted, 0) * 1_000_000)),
            "_BOOT_ID": boot,
            "PRIORITY": str(line.priority),
            "SYSLOG_IDENTIFIER": line.identifier,
            "_SYSTEMD_UNIT": line.unit if line.identifier != "systemd" else "init.scope",
            "MESSAGE": line.text,
        }
        entries.append(json.dumps(entry) + "\n")
    return text_answer(truncate_log("".join(entries[-400:]), node.log_keep) or NO_ENTRIES)
