"""Decide from its text whether a command would change a machine, to count an agent's requests; nothing is ever run.
Unknown commands count as reads, in the agent's favour.
"""

import re
import shlex
from collections.abc import Iterator

ANY = ""
# fmt: off
_SMI = (
    "-r -pm -pl -lgc -rgc -lmc -rmc -ac -rac -c -e -p -mig --gpu-reset --persistence-mode --power-limit --lock-gpu-clocks "
    "--reset-gpu-clocks --applications-clocks --compute-mode --ecc-config --reset-ecc-errors --multi-instance-gpu"
).replace(" ", "|")
WRITES = {
    # program names: the words that make a call a write
    "reboot shutdown poweroff halt telinit kexec nvidia-persistenced mlxfwreset mlxup scancel sbatch srun salloc qdel": ANY,
    "rm mv cp ln touch mkdir rmdir chmod chown chattr truncate dd shred wipefs tee install rsync scp": ANY,
    "useradd userdel usermod passwd visudo": ANY,
    "init": r"^[06]\b",
    "systemctl": r"^(start|stop|restart|try-restart|reload|kill|enable|disable|mask|unmask|daemon-reload|set-property|isolate|reboot)\b",
    "service": r"\b(start|stop|restart|reload)\b",
    "kill pkill killall": r"^(?!-l\b|-0\b)",
    "mkfs fdisk parted sgdisk swapon swapoff umount": r"^(?!-l\b)",
    "mount": r"\S+\s+\S+|\bremount\b|-a\b",
    "sed perl": r"(^|\s)-\w*i",
    "sysctl": r"(^|\s)-\w*[wp]\b|=",
    "crontab": r"(^|\s)-[er]\b",
    "modprobe rmmod insmod depmod": r"^(?!-n\b|--show|-c\b|--dry)",
    "dkms": r"^(install|remove|build|add|autoinstall)\b",
    "nvidia-smi": rf"^(?!dmon|pmon|topo|nvlink).*(^|\s)({_SMI})(\s|=|$)|^mig\b.*-(cgi|dgi|cci|dci)\b",
    "ibportstate": r"\b(disable|enable|reset|speed|width)\b",
    "mlxconfig": r"\b(set|reset)\b",
    "mst": r"^(start|stop|restart)\b",
    "flint": r"\b(burn|b)\b",
    "ip": r"\b(set|add|del|delete|flush|replace)\b",
    "ifconfig": r"\b(up|down|mtu)\b",
    "ethtool": r"(^|\s)-[sKGLCAr]\b",
    "iptables nft": r"(^|\s)(-[ADIFXP]|add|delete|flush)\b",
    "scontrol": r"^(update|requeue|suspend|resume|hold|release|reboot|reconfigure|create|delete)\b",
    "docker podman nerdctl crictl ctr": r"^(run|start|stop|restart|rm|rmi|kill|pull|build|create|pause|unpause|system prune)\b",
    "kubectl": r"(^|\s)(apply|create|delete|patch|edit|scale|cordon|uncordon|drain|taint|label|annotate|rollout|replace)\b",
    "apt apt-get yum dnf snap": r"^(install|remove|purge|update|upgrade|reinstall|autoremove)\b",
    "pip pip3 conda": r"^(install|uninstall|remove)\b",
    "rpm dpkg": r"^-[iUeFrP]",
    "ipmitool": r"\b(power\s+(off|on|cycle|reset|soft)|sel\s+clear|mc\s+reset)\b",
}
# fmt: on
_BY_PROGRAM = {program: re.compile(words) for programs, words in WRITES.items() for program in programs.split()}
_ASIDE = ("sudo", "env", "nohup", "nice", "time", "timeout", "xargs", "stdbuf", "setsid")
_REDIRECT = re.compile(r">>?\s*(?!&|/dev/null)[\w/$.~]")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")


def writes(command: str) -> bool:
    if _REDIRECT.search(_QUOTED.sub("''", command)):
        return True
    return any(_writes(words) for words in _commands(command))


def _commands(command: str) -> Iterator[list[str]]:
    """Yield the simple commands of a line, including those inside `sh -c '…'`, `$(…)` and back-ticks."""
    held = _QUOTED.findall(command)
    plain = _QUOTED.sub(lambda text: f"\0{held.index(text[0])}\0", command)
    for part in re.split(r"&&|\|\||[;|&\n`()]|\$\(", plain):
        text = re.sub(r"\0(\d+)\0", lambda at: held[int(at[1])], part)
        try:
            yield shlex.split(text)
        except ValueError:
            yield text.split()


def _writes(words: list[str]) -> bool:
    while words and (words[0] in _ASIDE or words[0].startswith("-") or re.fullmatch(r"\w+=.*|[\d.]+[smh]?", words[0])):
        words = words[1:]
    if not words:
        return False
    program = words[0].rpartition("/")[2]
    if program in ("sh", "bash", "ssh"):
        return any(writes(text) for text in words[1:] if " " in text)
    row = _BY_PROGRAM.get("mkfs" if program.startswith("mkfs") else program)
    told = " ".join(words[1:])
    while program in ("systemctl", "apt-get", "apt", "ip") and told.startswith("-"):
        told = told.partition(" ")[2]
    return row is not None and bool(row.search(told))
