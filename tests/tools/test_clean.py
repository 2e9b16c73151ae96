"""Prompts, escapes and prefixes that terminals, ssh, sudo and copying add to an output do not change its facts."""

from collections.abc import Callable, Mapping
from functools import cache

import pytest

from tests.conftest import CAPTURES
from tests.project.captures_report import outputs
from tests.support.fakes_cluster import cluster, everything
from tests.support.samples_checks import SAMPLES
from tools.checks import CHECKS
from tools.checks.check_types import clean_output
from tools.fact import Fact, Status


def each_line(change: Callable[[str], str]) -> Callable[[str], str]:
    return lambda text: "".join(change(line) for line in text.splitlines(keepends=True))


def before(line: str) -> Callable[[str], str]:
    return lambda text: f"{line}\n{text}"


def after(line: str) -> Callable[[str], str]:
    return lambda text: text.rstrip("\n") + f"\n{line}"


AROUND: Mapping[str, Callable[[str], str]] = {
    "carriage returns": lambda text: text.replace("\r\n", "\n").replace("\n", "\r\n"),
    "colours": each_line(lambda line: f"\x1b[0m\x1b[1;31m{line.rstrip(chr(10))}\x1b[0m\x1b[K\n" if line.strip() else line),
    "a window title": lambda text: f"\x1b]0;root@gpu-001\x07{text}",
    "a prompt before": before("root@gpu-001:~# nvidia-smi -q -x | tee out"),
    "another prompt before": before("(base) [alice@login2 jobs]$ cat log"),
    "a prompt behind": after("root@gpu-001:~# "),
    "sudo's trouble": before("sudo: unable to resolve host gpu-001: Name or service not known"),
    "sudo's trouble behind": after("sudo: unable to resolve host gpu-001: Temporary failure in name resolution\n"),
    "ssh's word": before("Warning: Permanently added '10.0.0.1' (ED25519) to the list of known hosts.\r"),
    "ssh's farewell": after("Connection to gpu-001 closed.\r\n"),
    "a shell's word": before("bash: warning: setlocale: LC_ALL: cannot change locale (en_US.UTF-8)"),
    "blank lines": lambda text: f"\n\n{text}\n\n",
    "a byte order mark": lambda text: "\ufeff" + text,
    "zero bytes": lambda text: text.replace("\n", "\0\n", 3),
}

OURS = [(f"{check} sample {number}", check, text) for check, texts in SAMPLES.items() for number, text in enumerate(texts)]
SICK = cluster("G07", "N04@n2", "S12@n0")
OURS += [
    (name, name.partition(".")[0], (a.stdout + a.stderr).decode()) for host in SICK.hosts for name, a in everything(SICK, host).items()
]
PUBLISHED = [(f"{kind}: {name}", check, text) for kind, name, check, text in (outputs() if CAPTURES.is_dir() else ())]


@cache
def read(check: str, text: str) -> frozenset[tuple[str, str | None, str]]:
    return frozenset(known(CHECKS[check].parse_output(text)))


def known(facts: tuple[Fact, ...]) -> set[tuple[str, str | None, str]]:
    return {(fact.key, fact.device, repr(fact.value)) for fact in facts if fact.status is Status.OK}


@pytest.mark.parametrize("around", AROUND)
def test_what_stands_around_an_output_changes_nothing(around: str) -> None:
    assert {check for _, check, _ in OURS} == set(CHECKS)
    for name, check, text in (*OURS, *PUBLISHED[::7]):
        if facts := read(check, text):
            assert read(check, AROUND[around](text)) == facts, name


@cache
def tables() -> list[str]:
    return [*SAMPLES["nccl1"], *(text for _, check, text in PUBLISHED if check == "nccl1")]


@pytest.mark.parametrize("tag", ["[1,0]<stdout>:", "[1,12]<stdout>: ", "0: "])
def test_a_launcher_s_tags_glued_to_the_rows_change_nothing(tag: str) -> None:
    for text in tables():
        if facts := read("nccl1", text):
            tagged = read("nccl1", each_line(lambda line: tag + line)(text))
            assert tagged == facts or (not tagged and tag == "0: "), text[:200]


@pytest.mark.parametrize("check", CHECKS)
def test_damaged_bytes_never_make_a_count_that_is_trusted(check: str) -> None:
    for name, _, text in (row for row in OURS if row[1] == check and read(*row[1:])):
        got = CHECKS[check].parse_output(text[: len(text) // 2] + "\ufffd" + text[len(text) // 2 :])
        match CHECKS[check].damage:
            case "refuse":
                assert [fact.status.blind for fact in got] == [True], name
            case "tell":
                assert known(got) <= read(check, text), name
                assert any(fact.status.blind for fact in got), name


def test_only_what_stands_around_is_taken_away() -> None:
    inside = "one\nroot@gpu-001:~# nvidia-smi\nsudo: unable to resolve host x\ntwo\n"
    assert clean_output(inside) == inside
    assert clean_output("") == clean_output("root@n1:~# ls\n") == ""
    for text in ("# nThread 1 nGpus 8\n#\n", "alice@example.org wrote: # of GPUs\n", "\n", "a", "$ 5\n"):
        assert clean_output(text) == text
    assert clean_output("root@n1:/var/log # \nroot@n1:~$ dmesg\nline\n[root@n1 ~]# ") == "line\n"
