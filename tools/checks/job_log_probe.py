"""Print the ends of the job logs that this node holds, each with its owner and its job. Runs on a node: `python3 -c WORD FOLDER`, Python 3.6."""

import errno
import os
import re
import stat
import subprocess
import sys
import time
from typing import Any

DAYS, MAX_DEPTH, MAX_ENTRIES, MAX_FILES, MAX_JOBS, MAX_LINKS = 2, 3, 50000, 400, 16, 40
MAX_BYTES, TAIL_BYTES, TAIL_LINES, LONGEST_NODES = 3000000, 65536, 300, 2000
WORDS = ("Traceback", "Error", "error", "ERROR", "NCCL WARN", "Fatal", "FATAL", "Killed", "Segmentation", "NaN", "timeout", "Timeout")
# O_PATH needs no right to read a folder and starts nothing, whatever the name turns out to be.
FOLDER, NAME = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, os.O_PATH | os.O_NOFOLLOW
TRUSTED = (0, os.geteuid())
# The outermost part of a path that is a number, or a log named by one, says which job it is: 812, slurm-812.out, job_812, 812_4.log.
NUMBERED = re.compile("(?:slurm-)?(?:job[-_.]?)?([0-9]{1,10})(?:[-_.+][0-9]{1,6})?(?:[.](?:log|out|err))?", re.IGNORECASE)
NODES = re.compile(r"[A-Za-z0-9._,\[\]-]+")


def is_fixed(about: Any) -> bool:
    """Whether nobody but root and this account can replace what root or this account has in the folder."""
    return about.st_uid in TRUSTED and not (about.st_mode & 0o022 and not about.st_mode & stat.S_ISVTX)


def refusal(code: int, path: str, why: str = "") -> OSError:
    return OSError(code, why or os.strerror(code), path)


class Way:
    """A path opened part by part. A link is followed only where root or this account made it and others cannot replace it."""

    def __init__(self, path: str, strict: bool) -> None:
        """`strict`: refuse a path of which a part belongs to somebody else, or others may replace one."""
        self.path, self.strict, self.links = path, strict, 0
        self.parts = path.split("/")[::-1]
        self.held = [os.open("/", FOLDER)]

    def folder(self) -> int:
        """Return a descriptor of the folder that it leads to."""
        try:
            while self.parts:
                self.step(self.parts.pop())
            return self.held.pop()
        finally:
            while self.held:
                os.close(self.held.pop())

    def step(self, name: str) -> None:
        if name in ("", "."):
            return
        if name == "..":
            self.back(len(self.held) - 1)
            return
        fixed = is_fixed(os.fstat(self.held[-1]))
        if self.strict and not fixed:
            raise refusal(errno.EPERM, self.path, "Operation not permitted, for others may replace a part of its path")
        about = os.stat(name, dir_fd=self.held[-1], follow_symlinks=False)
        if stat.S_ISLNK(about.st_mode) and fixed and about.st_uid in TRUSTED:
            self.follow(name)
            return
        self.held.append(os.open(name, FOLDER, dir_fd=self.held[-1]))
        if self.strict and os.fstat(self.held[-1]).st_uid not in TRUSTED:
            raise refusal(errno.EPERM, self.path, "Operation not permitted, for a part of its path is not root's")

    def follow(self, name: str) -> None:
        self.links += 1
        if self.links > MAX_LINKS:
            raise refusal(errno.ELOOP, self.path)
        target = os.readlink(name, dir_fd=self.held[-1])
        if target.startswith("/"):
            self.back(1)
        self.parts += target.split("/")[::-1]

    def back(self, left: int) -> None:
        """Close all but the first ones, never the root."""
        while len(self.held) > max(left, 1):
            os.close(self.held.pop())


def below(folder: int, parts: Any) -> int:
    """Open a folder below an open one, following no link."""
    here = os.dup(folder)
    for name in parts:
        there = here
        try:
            here = os.open(name, FOLDER, dir_fd=there)
        finally:
            os.close(there)
    return here


def identity(about: Any) -> Any:
    """What stays as it is while a file grows."""
    return about.st_dev, about.st_ino, about.st_uid


def is_log(about: Any) -> bool:
    """A regular file that has one name: another name may have been given to it by somebody else."""
    return stat.S_ISREG(about.st_mode) and about.st_nlink == 1


class Found:
    """A log: where it is opened from, what it was when it was found, and the job whose output Slurm says it is."""

    def __init__(self, folder: Any, name: str, about: Any, job: str = "", owner: int = -1) -> None:
        self.folder, self.name, self.about, self.job, self.owner = folder, name, about, job, owner

    def rank(self) -> Any:
        return not self.job, -self.about.st_mtime


class Logs:
    """What is found below the folder and named by Slurm."""

    def __init__(self, top: str) -> None:
        self.top, self.root, self.since = top, -1, time.time() - DAYS * 86400
        self.refused = ""
        self.kept: Any = {}
        self.jobs: Any = {}
        self.troubles: Any = []

    def find(self) -> None:
        try:
            self.root = Way(self.top, True).folder()
            self.walk(self.root, (), MAX_ENTRIES)
        except OSError as why:
            self.troubles.append(str(why))
            self.refused = "" if why.errno == errno.ENOENT else str(why)
        self.ask_slurm()

    def walk(self, folder: int, inside: Any, left: int) -> int:
        """Note the logs below an open folder. `left`: entries that may still be gone through."""
        try:
            rows = sorted(os.scandir(f"/proc/self/fd/{folder}"), key=lambda row: row.name)
        except OSError as why:
            self.troubles.append(str(why))
            return left
        for row in rows:
            left -= 1
            if left == 0:
                break
            try:
                if row.is_dir(follow_symlinks=False):
                    left = max(self.step(folder, (*inside, row.name), left), 1) if len(inside) < MAX_DEPTH else left
                elif row.name.endswith((".log", ".out", ".err")):
                    about = os.stat(row.name, dir_fd=folder, follow_symlinks=False)
                    if is_log(about) and about.st_size:
                        self.kept["/".join((self.top.rstrip("/"), *inside, row.name))] = Found(inside, row.name, about)
            except OSError as why:
                self.troubles.append(str(why))
        return left

    def step(self, folder: int, inside: Any, left: int) -> int:
        there = os.open(inside[-1], FOLDER, dir_fd=folder)
        try:
            return self.walk(there, inside, left)
        finally:
            os.close(there)

    def ask_slurm(self) -> None:
        """Note which jobs run here and whose they are, by numbers of squeue's, and what their output is written to if it is their owner's."""
        node = os.uname().nodename.split(".")[0]
        asked = 0
        for row in said("squeue", "-h", "-t", "all", "-w", node, "-o", "%A:%F:%N:%U").split():
            job, array, nodes, owner = row.split(":") if row.count(":") == 3 else (row.split(":")[0], "", "", row.split(":")[-1])
            if not (job.isdigit() and owner.isdigit()):
                continue
            nodes = nodes if NODES.fullmatch(nodes) else ""
            for one in (job, array):
                known = self.jobs.setdefault(one, (int(owner), []))
                if nodes and known[0] == int(owner) and nodes not in known[1]:
                    known[1].append(nodes)
            asked += 1
            if asked <= MAX_JOBS:
                self.ask_job(job, int(owner), node)

    def ask_job(self, job: str, owner: int, node: str) -> None:
        """In a row of scontrol, with its names and comments, a tenant may write any owner and any path."""
        for row in said("scontrol", "-o", "show", "job", job).split("\n"):
            had: Any = dict(word.split("=", 1) for word in row.split() if "=" in word)
            names = {
                "j": had.get("JobId", job),
                "A": had.get("ArrayJobId", had.get("JobId", job)),
                "a": had.get("ArrayTaskId", ""),
                "x": had.get("JobName", ""),
                "N": node,
            }
            for name in ("StdOut", "StdErr"):
                if name in had:
                    self.note(filled(had[name], names), job, owner)

    def note(self, path: str, job: str, owner: int) -> None:
        folder, _, name = path.rpartition("/")
        if not path.startswith("/"):
            return
        try:
            there = Way(folder, False).folder()
            try:
                about = os.stat(name, dir_fd=there, follow_symlinks=False)
            finally:
                os.close(there)
        except (OSError, ValueError):
            return
        if is_log(about) and about.st_size and about.st_uid == owner:
            self.kept[path] = Found(folder, name, about, job, owner)

    def job_of(self, found: Any) -> str:
        """The job of a log, as far as its owner has that job on this node; root writes for everybody."""
        for part in () if found.job else (*found.folder, found.name):
            named = NUMBERED.fullmatch(part)
            if named:
                known = self.jobs.get(named.group(1))
                return str(named.group(1)) if known and known[0] == found.about.st_uid else ""
        return str(found.job)

    def read(self, found: Any) -> str:
        """The end of a log. What is read is what was found: the same file, of the same owner, opened once and judged by that descriptor."""
        there = name = -1
        try:
            there = Way(found.folder, False).folder() if found.job else below(self.root, found.folder)
            name = os.open(found.name, NAME, dir_fd=there)
            about = os.fstat(name)
            if not is_log(about) or identity(about) != identity(found.about) or found.owner not in (-1, about.st_uid):
                raise refusal(errno.ESTALE, found.name, "Changed while it was looked at")
            return tail(os.open(f"/proc/self/fd/{name}", os.O_RDONLY | os.O_NONBLOCK), about)
        except OSError as why:
            self.troubles.append(str(why))
            return ""
        finally:
            for one in (there, name):
                if one != -1:
                    os.close(one)

    def tell(self) -> None:
        """What tells of trouble first, then the newest; what is left out is counted."""
        new = [path for path in self.kept if self.kept[path].job or self.kept[path].about.st_mtime > self.since]
        new.sort(key=lambda path: self.kept[path].rank())
        had = {path: self.read(self.kept[path]) for path in new[:MAX_FILES]}
        order = [path for path in had if had[path]]
        order.sort(key=lambda path: (not self.kept[path].job, not any(word in had[path] for word in WORDS)))
        mark, left, shown = str(int.from_bytes(os.urandom(8), "big") + 10**19), MAX_BYTES, 0
        for path in order:
            left -= len(had[path].encode("utf-8", "replace")) + len(path) + 16
            if left <= 0:
                break
            if not shown:
                say("== logs " + mark)
            shown += 1
            found = self.kept[path]
            job = self.job_of(found) if found.about.st_uid else ""
            nodes = ",".join(self.jobs[job][1]) if job else ""
            nodes = nodes if len(nodes) <= LONGEST_NODES else ""
            say("==> " + "".join(sign if sign.isprintable() else "?" for sign in path) + " <==")
            say(f"== of uid={found.about.st_uid} job={job or '-'} nodes={nodes or '-'} {mark}")
            say(had[path])
        if shown != len(new):
            gone = f"{len(new) - shown} of {len(new)} files that the last days wrote"
            say(f"== left out: {gone}: read are those that tell most, newest first")
        if shown and self.refused:
            say("== not read: " + self.refused)
        if not new and not self.troubles:
            say(f"== no log of the last {DAYS} days below {self.top}, {len(self.kept)} older")
        if self.troubles and not shown:
            sys.stderr.write(self.troubles[0] + "\n")
            sys.exit(1)


def filled(pattern: str, names: Any) -> str:
    """What Slurm makes of the pattern of a file's name."""
    return re.sub("%0*[0-9]*([jAaxN])", lambda sign: str(names[sign.group(1)]), pattern)


def said(*argv: str) -> str:
    try:
        ran = subprocess.run(  # noqa: S603  squeue and scontrol, by numbers
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=6
        )
        return ran.stdout.decode("utf-8", "replace")
    except Exception:
        return ""


def say(line: str) -> None:
    sys.stdout.buffer.write((line + "\n").encode("utf-8", "replace"))


def tail(file: int, about: Any) -> str:
    with os.fdopen(file, "rb") as log:
        start = max(0, about.st_size - TAIL_BYTES)
        log.seek(start)
        text = log.read(TAIL_BYTES).decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n").rstrip("\n")
    return "".join(line + "\n" for line in text.split("\n")[min(start, 1) :][-TAIL_LINES:])


def main() -> None:
    logs = Logs(sys.argv[1])
    logs.find()
    logs.tell()
    sys.stdout.flush()


if __name__ == "__main__":
    main()
