"""A site's rules for log lines that no built-in reader knows, from YAML. Pure.

Findings are `site.log.ID`, of low trust: anyone who can write to the log can cause them. Lines known to a built-in
reader
never reach a rule. Files are refused with all their problems.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, PlainValidator, model_validator

from kb.logs.job_error_rules import classify_line
from kb.logs.kernel_log import list_kernel_events
from kb.logs.log_lines import find_time, split_prefix
from kb.logs.ranks import find_rank_in_message, split_rank_tag
from kb.needle_search import split_lines
from kb.redact import redact
from kb.schema import StrictModel, Text
from kb.yaml_files import FilePosition, Problems, list_yaml_files, read_document, validate_document
from tools.checks.site.safe_patterns import BadPattern, LinePattern, compile_line_pattern

# Ordinary lines of jobs and kernels, which no site rule may match. Data only.

ORDINARY_LINES = tuple(
    split_lines("""\
[rank0]: step 1200 loss 2.3145 grad_norm 0.87 lr 3.0e-04 tokens/s 41230
rank 7: epoch 3 iteration 4410/9000 loss=1.994 elapsed time per iteration (ms): 812.4
2026-05-20 03:10:00,123 INFO trainer: step=100 loss=2.31 time=0.81s
2026-05-20 03:10:01,456 WARNING dataloader: worker 3 is slower than the others
INFO:root:Loading checkpoint from /shared/checkpoints/step_1000
Saving checkpoint at iteration 2000 to /shared/checkpoints
Successfully saved checkpoint in 12.3 s
Epoch 4:  37%|###7      | 370/1000 [04:12<07:09,  1.47it/s, loss=2.1]
n1:4711:4800 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>
n1:4711:4800 [0] NCCL INFO Channel 00/16 :    0   1   2   3   4   5   6   7
n1:4711:4800 [0] NCCL INFO comm 0x55d0 rank 0 nranks 16 cudaDev 0 busId 19000 - Init COMPLETE
NCCL version 2.21.5+cuda12.4
torchrun --nnodes 2 --nproc-per-node 8 train.py --config config.yaml
W0520 03:10:00.000000 4711 torch/distributed/run.py:779] Setting OMP_NUM_THREADS environment variable for each process to be 1
/usr/lib/python3.11/site-packages/torch/utils/data.py:12: UserWarning: This argument is deprecated
wandb: Run data is saved locally in /home/user/run-1
slurmstepd: info: task 3 started on node gpu-017
srun: job 4711 queued and waiting for resources
srun: job 4711 has been allocated resources
Traceback (most recent call last):
  File "/app/train.py", line 120, in main
    trainer.fit(model)
Evaluating: accuracy 0.712, error rate 0.288
validation loss at iteration 500 | lm loss value: 2.1 | lm loss PPL: 8.1
DeepSpeed info: version=0.14.2, git-hash=unknown, git-branch=unknown
[2026-05-20 03:10:02,001] [INFO] [config.py:996:print] zero_enabled .... True
Retrying request 1 of 5 after 0.5 seconds
Finished training: 0 errors, 3 warnings
Process 4711 exited with code 0
[    0.000000] Linux version 6.5.0-41-generic (buildd@lcy02) (gcc 12.3.0)
[    1.204511] pci 0000:19:00.0: BAR 0: assigned [mem 0x20000000-0x20ffffff]
[    4.120033] nvidia-nvlink: Nvlink Core is being initialized, major device number 510
[    4.501120] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.54.15
[   12.500001] mlx5_core 0000:5e:00.0: firmware version: 28.39.1002
[   14.200310] mlx5_core 0000:5e:00.0 ens1np0: Link up
[   20.001201] EXT4-fs (nvme0n1p2): mounted filesystem with ordered data mode
[   21.330001] systemd[1]: Started Journal Service.
[   30.120000] IPv6: ADDRCONF(NETDEV_CHANGE): eth0: link becomes ready
[ 4210.000120] perf: interrupt took too long (2501 > 2500), lowering kernel.perf_event_max_sample_rate
[ 4300.120003] docker0: port 1(veth12ab) entered blocking state
[ 4300.120010] audit: type=1400 audit(1716174600.100:52): apparmor="STATUS" operation="profile_load"
[ 5000.000001] usb 1-1: new high-speed USB device number 4 using xhci_hcd
""")
)  # fmt: skip


MAX_RULES = 64
MAX_LINE_CHARS = 500  # characters of a line that a rule searches
MAX_VALUE_CHARS = 200  # of a stored value
_MAX_ORDINARY_RATIO = 0.01  # share of ordinary lines above which a rule is refused
LogKind = Literal["job", "kernel"]


class BadRules(Exception):
    """Files that are refused; `problems` are `file:line: reason`, all of them."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class RuleHit:
    """`value` is redacted."""

    value: str
    time: datetime | None = None
    boot_id: str = ""
    rank: str | None = None


@dataclass(frozen=True, slots=True)
class LogRule:
    """`says` is the meaning of a matching line."""

    id: str
    log: LogKind
    pattern: LinePattern
    says: str

    @property
    def key(self) -> str:
        return f"site.log.{self.id}"

    def match_line(self, line: str) -> RuleHit | None:
        """Return None if the line does not match or a built-in reader knows it."""
        return self._match_kernel_line(line) if self.log == "kernel" else self._match_job_line(line)

    def _match_job_line(self, line: str) -> RuleHit | None:
        rank, body = split_rank_tag(line)
        value = self._extract_value(body)
        if value is None or classify_line(line) is not None:
            return None
        return RuleHit(value, find_time(line), "", rank or find_rank_in_message(line))

    def _match_kernel_line(self, line: str) -> RuleHit | None:
        """Match from the message's first character: programs that imitate the kernel have a name in front."""
        prefix = split_prefix(line)
        if prefix.source not in ("", "kernel"):
            return None
        value = self._extract_value(prefix.message.partition("\n")[0])
        if value is None or list_kernel_events(line):
            return None
        return RuleHit(value, prefix.time, prefix.boot_id)

    def _extract_value(self, body: str) -> str | None:
        """Group `value`, else the first group, else the whole match."""
        body = body[:MAX_LINE_CHARS]
        match = self.pattern.compiled.search(body) if self.pattern.needle in body else None
        if match is None:
            return None
        groups = self.pattern.compiled.groups
        value = match["value"] if "value" in self.pattern.compiled.groupindex else match[1] if groups else match[0]
        return redact(value or "")[:MAX_VALUE_CHARS].strip()


def load_rules(*folders: Path) -> tuple[LogRule, ...]:
    """Return all folders' rules in file order. Raise BadRules."""
    problems = Problems()
    rules: list[LogRule] = []
    taken_ids: set[str] = set()
    for path in (path for folder in folders for path in list_yaml_files(folder)):
        document = read_document(path, problems)
        if document is None:
            continue
        before = len(taken_ids)
        document.note_taken_ids("rules", taken_ids, problems, "{}: there is a rule of this id already")
        file = validate_document(document, _RuleFileModel, problems)
        rules += [row.rule for row in file.rules] if file else []
        if before <= MAX_RULES < len(taken_ids):
            problems.add(
                FilePosition(path), f"there are more than {MAX_RULES} rules with those of this file; drop what found nothing for long"
            )
    if problems.found:
        raise BadRules(problems.found)
    return tuple(rules)


def _validate_id(name: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_]{1,31}", name):
        raise ValueError("id must be snake_case, 2 to 32 characters")
    return name


def _validate_pattern(given: Any) -> LinePattern:
    if not isinstance(given, str) or not given:
        raise ValueError("pattern must be text")
    try:
        return compile_line_pattern(given, MAX_LINE_CHARS)
    except BadPattern as error:
        raise ValueError(f"pattern {error}") from error


def _validate_line(given: str) -> str:
    if "\n" in given.rstrip("\n") or not given.strip():
        raise ValueError("must be one line of a log, as it was printed")
    return given.rstrip("\n")


_ExampleLine = Annotated[str, AfterValidator(_validate_line)]


class _RuleModel(StrictModel):
    id: Annotated[Text, AfterValidator(_validate_id)]
    log: LogKind
    pattern: Annotated[LinePattern, PlainValidator(_validate_pattern)]
    says: Annotated[Text, Field(min_length=1)]
    examples: Annotated[tuple[_ExampleLine, ...], Field(min_length=1)]
    never: tuple[_ExampleLine, ...] = ()

    @model_validator(mode="after")
    def _check_examples(self) -> "_RuleModel":
        if reasons := tuple(self._list_problems()):
            raise ValueError(*reasons)
        return self

    def _list_problems(self) -> Iterator[str]:
        search = self.pattern.compiled.search
        for line in self.examples:
            if not self.rule.match_line(line):
                yield f"its example is not found: {_explain_no_match(line, self.log)}: {line[:120]!r}"
        yield from (f"a line that it must never have matches: {line[:120]!r}" for line in self.never if search(line[:MAX_LINE_CHARS]))
        common = [line for line in ORDINARY_LINES if search(line)]
        if len(common) > _MAX_ORDINARY_RATIO * len(ORDINARY_LINES):
            yield f"it has ordinary lines, such as {common[0]!r}; say more of what the line holds"

    @property
    def rule(self) -> LogRule:
        return LogRule(self.id, self.log, self.pattern, self.says)


def _explain_no_match(line: str, log: LogKind) -> str:
    if log == "kernel" and split_prefix(line).source not in ("", "kernel"):
        return "the line is a program's, not the kernel's"
    known_event = classify_line(line) if log == "job" else next(((event.kind, {}) for event in list_kernel_events(line)), None)
    return f"that line is known as {known_event[0]} already" if known_event else "the pattern does not match"


class _RuleFileModel(StrictModel):
    rules: Annotated[tuple[_RuleModel, ...], Field(min_length=1)]
