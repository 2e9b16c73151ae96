"""The role, the kit's installer and the pages: root never writes below an unprivileged account's home or follows a link
of such an account.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.project.size import ROOT
from tools.checks import CHECKS
from tools.nodekit.generate import build_kit_files
from tools.remedies import REMEDIES

ROLE = ROOT / "deploy/ansible/roles/rackmedic_node"
KIT = build_kit_files(CHECKS, REMEDIES)
# where root may write: folders owned by root alone, which `root_owned.sh` and `install.sh` check first
FOLDERS = ("/etc/ssh/", "/etc/sudoers.d/", "/etc/rackmedic", "/usr/local/sbin/", "/var/lib/rackmedic", "/root/rackmedic-kit")
WRITING = {"copy": "dest", "file": "path", "blockinfile": "path"}
# Modules that write nothing. Others are not allowed: `user`, `authorized_key`, `template`, `unarchive` follow links or
# process whole folders.
HARMLESS = {"assert", "include_tasks", "getent", "slurp", "debug", "fail"}
AS_THE_ACCOUNT = re.compile(r"setsid -w runuser -u rackmedic -- [^;|&`$<>{}()\n]+ </dev/null >/dev/null 2>&1")
QUOTED = re.compile(r"'[^']*'|\{\{ \w+ \| quote \}\}")
HOMES = re.compile(r"~|\bHOME\b|/home\b|getent_passwd|rackmedic_home|rackmedic_old_key|authorized_keys2|\.ssh\b")
COMMANDS = {
    "sh", "sshd", "install", "useradd", "userdel", "rmdir", "grep", "printenv", "test", "cmp", "pkill", "systemctl", "setsid", "for",
}  # fmt: skip
# `rmdir` unlinks the name in /home, which root owns, and only an empty folder.
REMOVES_AN_EMPTY_FOLDER = ["rmdir", "--", "{{ rackmedic_home }}"]

Task = Mapping[str, Any]


def tasks_of(rows: list[Task]) -> Iterator[Task]:
    """Yield every task, including those inside blocks."""
    for row in rows:
        for part in ("block", "rescue", "always"):
            yield from tasks_of(row.get(part, []))
        if "block" not in row:
            yield row


def module_of(task: Task) -> tuple[str, Any]:
    [(name, arguments)] = [(key, value) for key, value in task.items() if key.startswith("ansible.")]
    return name.removeprefix("ansible.builtin."), arguments


def risks(task: Task) -> Iterator[str]:
    """Yield what lets this task write below a home or through a link."""
    name, arguments = module_of(task)
    if "become_user" in task:
        yield "become_user"
    if name in ("command", "shell"):
        yield from _command_risks(arguments)
    elif name in WRITING:
        yield from _file_risks(task, name, arguments)
    elif name not in HARMLESS:
        yield f"module {name}"


def _command_risks(arguments: Any) -> Iterator[str]:
    argv = arguments.get("argv") if isinstance(arguments, dict) else None
    text = arguments if isinstance(arguments, str) else arguments.get("cmd") or (argv if isinstance(argv, str) else " ".join(argv or []))
    if argv == REMOVES_AN_EMPTY_FOLDER:
        return
    if HOMES.search(text) and not AS_THE_ACCOUNT.fullmatch(QUOTED.sub("word", text.strip())):
        yield f"root goes below a home: {text}"
    first = "sh" if text.startswith("{{ ['sh', '-s'") else text.split()[0]
    if first not in COMMANDS:
        yield f"command {first}"
    if re.search(r"\b(chown|chmod|tee|cp|mv|ln|mkdir)\b|(?<!2)>(?!/dev/null|&)", text):
        yield f"it writes by itself: {text}"


def _file_risks(task: Task, name: str, arguments: Mapping[str, Any]) -> Iterator[str]:
    place = arguments[WRITING[name]]
    for path in task["loop"] if place == "{{ item }}" else [place]:
        if "{{" in path or ".." in path or not path.startswith(FOLDERS):
            yield f"path {path}"
    if arguments.get("state") == "absent" or name == "blockinfile":
        return
    if arguments.get("follow") is not False:
        yield "follow"
    if (arguments.get("owner"), arguments.get("group")) != ("root", "root"):
        yield "owner"
    if arguments.get("recurse"):
        yield "recurse"


TASKS = [
    pytest.param(task, id=f"{path.name}-{task['name']}")
    for path in sorted((ROLE / "tasks").glob("*.yml"))
    for task in tasks_of(yaml.safe_load(path.read_text()))
]


@pytest.mark.parametrize("task", TASKS)
def test_root_writes_below_no_home_and_through_no_link(task: Task) -> None:
    assert list(risks(task)) == []


BAD = """
- ansible.builtin.file: {path: "{{ ansible_facts.getent_passwd.rackmedic[4] }}/.ssh", state: directory, owner: rackmedic, mode: "0700"}
- ansible.builtin.copy: {dest: "{{ ansible_facts.getent_passwd.rackmedic[4] }}/.ssh/authorized_keys", content: x, owner: rackmedic, mode: "0600"}
- ansible.builtin.user: {name: rackmedic, state: absent, remove: true, force: true}
- ansible.builtin.user: {name: rackmedic, system: true}
- ansible.posix.authorized_key: {user: rackmedic, key: x}
- ansible.builtin.template: {src: x, dest: /etc/ssh/x, owner: root}
- ansible.builtin.file: {path: /home/rackmedic/.ssh, state: directory, owner: root, group: root, follow: false}
- ansible.builtin.file: {path: /etc/ssh/../../home/rackmedic, state: absent}
- ansible.builtin.file: {path: /etc/ssh/authorized_keys, state: directory, owner: root, group: root}
- ansible.builtin.file: {path: /etc/ssh/authorized_keys, state: directory, owner: rackmedic, group: root, follow: false}
- ansible.builtin.file: {path: /etc/rackmedic, state: directory, owner: root, group: root, follow: false, recurse: true}
- ansible.builtin.file: {path: "{{ item }}", state: absent}
  loop: [/etc/sudoers.d/rackmedic, /home/rackmedic/.ssh/authorized_keys]
- ansible.builtin.copy: {dest: /tmp/kit, content: x, owner: root, group: root, follow: false}
- ansible.builtin.command: rm -f /home/rackmedic/.ssh/authorized_keys
- ansible.builtin.command: chown -R rackmedic /var/lib/rackmedic
- ansible.builtin.shell: test -e ~rackmedic/.ssh/authorized_keys
- ansible.builtin.shell: grep x /etc/passwd > /tmp/x
- ansible.builtin.shell: runuser -u rackmedic -- rm -f {{ rackmedic_old_key | quote }}
- ansible.builtin.shell: setsid -w runuser -u rackmedic -- true </dev/null >/dev/null 2>&1; rm -f {{ rackmedic_old_key | quote }} </dev/null >/dev/null 2>&1
- ansible.builtin.shell: setsid -w runuser -u rackmedic -- true && rm -f {{ rackmedic_old_key | quote }} </dev/null >/dev/null 2>&1
- ansible.builtin.shell: setsid -w runuser -u rackmedic -- rm -f {{ rackmedic_old_key }} </dev/null >/dev/null 2>&1
- ansible.builtin.shell: setsid -w runuser -u rackmedic -- rm -f {{ rackmedic_old_key | quote }}
- ansible.builtin.command: {argv: [install, -d, -o, rackmedic, /home/rackmedic/.ssh]}
- ansible.builtin.command: {cmd: "true"}
  become_user: rackmedic
- ansible.builtin.lineinfile: {path: /etc/ssh/sshd_config, line: AuthorizedKeysFile /etc/ssh/authorized_keys/%u}
"""


@pytest.mark.parametrize("task", yaml.safe_load(BAD))
def test_a_task_that_does_is_found(task: Task) -> None:
    assert list(risks(task))


@pytest.mark.parametrize("text", [KIT["install.sh"], *(path.read_text() for path in sorted((ROLE / "files").glob("*.sh")))])
def test_no_script_that_root_runs_names_a_home(text: str) -> None:
    code = re.sub(r"(?m)(^|\s)#.*$", "", text).replace("--create-home", "")
    assert not HOMES.search(code), HOMES.search(code)
    assert not re.search(r"\bchown\b|\b(cp|chmod) -\w*R", code)


def rules(text: str) -> list[tuple[str, str]]:
    """Return (block, directive) of each line of an sshd configuration."""
    block, found = "", []
    for line in text.splitlines():
        if line.startswith("Match "):
            block = line
        elif line.strip() and not line.startswith("#"):
            found.append((block, line.strip()))
    return found


@pytest.mark.parametrize("text", [KIT["sshd_config"], (ROLE / "files/sshd_config").read_text()])
def test_the_rule_for_sshd_is_about_this_account_alone(text: str) -> None:
    assert ("Match User rackmedic", "AuthorizedKeysFile /etc/ssh/authorized_keys/%u") in rules(text)
    assert {block for block, _ in rules(text)} == {"Match User rackmedic"}
    assert text.splitlines()[-1] == "Match all"


def test_the_role_has_the_rule_of_the_kit() -> None:
    assert rules((ROLE / "files/sshd_config").read_text()) == rules(KIT["sshd_config"])


def test_no_page_tells_root_to_write_below_the_accounts_home() -> None:
    """Shell lines on a page that name such a place run as the account."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    told = [(page.name, line) for page in pages for line in _shell_lines(page) if re.search(r"(~|/home/)rackmedic\b", line)]
    assert [row for row in told if "sudo -u rackmedic" not in row[1]] == []


def _shell_lines(page: Path) -> Iterator[str]:
    for block in re.findall(r"```\w*\n(.*?)```", page.read_text(), re.DOTALL):
        yield from block.splitlines()
