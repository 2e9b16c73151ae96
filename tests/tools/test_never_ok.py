"""No check is healthy on a host where its programs are missing, silent or failing."""

import pytest

from bot.cli.host_differences import PARTLY_UNOBSERVED_TEXT, HostDifferences
from tests.support.clock import SetClock
from tests.tools.test_fleet import FakeHosts
from tools.checks import CHECKS
from tools.checks.check_types import Check
from tools.evidence import MemoryEvidence
from tools.fact import Fact, Status
from tools.fleet.answers import CheckAnswer, CheckRequest
from tools.fleet.fleet import Fleet
from tools.inventory.inventory import parse_inventory
from tools.transport import CommandResult

PASSIVE = sorted(check.id for check in CHECKS.values() if not check.exclusive)
ROW = {
    "job_logs": "/logs",
    "nccl_tests": "/opt/nccl",
    "gpu_burn": "/opt/burn",
    "object_store": "https://o.example/x",
    "tracker": "https://t.example/",
}
KIT, NO_KIT = ({"defaults": ROW | {"kit": kit}, "groups": {"g": {"hosts": "n1"}}} for kit in (True, False))
NOT_THERE = CommandResult(b"", b"sh: 1: exec: %s: not found\n", 127)


async def asked(check: str, ran: CommandResult, inventory: dict[str, object]) -> CheckAnswer:
    """Return a check's answer on a host where every command ends like this."""

    def answer(host: str, argv: tuple[str, ...]) -> CommandResult:
        return CommandResult(ran.stdout, ran.stderr.replace(b"%s", argv[0].encode()), ran.exit_status)

    fleet = Fleet(FakeHosts(answer), parse_inventory(inventory), CHECKS, MemoryEvidence(), SetClock())
    (found,) = (await fleet.run_checks("i", [CheckRequest("n1", check)])).answers
    return found


def called_ok(answer: CheckAnswer) -> bool:
    """Return whether `rackmedic look` would list the host as healthy."""
    table = HostDifferences(lambda host, key, device: None, lambda host: "")
    table.add_answer(answer)
    return any(not group.notes or group.notes == (PARTLY_UNOBSERVED_TEXT,) for group in table.list_host_groups(answer.check))


@pytest.mark.parametrize("inventory", [KIT, NO_KIT], ids=["kit", "no kit"])
@pytest.mark.parametrize("check", PASSIVE)
async def test_where_none_of_its_programs_is_there_a_check_is_not_well(check: str, inventory: dict[str, object]) -> None:
    answer = await asked(check, NOT_THERE, inventory)
    row: Check = CHECKS[check]
    if row.without:
        (none,) = answer.facts
        assert (none.key, none.status) == (row.without, Status.ABSENT)
        assert "is not installed" in none.line
    else:
        assert answer.could_not
        assert not called_ok(answer)
        assert "not installed" in answer.could_not


@pytest.mark.parametrize("check", sorted({*PASSIVE} - {"lspci"}))
async def test_where_its_programs_end_badly_and_say_nothing_a_check_is_not_well(check: str) -> None:
    assert (await asked(check, CommandResult(b"", b"", 1), NO_KIT)).could_not


async def test_a_machine_without_a_device_of_nvidia_is_a_finding_of_its_own() -> None:
    answer = await asked("lspci", CommandResult(b"", b"", 0), KIT)
    assert [(fact.key, fact.value) for fact in answer.facts] == [("pcie.gpu_count", 0)]
    assert not answer.could_not
    assert not called_ok(answer)


@pytest.mark.parametrize(
    ("ran", "says"),
    [
        (NOT_THERE, "ibstat is not installed"),
        (
            CommandResult(b"", "timeout: failed to run command ‘ibstat’: No such file or directory\n".encode(), 127),
            "ibstat is not installed",
        ),
        (CommandResult(b"", b"timeout: failed to run command 'ibstat': Permission denied\n", 126), "Permission denied"),
        (
            CommandResult(b"", b"ibstat: error while loading shared libraries: libibmad.so.5: cannot open\n", 127),
            "cannot be run: ibstat: error while",
        ),
        (
            CommandResult(
                b"",
                b"bash: warning: setlocale: LC_ALL: cannot change locale\nsudo: unable to resolve host n1: x\nsudo: a password is required\n",
                1,
            ),
            "sudo: a password is required",
        ),
    ],
)
async def test_not_installed_is_said_of_what_is_not_there_and_of_nothing_else(ran: CommandResult, says: str) -> None:
    answer = await asked("ibstat", ran, NO_KIT)
    assert says in answer.could_not
    assert ("not installed" in answer.could_not) is ("not installed" in says)
    assert all(fact.status is not Status.TIMEOUT for fact in answer.facts), "`timeout` is who ran it, not what became of it"


@pytest.mark.parametrize(
    "said",
    [
        "dash: 1: ibstat: not found",
        "sh: 1: exec: ibstat: not found",
        "bash: ibstat: command not found",
        "-bash: line 1: ibstat: command not found",
        "bash: exec: ibstat: not found",
        "/usr/local/sbin/rackmedic-look: 87: ibstat: not found",
        "/usr/local/sbin/rackmedic-look: line 87: ibstat: command not found",
        "rackmedic-look: ibstat cannot be asked: timeout: failed to run command ‘ibstat’: No such file or directory",
        "env: ‘ibstat’: No such file or directory",
        "nice: ‘ibstat’: No such file or directory",
        "sudo: ibstat: command not found",
        "sudo: /usr/sbin/ibstat: command not found",
        "stdbuf: failed to run command ‘ibstat’: No such file or directory",
        "setpriv: failed to execute ibstat: No such file or directory",
        "slurmstepd: error: execve(): ibstat: No such file or directory",
    ],
)
async def test_every_launchers_words_for_a_program_that_is_not_there_are_known(said: str) -> None:
    assert "ibstat is not installed" in (await asked("ibstat", CommandResult(b"", f"{said}\n".encode(), 1), NO_KIT)).could_not


@pytest.mark.parametrize(
    "said",
    [
        "controller: not found",
        "gpu-017: not found",
        "mlx5_9: command not found",
        "ibstat: mlx5_9: not found",
        "/etc/profile.d/site.sh: line 21: pyenv: command not found",
        "/root/.bashrc: line 21: pyenv: command not found",
        "find: ‘/sys/class/infiniband’: No such file or directory",
        "sh: 0: cannot open /opt/site/run: No such file",
        'OCI runtime exec failed: exec: "nvidia-smi": executable file not found in $PATH: unknown',
    ],
)
async def test_a_thing_that_a_program_did_not_find_is_no_program_that_is_missing(said: str) -> None:
    answer = await asked("ibstat", CommandResult(b"", f"{said}\n".encode(), 1), NO_KIT)
    assert answer.could_not
    assert "not installed" not in answer.could_not


async def test_a_node_without_the_kit_is_reported_for_every_command() -> None:
    sudo = CommandResult(b"", b"sudo: /usr/local/sbin/rackmedic-look: command not found\n", 1)
    assert "the node kit is not installed" in (await asked("lspci", sudo, KIT)).could_not
    assert "the node kit is not installed" in (await asked("ipmi", sudo, KIT)).could_not


def test_what_was_not_seen_is_no_difference_among_hosts() -> None:
    table = HostDifferences(lambda host, key, device: None, lambda host: "")
    unseen = Fact("ipmi", "check.skipped", "no_tool", line="ipmitool is not installed")
    table.add_answer(CheckAnswer("n1", "ipmi", (unseen,), could_not=unseen.line))
    assert not table.list_host_groups("ipmi")
    assert [str(row) for row in table.list_unobserved_hosts()] == ["n1: ipmi: ipmitool is not installed"]
