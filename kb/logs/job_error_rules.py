"""Classify lines of a job's log; the first matching row wins.

Named groups become attributes. Needles are cheap necessary conditions; a row without a pattern matches on them alone.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kb.needle_search import Needles, zero_digits


@dataclass(frozen=True, slots=True)
class ErrorRule:
    """One row. `cause` is the class id."""

    cause: str
    needles: tuple[str, ...]
    pattern: re.Pattern[str] | None = None
    zeroed: tuple[str, ...] = ()  # the needles with digits replaced by zeros

    def match_line(self, line: str) -> Mapping[str, Any] | None:
        """Return the attributes, or None."""
        for needle in self.needles:
            if needle in line:
                break
        else:
            return None
        if self.pattern is None:
            return {}
        match = self.pattern.search(line)
        return {name: value for name, value in match.groupdict().items() if value} if match else None


def _build_rule(cause: str, *needles: str, pattern: str = "") -> ErrorRule:
    return ErrorRule(cause, needles, re.compile(pattern) if pattern else None, tuple(map(zero_digits, needles)))


_PEER = r"(?P<peer>[\w.:\[\]-]{1,80}?(?:<\d{1,5}>)?)"
_EXIT = r"(?i:\bexit ?_?(?:code|status) {0,4}(?:[:=]|is|was|of)? {0,3}\(?|exited with (?:exit )?(?:code |status )?)"
_CRASH = r"Segmentation fault|Bus error|Illegal instruction|Floating[ -]point exception"
_CRASHING = r"(?:4|5|7|8|11|31)"  # SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGSYS
_EXITS = r"(?:132|133|135|136|139|159)"  # the same as shell exit codes: 128 plus the signal
_COLLECTIVE = r"(?:SeqNum=(?P<seq>\d{1,12}), )?OpType=(?P<op>\w{1,40})"

ERROR_RULES = (
    # the scheduler and the kernel
    _build_rule("preempted", "DUE TO PREEMPTION", "PREEMPTED", "reempted by job"),
    _build_rule("host_killed", "oom-kill event", "oom_kill event", "Out Of Memory", "OUT_OF_MEMORY",
         pattern=r"slurmstepd: .{0,160}(?:oom[-_]kill|[Oo]ut[ _][Oo]f[ _][Mm]emory)|(?:step|task)\S{0,80} .{0,40}OUT_OF_MEMORY"),
    _build_rule("node_failed", "NODE FAILURE", "Node failure on", "odeFail", "NODE_FAIL",
         pattern=r"(?:ON (?P<node>[\w.\[\],-]{1,120}) CANCELLED AT .{0,60})?DUE TO NODE (?:[\w.-]{1,80} )?FAILURE|"
                 r"Node failure on (?P<node2>[\w.\[\],-]{1,120})|(?i:state|reason|status)[=: ]{1,3}(?i:Node_?Fail)|NODE_FAIL"),
    _build_rule("step_unkillable", "NOT ENDING WITH SIGNALS", "Kill task failed", "nkillable", "not ending with signals",
         pattern=r"(?:(?:STEPD TERMINATED|CANCELLED) )?(?:ON (?P<node>[\w.-]{1,80}) AT .{0,60})?JOB NOT ENDING WITH SIGNALS|Kill task failed|"
                 r"(?i:unkillable (?:step|process|task)|not ending with signals)"),
    _build_rule("time_limit", "DUE TO TIME LIMIT", "due to time limit", "TIMEOUT ***", "time limit exhausted"),
    _build_rule("cancelled", "CANCELLED AT", "CANCELLED by", "CANCELLED BY",
         pattern=r"\*\*\* (?P<what>JOB|STEP) .{1,160}CANCELLED AT [\dT:-]{10,20}(?: \*\*\*|$)|CANCELLED [bB][yY] (?P<uid>\d{1,10})\b"),
    # storage before NCCL: a full disk also causes NCCL errors
    _build_rule("nccl_shm_failed", "posix_fallocate failed", "failed to extend /dev/shm", "shm/nccl-", "shared memory segment /dev/shm",
         pattern=r"fallocate failed|failed to extend|Error while (?:creating|attaching)|No space left"),
    _build_rule("dataloader_shm", "insufficient shared memory", "unable to open shared memory object", "unable to write to file </torch_",
         "unable to mmap"),
    _build_rule("dataloader_killed", "DataLoader worker", pattern=r"DataLoader worker.{0,80}(?:killed by signal|exited unexpectedly)"),
    _build_rule("checkpoint_corrupt", "invalid magic number", "PytorchStreamReader failed", "failed finding central directory", "UnpicklingError",
         "is corrupted", "file not found in archive", "HeaderTooLarge", "InvalidHeader", "MetadataIncompleteBuffer", "corrupt file",
         "Ran out of input"),
    _build_rule("checkpoint_write_failed", "PytorchStreamWriter failed writing", "file write failed",
         pattern=r"PytorchStreamWriter failed writing|inline_container\.cc:\d{1,6}.{0,80}file write failed"),
    _build_rule("checkpoint_mismatch", "size mismatch for", "in loading state_dict", "key(s) in state_dict", "CheckpointingException"),
    _build_rule("too_many_files", "Too many open files"),
    _build_rule("memlock", "Cannot allocate memory", "memlock", "locked memory",
         pattern=r"ibv_\w{1,40} failed.{0,80}Cannot allocate memory|(?i:memlock|locked memory).{0,60}(?:limit|low|small)"),
    _build_rule("no_space", "No space left on device", "Disk quota exceeded", "ENOSPC"),
    _build_rule("read_only_fs", "Read-only file system"),
    # CUDA
    _build_rule("cuda_oom", "out of memory", "OutOfMemoryError", "CUDA_ERROR_OUT_OF_MEMORY", "RESOURCE_EXHAUSTED",
         pattern=r"CUDA(?: error:)? out of memory|cudaMalloc(?: retry)? failed: out of memory|OutOfMemoryError|"
                 r"CUDA_ERROR_OUT_OF_MEMORY|RESOURCE_EXHAUSTED: .{0,40}[Oo]ut of memory|"
                 r"[Cc]uda failure (?:\d+ )?'out of memory'|HIP out of memory"),
    _build_rule("cuda_illegal_access", "illegal memory access", "CUDA_ERROR_ILLEGAL_ADDRESS"),
    _build_rule("cuda_ecc_uncorrectable", "uncorrectable ECC error", "CUDA_ERROR_ECC_UNCORRECTABLE"),
    _build_rule("cuda_launch_failure", "unspecified launch failure", "CUDA_ERROR_LAUNCH_FAILED", "CUDA_ERROR_CONTAINED"),
    _build_rule("cuda_illegal_instruction", "illegal instruction was encountered", "CUDA_ERROR_ILLEGAL_INSTRUCTION"),
    _build_rule("device_assert", "device-side assert", "` failed.", pattern=r"device-side assert|block: \[[\d,]{1,30}\], thread: \[[\d,]{1,30}\] Assertion"),
    _build_rule("cuda_system_not_initialized", "system not yet initialized", "CUDA_ERROR_SYSTEM_NOT_READY"),
    _build_rule("cuda_driver_mismatch", "Driver/library version mismatch", "unsupported display driver", "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
         "forward compatibility was attempted"),
    _build_rule("cuda_driver_too_old", "driver version is insufficient", "driver on your system is too old", "unsatisfied condition: cuda",
         "unsupported toolchain", "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "requires CUDA driver"),
    _build_rule("nvml_unknown_error", "Failed to initialize NVML: Unknown Error"),
    _build_rule("missing_gpu_runtime", "could not select device driver", "invalid runtime name", "nvidia-container-cli:",
         pattern=r"could not select device driver|invalid runtime name: nvidia|nvidia-container-cli: (?!.{0,80}unsatisfied)"),
    _build_rule("cuda_invalid_ordinal", "invalid device ordinal", "CUDA_ERROR_INVALID_DEVICE", "Invalid device id"),
    _build_rule("cuda_no_kernel_image", "no kernel image is available", "CUDA_ERROR_NO_BINARY_FOR_GPU", "is not compatible with the current PyTorch"),
    _build_rule("cuda_devices_busy", "busy or unavailable"),
    _build_rule("cuda_no_device", "no CUDA-capable device", "No CUDA GPUs are available", "CUDA_ERROR_NO_DEVICE", "Found no NVIDIA driver",
         "No devices were found"),
    _build_rule("cudnn_failed", "CUDNN_STATUS_EXECUTION_FAILED", "CUDNN_STATUS_INTERNAL_ERROR",
         pattern=r"(?P<status>CUDNN_STATUS_(?:EXECUTION_FAILED|INTERNAL_ERROR)\w{0,40})"),
    _build_rule("cudnn_not_initialized", "CUDNN_STATUS_", "cuDNN version incompatibility", "cuDNN error", pattern=r"(?P<status>CUDNN_STATUS_\w{1,60})|cuDNN "),
    # a cuBLAS error may follow an OOM line; it has its own class because G03 looks like this
    _build_rule("cublas_failed", "CUBLAS_STATUS_", pattern=r"(?P<status>CUBLAS_STATUS_(?!SUCCESS)\w{1,60})"),
    # NCCL and the process group
    _build_rule("collective_desync", "mismatch between collectives", "is running collective: CollectiveFingerPrint", "ollective sequence number",
         "ollectives differ", "flight recorder", "Flight recorder",
         pattern=r"[Rr]ank (?P<rank>\d{1,6}) is running (?:inconsistent )?collective: CollectiveFingerPrint\((?:SequenceNumber=(?P<seq>\d{1,12}), )?"
                 r"OpType=(?P<op>\w{1,40})(?:.{0,600}OpType=(?P<others>\w{1,40}))?|"
                 r"[Rr]ank (?P<rank2>\d{1,6}):? seq(?:uence number)?[ =:]{1,3}(?P<seq2>\d{1,12})[ ,:]{1,3}(?:op(?:_type)?[ =:]{1,3})?(?P<op2>[A-Z_a-z]{3,40})"
                 r"(?:.{0,80}?others:? (?:\w{1,20}[ =:]{1,3}){0,3}?(?P<others2>[A-Z][A-Z_]{2,40}))?"),
    _build_rule("collective_desync", "monitoredBarrier", "Not all ranks join",
         pattern=r"[Rr]anks? (?P<rank>\d{1,6})(?:, \d{1,6}){0,64} failed to pass (?P<op>monitoredBarrier)|"
                 r"failed to pass monitoredBarrier|"
                 r"Not all ranks join(?:ed|ing)? (?:the )?(?:same )?collective(?:,? sequence number: (?P<seq>\d{1,12}))?"),
    _build_rule("collective_desync", "mismatch between collectives"),
    _build_rule("nccl_timeout", "WorkNCCL(", pattern=rf"WorkNCCL\({_COLLECTIVE}.{{0,200}}?Timeout\(ms\)=(?P<timeout_ms>\d{{1,12}})"),
    _build_rule("nccl_timeout", "last enqueued",
         pattern=r"work: (?P<work>-?\d{1,12}), last enqueued(?: NCCL)? work: (?P<enqueued>-?\d{1,12}), "
                 r"last completed(?: NCCL)? work: (?P<completed>-?\d{1,12})"),
    _build_rule("nccl_timeout", "collective operation timeout", "Timeout at NCCL work", "NCCL operations have failed or timed out",
         "watchdog got stuck", "detected by watchdog at work", "Terminating the process after attempting to dump debug info"),
    # NCCL 2.27 and later write `status=NAME(12) opcode=NAME(1) … vendor_err=129`, older ones `status=12 … vendor err 129` or `error 12, …`
    _build_rule("nccl_ib_error", "Got completion", "Got CQE with error", "Got async event", "async event", "async fatal event", "Call to ibv_", "IBV_WC_",
         "ibv_post_", "ibv_poll_", "Unsupported completion status", "failed devices out of", "marked as failed",
         pattern=rf"Got completion (?:from peer {_PEER} )?with (?:error \((?!0\))|status=|error |status )(?:IBV_WC_\w{{1,40}}\()?(?!0\b)(?P<status>\d{{1,4}})\b"
                 r"(?:.{0,160}?vendor[_ ]err[ =](?P<vendor_err>\d{1,6}))?"
                 r"(?:.{0,200}?\b(?:hca |dev )?(?P<device>mlx5_\w{1,10}|rocep\w{1,12}|bnxt_re\d{1,3}|ibp\w{1,12}))?"
                 r"|Got completion with error \(.{0,80}?wc->status=\(\w{1,60}\)(?!0\b)(?P<status2>\d{1,4})"
                 r"|Unsupported completion status \w{1,60} \((?!0\b)(?P<status3>\d{1,4})"
                 r"|(?:(?P<device3>[\w-]{1,32}):\d{1,3} )?(?:Got async (?:error )?event|Got non-fatal async event|async fatal event)"
                 r"(?: on (?:CQ|QP|SRQ).{0,240}?)? ?:? (?!port active|client|GID|LID|SM |P_?Key|PKey|communication established|last WQE|path migrated)"
                 r"(?P<event>[A-Za-z][\w /-]{1,40})"
                 r"|Got (?P<event2>CQE with error)|(?P<event3>Detected \d{1,6} failed devices)|NET/IB: Device \d{1,4} (?P<event4>marked as failed)"
                 r"|(?:Call to )?(?P<call>ibv_\w{1,40})(?:\(\))? failed with (?:error )?(?P<reason>[^,]{1,80})(?:, on dev (?P<device2>\w{1,32}))?"
                 r"|\bIBV_WC_(?!SUCCESS|SEND|RECV|RDMA|COMP_SWAP|FETCH_ADD|BIND|LOCAL_INV|TSO|WITH|GRH|IP_|TM_)\w{1,32}_ERR\b(?:\((?P<status4>\d{1,4})\))?"),
    _build_rule("nccl_ib_device", "Unable to open device", "No device found", "NET/IB : No usable",
         pattern=r"NET/IB ?: (?:Unable to open device (?P<device>[\w:.-]{1,40})|No (?:usable )?device found)"),
    _build_rule("nccl_no_interface", "no socket interface found", "No usable network interface", "no interface found", "No interface found"),
    _build_rule("nccl_connection_refused", "failed : ", "socketPollConnect", "socketStartConnect", "ncclSocketConnect",
         pattern=rf"[Cc]onnect to {_PEER} failed ?: (?P<reason>Connection refused|No route to host|Connection timed out|Network is unreachable|"
                 r"Software caused connection abort|Operation timed out)|socketPollConnect:? (?:connect returned |to \S{1,80} )(?P<reason2>[\w ]{1,40})"),
    _build_rule("gloo_connect_failed", "Gloo connect", "onnectFullMesh",
         pattern=r"(?i:gloo )?(?:connectFullMesh|connect\w{0,20}) failed.{0,300}?(?:remote|to)[ =:]{1,3}\[?(?P<peer>[\w.:-]{1,60}?)(?:\]|,|$)"),
    _build_rule("nccl_remote_exited", "remote process exit", "ncclRemoteError", "Connection closed by remote peer", "closed by peer",
         "Connection reset by peer", "Broken pipe",
         pattern=r"remote process exit|ncclRemoteError|(?:Connection closed by remote peer|closed by peer) ?(?P<peer>\S{1,80})?|"
                 r"(?:NCCL|socket|TCPStore|c10d).{0,200}(?:Broken pipe|Connection reset by peer)"),
    _build_rule("nccl_gdr_disabled", "GPU Direct RDMA Disabled", "GDR 0",
         pattern=r"GPU Direct RDMA Disabled(?: for (?:GPU \d+ / )?HCA (?P<device>\S{1,32}))?|: GDR 0\b"),
    _build_rule("nccl_net_socket", "via NET/Socket", "Using network Socket"),
    _build_rule("duplicate_gpu", "Duplicate GPU detected",
         pattern=r"Duplicate GPU detected ?: rank (?P<rank>\d{1,6}) and rank (?P<other>\d{1,6}) both on CUDA device (?P<device>\w{1,16})"),
    _build_rule("nccl_invalid_usage", "ncclInvalidUsage", "invalid usage", "NCCL version mismatch", "Mismatched NCCL",
         "wrong type ",
         pattern=r"ncclInvalidUsage|invalid usage|(?P<reason>.{0,40}version mismatch.{0,80})|"
                 r"socketFinalizeAccept: wrong type"),
    _build_rule("nccl_init_failed", "unhandled system error", "unhandled cuda error", "ncclSystemError", "ncclInternalError", "ncclUnhandledCudaError",
         "ncclCommInitRank", "internal error", "Test NCCL failure", "NCCL WARN Cuda failure", "NCCL WARN nvml", "NCCL WARN Error: network",
         "NVLink SHARP (NVLS) Multicast",
         pattern=r"nccl(?:SystemError|InternalError|UnhandledCudaError)|NCCL.{0,300}(?:unhandled|internal error)|"
                 r"ncclCommInitRank.{0,80}(?:fail|timed out)|Test NCCL failure|"
                 r"NCCL WARN (?:Cuda failure|nvml\w{1,60}\(\) failed|Error: network)|[Ff]ailed to bind NVLink SHARP"),
    _build_rule("nccl_wrong_values", "Out of bounds values", pattern=r"# Out of bounds values : (?P<values>[1-9]\d{0,12}) FAILED"),
    # rendezvous, names, services
    _build_rule("rendezvous_timeout", "waiting for clients", "RendezvousTimeoutError", "eartbeat", "Socket Timeout", "wait timeout after",
         pattern=r"Timed out(?: after \d+ seconds)? waiting for clients\.? ?(?P<joined>\d{1,6})/(?P<expected>\d{1,6}) clients joined|RendezvousTimeoutError|"
                 r"(?:rendezvous|keep[- ]alive).{0,60}[Hh]eartbeat.{0,40}(?:expired|fail|missed)|[Hh]eartbeat.{0,40}expired|"
                 r"(?P<store>Socket Timeout|wait timeout after)"),
    _build_rule("rendezvous_refused", "client socket has failed to connect", "RendezvousConnectionError", "connection to the C10d store has failed",
         "client socket has timed out",
         pattern=r"(?:client socket has|RendezvousConnectionError|C10d store has)"
                 r"(?:.{0,120}?connect(?:ing)? to \[?(?P<peer>[\w.:-]{1,120}?)[\],]{1,2}:? ?(?P<port>\d{1,5}))?"),
    _build_rule("name_resolution", "Name or service not known", "Temporary failure in name resolution", "nodename nor servname", "getaddrinfo",
         "ould not resolve host", "No address associated with hostname", pattern=r"(?!.*gai_cache).*"),
    _build_rule("certificate_time", "certificate is not yet valid", "certificate has expired", "certificate expired"),
    _build_rule("storage_throttled", "SlowDown", "reduce your request rate", "TooManyRequests", "Too Many Requests", "RequestLimitExceeded",
         "503 Service Unavailable", "ServerBusy"),
    _build_rule("service_unreachable", "Max retries exceeded", "Failed to establish a new connection", "ConnectionError", "CommError",
         "wandb: Network error", "ConnectTimeout", "NewConnectionError", "ReadTimeoutError",
         pattern=r"^(?:.{0,300}[Hh]ost='?(?P<service>[\w.-]{1,120}))?"),
    # Python, its libraries and the user's code
    _build_rule("headers_missing", "fatal error: ", pattern=r"fatal error: (?P<header>[\w./+-]{1,120}\.(?:h|hpp|cuh)): No such file"),
    _build_rule("cuda_toolkit_mismatch", "does not match the version torch was compiled with", "mismatches the version that was used to compile",
         pattern=r"(?:does not match the version torch was compiled with|mismatches the version that was used to compile)(?!.{0,120}accepting)"
                 r"(?!.{0,80}APIs are compatible)"),
    _build_rule("import_nccl_symbol", "undefined symbol: nccl", pattern=r"undefined symbol: (?P<symbol>nccl\w{1,80})"),
    _build_rule("import_cuda_symbol", "undefined symbol: __nvJitLink", "undefined symbol: cu",
         pattern=r"undefined symbol: (?P<symbol>(?:__nvJitLink|cu(?:blas|dnn|sparse|solver|fft|da|rand))\w{0,80})"),
    _build_rule("import_undefined_symbol", "undefined symbol:", pattern=r"undefined symbol: (?P<symbol>\S{1,120})"),
    _build_rule("file_not_found", "FileNotFoundError", "LocalEntryNotFoundError"),
    _build_rule("permission_denied", "PermissionError", "[Errno 13]"),
    _build_rule("loss_nan", " nan", "=nan", ":nan", "(nan", "NaN", "nans ", "non-finite loss",
         pattern=r"(?i:(?:loss|nll|perplexity)[\"' ]{0,3}(?:is|=|:|became|was)?[ \t:=]{0,4}(?:tensor\()?[+-]?nan\b)|"
                 r"(?i:\bnan loss|loss is nan|found nan|nans? (?:detected|found|encountered)|non-finite loss)"),
    _build_rule("grad_explodes", "grad",
         pattern=r"[Gg]rad(?:ient)?[_ -]?[Nn]orm[\"' ]{0,3}[ \t:=]{1,4}"
                 r"(?P<norm>inf|nan|\d{4,}(?:\.\d+)?(?:e[+-]?\d+)?|\d(?:\.\d+)?e\+?0?[3-9]\b|\d(?:\.\d+)?e\+?[1-9]\d)|"
                 r"(?i:gradients? norm explo)"),
    # exits of processes; last, because launchers report them after the cause
    _build_rule("host_killed", "Killed", "SIGKILL", "xitcode", "xit code", "XIT CODE", "xit status", "xit_code", "xitCode", "xited with", "ignal 9", "ignal: 9",
         "ignal: K", "SIGNAL: 9",
         pattern=rf"^(?:.{{0,80}}[\s:])?Killed\b(?! process)|SIGKILL|{_EXIT}(?:-9|137)\b|(?i:\bsignal[ :=(]{{1,3}})(?:9\b|Killed)"),
    # torchrun's table has two blanks before the colon; a launcher gives 128 + signal as the exit code of a shell
    _build_rule("crash_signal", "atal Python error", "egmentation fault", "egmentation Fault", "SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGSYS",
         "xitcode", "xit code", "XIT CODE", "xit status", "xit_code", "xitCode", "xited with", "ignal", "SIGNAL",
         "us error", "loating point exception", "llegal instruction", "stack smashing detected", "double free or corruption", "free(): invalid",
         "corrupted size vs", "malloc(): ", "malloc_consolidate", "munmap_chunk", "core dumped", "ddress not mapped",
         pattern=rf"Fatal Python error: (?i:{_CRASH})|\bSIG(?:SEGV|BUS|FPE|ILL|SYS)\b|{_EXIT}(?:-{_CRASHING}|{_EXITS})\b|"
                 rf"(?i:\bsignal(?: number)?)[ :=(]{{1,3}}{_CRASHING}\b|(?i:\bsignal):? {{1,2}}(?:\w+ )?\(?(?i:{_CRASH})|"
                 rf"(?:^|: |\d )(?i:{_CRASH})(?: {{1,12}}\(core dumped\)|$| {{1,12}}\S{{1,200}}$)|ddress not mapped to object|"
                 r"stack smashing detected|double free or corruption|free\(\): invalid|corrupted size vs|malloc\(\): \w|malloc_consolidate\(\): |"
                 r"munmap_chunk\(\): "),
    _build_rule("aborted", "SIGABRT", "Aborted", "terminate called", "xitcode", "xit code", "XIT CODE", "xit status", "ignal 6", "ignal: ", "SIGNAL: 6",
         "atal Python error",
         pattern=rf"\bSIGABRT\b|(?:^|[\s:])Aborted(?: \(core dumped\)|$)|terminate called (?:after|without|recursively)|"
                 rf"Fatal Python error: Aborted|{_EXIT}(?:-6|134)\b|(?i:\bsignal)[ :=(]{{1,3}}(?:6\b|Aborted)"),
    _build_rule("sigterm", "SIGTERM", "ignal 15", "SignalException", "SIGNAL: 15", "xitcode", "xit code", "erminated",
         pattern=rf"SIGTERM|(?i:signal)[ :=(]{{1,3}}15\b|SignalException|{_EXIT}(?:-15|143)\b|^(?:.{{0,40}}[:\s])?Terminated$"),
)  # fmt: skip

# prefilter, because every metrics line names a gradient norm
EXPLODING_GRADIENT_PATTERN = re.compile(
    r"[Gg]rad(?:ient)?[_ -]?[Nn]orm[\"' ]{0,3}[ \t:=]{1,4}(?:inf|nan|NaN|\d{4}|\d(?:\.\d{1,16})?e\+)|[Gg]radients? (?:norm )?explo|[Ee]xploding grad"
)
NEEDLES = tuple(dict.fromkeys(needle for row in ERROR_RULES for needle in row.needles if needle != "grad"))
# printed by other ranks after one has failed; an error of its own if alone
CONSEQUENCE_CAUSES = frozenset({"nccl_timeout", "nccl_remote_exited", "sigterm", "aborted", "cancelled"})
# a cause unless another rank failed before
AMBIGUOUS_CAUSES = frozenset({"nccl_ib_error", "rendezvous_timeout", "nccl_connection_refused", "host_killed", "nccl_init_failed"})
# worth reporting, but the run continues
NON_FATAL_CAUSES = frozenset({"loss_nan", "grad_explodes", "storage_throttled"})
HINT_CAUSES = frozenset({"nccl_net_socket", "nccl_gdr_disabled"})  # NCCL's choices: evidence without a failure


_RULE_PLACES = {
    needle: [place for place, row in enumerate(ERROR_RULES) if needle in row.zeroed] for row in ERROR_RULES for needle in row.zeroed
}
_ZEROED_NEEDLES = Needles(_RULE_PLACES)


def list_eligible_rules(line: str) -> tuple[ErrorRule, ...]:
    """Return rows that may match a line with zeroed digits."""
    return tuple(
        ERROR_RULES[place] for place in sorted({place for needle in _ZEROED_NEEDLES.find_in_line(line) for place in _RULE_PLACES[needle]})
    )


def classify_line(line: str, rows: Iterable[ErrorRule] = ERROR_RULES) -> tuple[str, Mapping[str, Any]] | None:
    """Return class and attributes, or None."""
    for row in rows:
        classified = row.match_line(line)
        if classified is not None:
            return row.cause, classified
    return None
