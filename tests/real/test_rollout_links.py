"""The Ansible role against an account that sets traps, on a copy of this machine with a real sshd: upgrade from the
older role, and removal.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from bot.cli.node_kit import write_kit
from tests.support.overlaid import ROOT, Overlaid, missing, overlaid

PLAYBOOK = ROOT / "deploy/ansible/rollout.yml"
ROLE_SECONDS = 240.0
OLD_KEY = "/home/rackmedic/.ssh/authorized_keys"
OLD_RULE = "Match User rackmedic\n    AuthenticationMethods publickey\n    DisableForwarding yes\n    PermitTTY no\n    MaxSessions 10\nMatch all\n"
OLD_NODE = r"""
useradd --system --create-home --shell /bin/sh --password '*' rackmedic
install -d -o rackmedic -g rackmedic -m 700 /home/rackmedic/.ssh
echo "$1" >/home/rackmedic/.ssh/authorized_keys
chown rackmedic: /home/rackmedic/.ssh/authorized_keys
printf '%s' "$2" >/etc/ssh/sshd_config.d/50-rackmedic.conf
useradd --create-home --shell /bin/sh --password '*' alice
install -d -o alice -g alice -m 700 /home/alice/.ssh
echo "$3" >/home/alice/.ssh/authorized_keys
chown alice: /home/alice/.ssh/authorized_keys
"""
OWNERS = r"""find /etc /usr/local /root /var/lib/rackmedic /home -maxdepth 3 ! -path '/root/.*' ! -path '/etc/*-' -printf '%p %U %m %l\n' 2>/dev/null | sort"""

pytestmark = [pytest.mark.tier3, pytest.mark.skipif(bool(missing()), reason=missing())]


class Site:
    """A node of the older role, and its administrator."""

    def __init__(self, machine: Overlaid) -> None:
        self.machine, self.kit = machine, machine.folder / "kit"
        write_kit(self.kit)
        self.public = machine.key("medic")
        machine.sh(OLD_NODE, self.public, OLD_RULE, machine.key("alice"))
        machine.reload_sshd()

    def plays(self, *options: str, **variables: object) -> tuple[Mapping[str, int], str]:
        """Run the playbook and return the node's counts and the output."""
        said = {"rackmedic_kit": str(self.kit), "rackmedic_public_key": self.public} | variables
        connection = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        (self.machine.folder / "hosts.json").write_text(json.dumps({"all": {"hosts": {"node": connection}}}))
        argv = ("ansible-playbook", "-i", str(self.machine.folder / "hosts.json"), str(PLAYBOOK), "-e", json.dumps(said), *options)
        environ = {"ANSIBLE_HOME": str(self.machine.folder / "ansible"), "ANSIBLE_NOCOLOR": "1"}
        printed = self.machine.run(*argv, seconds=ROLE_SECONDS, **environ)
        lines = [line for line in printed.stdout.splitlines() if line.startswith("node ") and "ok=" in line]
        assert lines, printed.stdout + printed.stderr
        counts = {word.partition("=")[0]: int(word.partition("=")[2]) for word in lines[-1].split() if "=" in word}
        return counts, printed.stdout

    def as_the_account(self, line: str) -> None:
        self.machine.done("runuser", "-u", "rackmedic", "--", "sh", "-ec", line)

    def owners(self) -> list[str]:
        return self.machine.done("sh", "-c", OWNERS).splitlines()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with overlaid(tmp_path) as machine:
        yield Site(machine)


def test_an_upgrade_moves_the_key_and_keeps_the_login(site: Site) -> None:
    assert site.machine.lets_in("rackmedic", "medic")
    before = site.owners()
    counts, printed = site.plays("--check")
    assert (counts["failed"], site.owners() == before) == (0, True), printed
    counts, printed = site.plays()
    assert (counts["failed"], counts["changed"] > 0) == (0, True), printed
    assert site.machine.lets_in("rackmedic", "medic")
    assert site.machine.lets_in("alice", "alice")
    assert site.machine.done("cat", "/etc/ssh/authorized_keys/rackmedic") == site.public + "\n"
    assert (
        site.machine.sh("stat -c '%U %G %a' /etc/ssh/authorized_keys /etc/ssh/authorized_keys/rackmedic")
        == "root root 755\nroot root 644\n"
    )
    assert site.machine.run("test", "-e", OLD_KEY).returncode == 1
    mallory = site.machine.key("mallory")
    site.as_the_account(f"echo '{mallory}' >~/.ssh/authorized_keys")
    assert not site.machine.lets_in("rackmedic", "mallory")
    assert site.plays()[0]["changed"] > 0, "the key that the account wrote anew is taken away"
    counts, printed = site.plays()
    assert (counts["changed"], counts["failed"]) == (0, 0), printed


TRAPS = {
    "its folder leads to the scripts": "rm -rf ~/.ssh; ln -s /usr/local/sbin ~/.ssh",
    "its folder leads to sshd's": "rm -rf ~/.ssh; ln -s /etc/ssh ~/.ssh",
    "its folder leads to the keys": "rm -rf ~/.ssh; ln -s /etc/ssh/authorized_keys ~/.ssh",
    "its key leads to the shadow": "ln -sf /etc/shadow ~/.ssh/authorized_keys",
    "its key leads to root's": "ln -sf /etc/ssh/authorized_keys/rackmedic ~/.ssh/authorized_keys",
    "its key is a pipe": "rm -f ~/.ssh/authorized_keys; mkfifo ~/.ssh/authorized_keys",
}


def test_links_below_the_home_lead_root_nowhere(site: Site) -> None:
    """The role runs before the traps, so only a trap could change root's files, and after each trap."""
    assert site.plays()[0]["failed"] == 0
    for name, trap in TRAPS.items():
        site.as_the_account("rm -rf ~/.ssh; mkdir ~/.ssh; " + trap)
        before = [row for row in site.owners() if not row.startswith("/home/rackmedic")]
        counts, printed = site.plays()
        assert counts["failed"] == 0, (name, printed)
        assert [row for row in site.owners() if not row.startswith("/home/rackmedic")] == before, name
        assert site.machine.lets_in("rackmedic", "medic"), name
    site.as_the_account(
        "rm -rf ~/.ssh; ln -s /usr/local/sbin ~/.ssh; ln -s /etc ~/etc; mkdir ~/x; ln -s /root ~/x/root; ln -s /etc/shadow ~/x/shadow"
    )
    site.machine.sh("touch /usr/local/sbin/of-the-site")
    gone = ("rackmedic", "/etc/ssh/authorized_keys")
    before = [row for row in site.owners() if not any(word in row for word in gone)]
    counts, printed = site.plays(rackmedic_state="absent", rackmedic_forget=True)
    assert counts["failed"] == 0, printed
    after = site.owners()
    assert [row for row in after if "rackmedic" in row] == []
    assert [row for row in after if not any(word in row for word in gone)] == before
    assert site.machine.run("id", "rackmedic").returncode == 1
    assert site.machine.lets_in("alice", "alice")


def test_folders_writable_by_others_are_refused(site: Site) -> None:
    """Folders that the older role may have given away are reported, and nothing is written."""
    for folder in ("/usr/local/sbin", "/etc/ssh/sshd_config.d", "/etc/sudoers.d"):
        owner = site.machine.sh('stat -c "%U:%G %a" "$1"', folder).split()
        site.machine.sh('chown rackmedic "$1"', folder)
        before = site.owners()
        counts, printed = site.plays()
        assert counts["failed"] == 1
        assert f"{folder} must belong to root" in printed
        assert site.owners() == before
        site.machine.sh('chown "$2" "$1"; chmod "$3" "$1"', folder, *owner)


def test_a_rule_that_prevents_the_login_is_rolled_back(site: Site) -> None:
    """An earlier file of the site overrides the account's rule: login with the new key fails, and the old rule and key
    stay.
    """
    site.machine.sh("printf 'DenyUsers rackmedic@127.0.0.1 rackmedic@::1\\n' >/etc/ssh/sshd_config.d/10-site.conf")
    counts, printed = site.plays()
    assert counts["failed"] == 1
    assert "sshd was given back its former rule" in printed
    assert site.machine.done("cat", "/etc/ssh/sshd_config.d/50-rackmedic.conf") == OLD_RULE
    assert site.machine.run("test", "-s", OLD_KEY).returncode == 0
    assert site.machine.done("cat", "/etc/ssh/authorized_keys/rackmedic") == site.public + "\n"
    site.machine.sh("printf 'Match User rackmedic\\n  AuthorizedKeysFile .ssh/authorized_keys\\n' >/etc/ssh/sshd_config.d/10-site.conf")
    assert site.plays()[0]["failed"] == 1
    site.machine.sh("rm /etc/ssh/sshd_config.d/10-site.conf")
    counts, printed = site.plays(rackmedic_prove_login=False)
    assert counts["failed"] == 0, printed
    site.machine.reload_sshd()
    assert site.machine.lets_in("rackmedic", "medic")
    assert site.machine.run("test", "-s", OLD_KEY).returncode == 0


def test_a_node_that_is_only_looked_at_and_an_sshd_without_other_files(site: Site) -> None:
    site.machine.sh("sed -i '/^Include/d' /etc/ssh/sshd_config; rm /etc/ssh/sshd_config.d/50-rackmedic.conf")
    counts, printed = site.plays(rackmedic_only_look=True, rackmedic_kit="")
    assert counts["failed"] == 0, printed
    assert site.machine.lets_in("rackmedic", "medic")
    assert site.machine.lets_in("alice", "alice")
    assert site.machine.sh("ls /usr/local/sbin /etc/sudoers.d").count("rackmedic") == 0
    assert site.plays(rackmedic_only_look=True, rackmedic_kit="")[0]["changed"] == 0
    assert site.plays(rackmedic_state="absent")[0]["failed"] == 0
    assert "RackMedic" not in site.machine.done("cat", "/etc/ssh/sshd_config")
    assert site.machine.lets_in("alice", "alice")


INSTALL = 'rm -rf /root/kit; cp -r "$1" /root/kit; sh /root/kit/install.sh'


def test_the_installer_by_hand(site: Site) -> None:
    run, kit = site.machine.run, str(site.kit)
    before = site.owners()
    refused = run("sh", "-c", INSTALL, "sh", kit)
    assert (refused.returncode, "install.sh --key FILE" in refused.stderr) == (1, True), refused
    assert [row for row in site.owners() if row not in before and "/root/kit" not in row] == ["/etc/ssh/authorized_keys 0 755 "]
    for bad in ("", "x\n", f"{site.public}\n{site.public}\n", f'command="x" {site.public}\n'):
        assert run("sh", "-c", f"{INSTALL} --key /dev/stdin", "sh", kit, stdin=bad).returncode == 1, bad
    done = run("sh", "-c", f"{INSTALL} --key /dev/stdin", "sh", kit, stdin=site.public + "\n")
    assert (done.returncode, done.stderr) == (0, ""), done
    site.machine.reload_sshd()
    assert site.machine.lets_in("rackmedic", "medic")
    assert site.machine.lets_in("alice", "alice")
    assert run("sh", "-c", INSTALL, "sh", kit).returncode == 0
    for change, told in (
        ("chown alice /root/kit/rackmedic-act", "rackmedic-act must belong to root"),
        ("chmod 777 /root/kit", ". must belong to root"),
        ("chown alice /usr/local/sbin", "/usr/local/sbin must belong to root"),
        ("chown root /usr/local/sbin; chown alice /usr/local/bin", "/usr/local/bin must belong to root"),
        ("chown root /usr/local/bin; chmod g+w /usr/local", "/usr/local must belong to root"),
        ("chmod g-w /usr/local; mv /usr/local/sbin /home/alice/; ln -s /home/alice/sbin /usr/local/sbin", "must belong to root"),
    ):
        refused = run("sh", "-ec", f'rm -rf /root/kit; cp -r "$1" /root/kit; {change}; sh /root/kit/install.sh', "sh", kit)
        assert (refused.returncode, told in refused.stderr) == (1, True), (change, refused)
