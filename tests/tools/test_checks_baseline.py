"""The baseline check: rows are parsed or reported as not understood; the real probe only reads and has time limits."""

import ast
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.clock import PATIENCE
from tests.support.samples_checks import BASELINE
from tools.checks import CHECKS
from tools.checks.baseline.rows import COMPARED_KINDS, MAX_LINE_CHARS, MAX_ROWS, PROBE
from tools.fact import Status

RUN = CHECKS["base"]
SOURCE = Path("tools/checks/baseline/probe.py")
STARTED = {"ip", "munge", "rpm", "systemctl"}  # programs that the probe may start; as called, none changes anything


def read(text: str) -> dict[tuple[str, str | None], object]:
    return {(fact.key, fact.device): fact.value for fact in RUN.parse_output(text)}


def blinds(text: str) -> list[str]:
    return [fact.line for fact in RUN.parse_output(text) if fact.status is Status.UNREADABLE]


def test_every_kind_of_row_becomes_its_fact() -> None:
    assert read(BASELINE) == {
        ("base.rows", "system"): ["kernel = 5.15.0-107-generic", "time zone = Etc/UTC +0000"],
        ("base.rows", "mount"): ["/data = nfs4 rw hard nas1:/export/data"],
        ("base.rows", "service"): ["sssd = active"],
        ("base.rows", "answer"): ["nameserver 10.0.0.2 = timeout"],
        ("base.count", "processes"): 2311,
        ("base.count", "zombie"): 212,
        ("base.answer", "name of this host"): "ok",
        ("base.answer", "nameserver 10.0.0.2"): "timeout",
        ("base.broken", "daemon slurmd"): "frozen",
        ("proc.hog", "stress-ng"): 64.0,
    }
    hog = next(fact for fact in RUN.parse_output(BASELINE) if fact.key == "proc.hog")
    assert hog.attrs == {"share": 0.5, "processes": 64, "uid": 1002}


@pytest.mark.parametrize(
    "row",
    [
        "colour\tsky\tblue",
        "no tabs at all",
        "count\tzombie\tmany",
        "hog\tpython3\ta lot",
        "mount\t/data",
        "mount\t\tnfs4",
        "SYSTEM\tkernel\t1",
        "a\tb\tc\td",
    ],
)
def test_a_row_that_is_not_understood_is_told_and_the_others_are_kept(row: str) -> None:
    text = BASELINE.replace("== end", f"{row}\n== end")
    (said,) = blinds(text)
    assert said.startswith("1 rows of it are not understood")
    assert len(RUN.parse_output(text)) == len(RUN.parse_output(BASELINE)) + 1


def test_what_broke_off_or_could_not_be_read_is_told() -> None:
    assert blinds(BASELINE) == []
    assert len(blinds(BASELINE.replace("== end\n", ""))) == 1
    assert "part packages" in blinds(BASELINE.replace("== end", "unread\tpackages\tPermissionError: no\n== end"))[0]
    assert len(blinds("== baseline 1\n== end\n")) == 1
    assert len(blinds("== baseline 2\nsystem\tkernel\t1\n== end\n")) == 1


def test_any_number_of_rows_is_bounded() -> None:
    flood = "".join(f"package\tp{n}\t{'9' * 200}\n" for n in range(20_000)) + "".join(f"broken\tpart {n}\tgone\n" for n in range(20_000))
    facts = RUN.parse_output(BASELINE.replace("== end", flood + "== end"))
    assert len(facts) <= 4200
    assert all(len(fact.value) <= MAX_ROWS for fact in facts if isinstance(fact.value, list))
    assert all(len(fact.line) <= MAX_LINE_CHARS for fact in facts)


@pytest.fixture(scope="module")
def ran() -> tuple[str, float]:
    began = time.monotonic()
    run = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert run.stderr == ""
    return run.stdout, time.monotonic() - began


def test_the_probe_says_something_of_this_machine_that_is_understood_whole(ran: tuple[str, float]) -> None:
    text, _ = ran
    facts = RUN.parse_output(text)
    assert [fact.line for fact in facts if fact.status.blind] == []
    assert {"system", "sysctl", "mount", "device", "library"} <= {fact.device for fact in facts if fact.key == "base.rows"}
    assert {fact.device for fact in facts if fact.key == "base.count"} >= {"processes", "zombie", "blocked", "stopped"}
    assert {fact.device for fact in facts if fact.key == "base.rows"} <= set(COMPARED_KINDS)
    assert len(text) < 100_000


def test_two_looks_at_one_machine_differ_in_nothing_that_is_compared(ran: tuple[str, float]) -> None:
    again = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, timeout=PATIENCE, check=False).stdout

    def compared(text: str) -> dict[str | None, object]:
        kinds = ("system", "sysctl", "module", "device", "library", "package", "config", "resolver", "cmdline")
        return {fact.device: fact.value for fact in RUN.parse_output(text) if fact.key == "base.rows" and fact.device in kinds}

    assert compared(again) == compared(ran[0])


def test_the_probe_opens_to_read_alone_and_starts_few_programs() -> None:
    calls = [node for node in ast.walk(ast.parse(SOURCE.read_text())) if isinstance(node, ast.Call)]
    named = {ast.unparse(call.func): call for call in calls}
    modes = {ast.unparse(call.args[1]) for call in calls if ast.unparse(call.func) == "open"}
    assert modes == {"'rb'"}
    assert {ast.literal_eval(call.args[0]) for call in calls if ast.unparse(call.func) == "said"} == STARTED
    forbidden = r"os\.(remove|unlink|rename|replace|mkdir|rmdir|chmod|chown|link|symlink|truncate|mknod|utime|system|popen|open|exec.*)|shutil\.(?!which).*"
    assert [name for name in named if re.fullmatch(forbidden, name)] == []
    assert [ast.unparse(call) for call in calls if ast.unparse(call.func) == "os.write"] == [
        "os.write(theirs, json.dumps(work(*given)).encode()[:4000])",
        "os.write(theirs, json.dumps('error ' + type(why).__name__).encode())",
    ]
    assert [ast.unparse(call.func) for call in calls if ast.unparse(call.func).startswith("subprocess.")] == ["subprocess.Popen"]


def test_no_question_asks_a_mount_of_a_network_anything() -> None:
    """A dead file server blocks its callers; the kernel's mount table does not."""
    text = SOURCE.read_text()
    assert "statvfs" not in text
    assert "os.walk" not in text


def test_it_travels_in_one_packet_and_keeps_to_an_old_python() -> None:
    assert len(shlex.quote(shlex.join(RUN.commands[0].argv))) < 32_768
    tree = ast.parse(SOURCE.read_text(), feature_version=(3, 6))
    assert not any(isinstance(node, ast.NamedExpr | ast.Match) for node in ast.walk(tree))


def test_a_program_that_never_ends_is_not_waited_for(tmp_path: Path) -> None:
    """A frozen systemd never answers; its rows are reported as unobserved."""
    stuck = tmp_path / "systemctl"
    stuck.write_text(f"#!{shutil.which('sh')}\nexec tail -f /dev/null\n")
    stuck.chmod(0o755)
    program = SOURCE.read_text().replace("/usr/local/sbin:", f"{tmp_path}:/usr/local/sbin:").replace("WAIT = 3.0", "WAIT = 0.7")
    began = time.monotonic()
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE, check=False).stdout
    assert ("base.answer", "systemd") in read(said)
    assert read(said)["base.answer", "systemd"] == "timeout"
    assert time.monotonic() - began < PATIENCE / 2


def part(**fakes: Any) -> tuple[dict[str, Any], list[tuple[str, str, str]]]:
    """Return the probe's functions, some replaced, and the list of rows they print."""
    rows: list[tuple[str, str, str]] = []
    functions: dict[str, Any] = {}
    exec(SOURCE.read_text().rpartition("\nmain()")[0], functions)
    functions.update({"say": lambda kind, name, value: rows.append((kind, str(name), str(value))), **fakes})
    return functions, rows


class Seen:
    """A process as the probe sees it."""

    kernel = 0

    def __init__(
        self, pid: int, parent: int, name: str, owner: int = 1001, *, job: bool = False, sockets: frozenset[str] = frozenset()
    ) -> None:
        self.pid, self.parent, self.name, self.owner = str(pid), str(parent), name, owner
        self.of_job, self.ours = (lambda: job), (lambda: False)


FREE = Seen(10, 1, "python3")
KEPT = [
    [Seen(10, 1, "python3", owner=0)],
    [Seen(10, 1, "python3", owner=65534)],
    [Seen(10, 1, "python3", job=True)],
    [Seen(9, 1, "slurmstepd", owner=0), Seen(10, 9, "python3")],
    [Seen(8, 1, "sshd", owner=0), Seen(9, 8, "bash"), Seen(10, 9, "python3")],
    [Seen(9, 1, "containerd-shim", owner=0), Seen(10, 9, "python3")],
    [Seen(9, 1, "systemd"), Seen(10, 9, "python3")],
    [Seen(10, 7, "python3")],
]


@pytest.mark.parametrize(
    ("rows", "count"), [([FREE], 1), ([FREE, Seen(11, 10, "python3"), Seen(12, 1, "bash")], 3), *((rows, 0) for rows in KEPT)]
)
def test_processes_of_users_without_a_job_are_counted(rows: list[Seen], count: int) -> None:
    functions, printed = part(read=lambda path, most=0: "")
    functions["without_job"]({"1": Seen(1, 0, "systemd", owner=0)} | {row.pid: row for row in rows})
    assert [(kind, name, value.partition(" ")[0]) for kind, name, value in printed] == [
        ("count", "processes of users without a job", str(count))
    ]


TCP = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
ROW = "   0: 00000000:{port:04X} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000  {uid}        0 777 1\n"


@pytest.mark.parametrize(
    ("port", "state", "uid", "job", "taken"),
    [
        (29500, "0A", 1001, False, True), (29400, "0A", 1001, False, True), (12355, "0A", 1001, False, True), (23456, "0A", 1001, False, True),
        (29500, "0A", 1001, True, False), (29500, "01", 1001, False, False), (29500, "0A", 0, False, False), (8888, "0A", 1001, False, False),
        (22, "0A", 1001, False, False),
    ],
)  # fmt: skip
def test_a_port_where_jobs_meet_that_a_process_of_no_job_holds_is_told(port: int, state: str, uid: int, job: bool, taken: bool) -> None:
    functions, printed = part(read=lambda path, most=0: TCP + ROW.format(port=port, state=state, uid=uid) if path.endswith("/tcp") else "")
    functions["without_job"]({"1": Seen(1, 0, "systemd", owner=0), "10": Seen(10, 1, "python3", uid, job=job)})
    told = [(name, value) for kind, name, value in printed if kind == "broken"]
    assert told == ([(f"port {port}", f"taken by uid {uid}, who has no job here")] if taken else [])


@pytest.mark.parametrize(
    ("static", "running", "wrong"),
    [
        ("gpu-002\n", "gpu-02", True), ("gpu-002.cluster.example\n", "gpu-02", True), ("gpu-002\n", "localhost", True),
        ("gpu-002\n", "gpu-002", False), ("gpu-002.cluster.example\n", "gpu-002", False), ("GPU-002\n", "gpu-002", False),
        ("", "gpu-002", False), ("localhost\n", "ip-10-0-0-2", False), ("localhost.localdomain\n", "gpu-002", False),
    ],
)  # fmt: skip
def test_a_host_that_runs_under_another_name_than_its_own_is_told(static: str, running: str, wrong: bool) -> None:
    functions, printed = part(read=lambda path, most=0: static if path == "/etc/hostname" else "")
    functions["os"] = SimpleNamespace(uname=lambda: SimpleNamespace(nodename=running))
    functions["names"](SimpleNamespace(ask=lambda *asked: None), {})
    told = [name for kind, name, _ in printed if kind == "broken"]
    assert told == (["host name"] if wrong else [])
