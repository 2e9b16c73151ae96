"""Shared file systems, as the node kit prints them, and the object store that the inventory names.

The kit queries each file system with its own time limit, so a dead server does not hang the check.

mount /data nfs4
answer /data ok
mount /home nfs4
answer /home timeout
"""

import re
from collections.abc import Sequence

from kb.needle_search import split_lines
from tools.checks import web
from tools.checks.check_types import Check, Command, Format
from tools.fact import Fact, Status, build_unobserved_fact

CHECK = "store"
# Served by another machine or a program; they hang if that does not answer. `df` never queries them with disks.
SHARED_FILE_SYSTEMS = (
    *("nfs", "nfs3", "nfs4", "cifs", "smb3", "smbfs", "lustre", "beegfs", "gpfs", "wekafs", "ceph", "panfs", "vast", "glusterfs", "9p"),
    *("virtiofs", "afs", "ocfs2", "gfs2", "pvfs2", "orangefs", "coda", "fuse", "fuse.sshfs", "fuse.juicefs", "fuse.s3fs", "fuse.gcsfuse"),
    *("fuse.blobfuse", "fuse.blobfuse2", "fuse.goofys", "fuse.geesefs", "fuse.rclone", "fuse.mountpoint-s3", "fuse.glusterfs", "fuse.ceph"),
    *("fuse.ceph-fuse", "fuse.cvmfs2", "fuse.dfuse", "fuse.daos", "fuse.alluxio-fuse", "fuse.seaweedfs", "fuse.curlftpfs", "fuse.davfs"),
    *("fuse.objectivefs", "fuse.quobyte", "fuse.mfs", "fuse.lizardfs", "fuse.hdfs", "fuse.ossfs", "fuse.cosfs", "fuse.obsfs", "fuse.weed"),
)
# FUSE file systems local to the host. All others are treated as shared.
LOCAL_FUSE_FILE_SYSTEMS = (
    *("fuse.lxcfs", "fuse.gvfsd-fuse", "fuse.portal", "fuse.snapfuse", "fuse.squashfuse", "fuse.squashfuse_ll", "fuse.fuse-overlayfs"),
    *(
        "fuse.ntfs-3g",
        "fuse.exfat",
        "fuse.archivemount",
        "fuse.encfs",
        "fuse.gocryptfs",
        "fuse.bindfs",
        "fuse.mergerfs",
        "fuse.vmware-vmblock",
    ),
    "fuse.xdg-document-portal",
)
_MOUNT_PATTERN = re.compile(r"mount (/\S{0,300}) ([a-z0-9._-]{1,30})\s*$")
_UNASKED_PATTERN = re.compile(r"unasked (\d{1,6})\s*$")
_ANSWER_PATTERN = re.compile(r"answer (/\S{0,300}) (ok|timeout|stale|error)(?: (.{0,200}))?\s*$")


def is_mounts(text: str) -> bool:
    return _MOUNT_PATTERN.match(text.lstrip("\n").split("\n", 1)[0]) is not None


def parse_mounts(text: str) -> Sequence[Fact]:
    """Return one fact per mount. A mount without an answer is where the kit got stuck, so it counts as a timeout."""
    file_systems: dict[str, str] = {}  # by mount
    answers: dict[str, tuple[str, str, str]] = {}  # by mount: the value, the error's text and the line
    for line in split_lines(text):
        if mount_line := _MOUNT_PATTERN.match(line):
            file_systems[mount_line[1]] = mount_line[2]
        elif (answer := _ANSWER_PATTERN.match(line)) and answer[1] in file_systems:
            answers[answer[1]] = (answer[2], answer[3] or "", line.strip())
    facts = []
    unasked_count = next((match[1] for match in map(_UNASKED_PATTERN.match, split_lines(text)) if match), "")
    if unasked_count:
        facts.append(build_unobserved_fact(CHECK, Status.UNREADABLE, f"{unasked_count} more shared file systems were not asked"))
    for mount, file_system in file_systems.items():
        value, error_text, line = answers.get(mount, ("timeout", "", f"{mount}: no answer"))
        attrs = {"fstype": file_system} | ({"text": error_text} if error_text else {})
        facts.append(Fact(CHECK, "store.mount", value, mount, line=line[:300], attrs=attrs))
    return facts


def add_absent_mounts(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Add an absent fact if no shared file system is mounted or the node has no kit."""
    if not facts or any(fact.key == "store.mount" or fact.status.blind for fact in facts):
        return facts
    return [*facts, Fact(CHECK, "store.mount", status=Status.ABSENT, line="no shared file system, or no node kit to ask one safely")]


CHECKS = (
    Check(
        id=CHECK,
        asks="Do the shared file systems and the object store answer?",
        commands=(
            Command("mounts", ("rackmedic-look", "mounts"), privileged=True, optional=True),
            web.build_headers_command("object", "object_store"),
        ),
        formats=(Format("shared mounts", is_mounts, parse_mounts), web.build_headers_format(CHECK, "store.object")),
        establishes=("store.mount", "store.object", "check.no_target"),
        seconds=5.0,
        timeout=30.0,
        settle=add_absent_mounts,
    ),
)
