"""Map words and error signatures of a report to sixteen symptom classes.

Negated words ("no OOM") do not count. Pure.
"""

import re
from collections.abc import Iterable, Mapping

_DENIAL_PATTERN = re.compile(
    r"\b(?:no|not|never|without|neither|nor|(?:is|are|was|were|do|does|did|has|have|had|wo|ca|could|would|should)n['’]?t)\s+(?:\w{1,12}\s+){0,2}$"
)


def _compile_patterns(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns))


_GPU = r"(?:gpus?|cards?|devices?|accelerators?|h100s?|h200s?|a100s?|b200s?)"
_CANT = (
    r"(?:can ?not|can['’]?t|could ?n['’]?t|could not|unable to|fails? to|failed to|does ?n['’]?t|does not|won['’]?t|will not|did ?n['’]?t|"
    r"did not|do ?n['’]?t|never|refuses? to)"
)
_DROP = (
    r"(?:drop|fell|falls?|fallen|down|halved|low|tank|plummet|collaps|degrad|regress|declin|decreas|reduc|poor|bad|worse|suffer|sank|cut)"
)
_RATE = (
    r"(?:throughput|bandwidth|busbw|performance|perf|speed|mfu|tflops?|"
    r"(?:tokens?|samples?|it|steps?|images?) ?(?:/|per) ?s(?:ec(?:ond)?)?|utili[sz]ation)"
)
_JOB = r"(?:job|training|run|it|process|script|container|pod|service|server|model|everything|ranks?|workers?|launch|nccl|pytorch|torch)"

SYMPTOM_PATTERNS: Mapping[str, re.Pattern[str]] = {
    "nccl_timeout": _compile_patterns(
        r"nccl[\w /-]{0,40}time[ds]?[ -]?outs?",
        r"time[ds]?[ -]?outs?[\w ]{0,30}(?:nccl|collectives?|all[_-]?reduce|all[_-]?gather|broadcast|barrier|reduce[_-]?scatter)",
        r"(?:collectives?|all[_-]?reduce|all[_-]?gather|broadcast|barrier|reduce[_-]?scatter)[\w ]{0,40}tim(?:e|ed|es|ing)[ -]?out",
        r"\bwatchdog\b",
        r"processgroupnccl",
    ),
    "ib_err12": _compile_patterns(
        r"(?:error|status|err)[ =:]{1,2}12\b",
        r"vendor[_ ]err(?:or)?[ =:]{1,2}(?:129|81)\b",
        r"\bnet/ib\b",
        r"got completion",
        r"completion (?:queue )?(?:with )?error",
        r"\b(?:ib|infiniband|rdma|roce|verbs?)\b[\w ,'-]{0,40}(?:error|fail|retr|flap|problem|issue|broke)",
        r"retry (?:count )?exceeded",
        r"transport retry",
        r"work queue error",
        r"local access violation",
        r"\blinks? (?:is |are |keeps? )?flap",
        r"\bqp\b[\w ]{0,20}(?:error|timeout)",
        r"errors? (?:on|over|from) (?:the )?(?:ib|infiniband|rdma|roce)\b",
    ),
    "conn_refused": _compile_patterns(
        r"connection[s]? (?:is |was |were |gets? |being )?refused",
        r"refused (?:the )?connection",
        r"econnrefused",
        r"no route to host",
        r"network is unreachable",
        rf"{_CANT} (?:\w{{1,12}} ){{0,3}}connect\b",
        r"connect\w* [\w .:<>-]{0,60}(?:failed|fails|refused)",
        r"(?:port|master|peer|socket)[\w ]{0,20}(?:refused|rejected|blocked)",
        r"connection errors? between",
    ),
    "cuda_oom": _compile_patterns(
        r"(?:cuda|gpu|hbm|vram|torch\.?)[\w .:]{0,30}out[ -]of[ -]memory",
        r"out[ -]of[ -](?:gpu |cuda |device |video )memory",
        r"\bcuda[ _-]?ooms?\b",
        r"\bgpu[ _-]?ooms?\b",
        r"outofmemoryerror",
        r"(?<!host )\booms?\b(?![ -]?kill)(?! killed)",
        r"out[ -]of[ -]memory(?![ :]{1,2}kill)",
        r"tried to allocate",
        r"(?:not enough|ran out of|runs out of|running out of|insufficient|no) (?:free )?(?:gpu|cuda|device|vram|hbm) ?memory",
        r"(?:gpu )?memory (?:is )?(?:already )?(?:full|exhausted)",
    ),
    "ecc_text": _compile_patterns(
        r"\becc\b(?!:? ?(?:0|off|on|ok|enabled|disabled|mode)\b)",
        r"row[ -]?remap",
        r"uncorrectable",
        r"double[ -]bit",
        r"\bdbe\b",
        r"(?:gpu|hbm|vram|dram|sram) ?memory errors?",
        r"bit[ -]?flips?",
        r"page retire",
    ),
    "no_device": _compile_patterns(
        r"no cuda[- ](?:capable )?(?:devices?|gpus?)",
        rf"{_CANT} (?:\w{{1,12}} ){{0,3}}(?:see|find|detect|list|recogni[sz]e|locate|access|talk to|show)\b[\w ']{{0,30}}\b{_GPU}\b",
        rf"\b{_GPU}\b[\w ,'#-]{{0,30}}(?:missing|gone|disappeared|vanished|lost|not (?:visible|found|detected|there|showing|listed|"
        rf"recogni[sz]ed)|unavailable|dropped (?:out|off)|fell off|fallen off)",
        rf"(?:missing|lost|lose|losing) (?:\w{{1,12}} ){{0,2}}{_GPU}\b",
        rf"\b(?:only|just|shows?|sees?|lists?|reports?|down to) (?:see(?:s|ing)? |shows? |has |have |lists? )?"
        rf"(?:[0-7]|zero|one|two|three|four|five|six|seven|no) (?:of (?:the |its )?(?:8|eight|4|four|16) )?{_GPU}\b",
        rf"\b[0-7] (?:of|out of|/) ?(?:8|16) {_GPU}\b",
        r"\bseven gpus\b",
        r"no devices were found",
        r"unable to determine the device handle",
        r"driver/library (?:version )?mismatch",
        r"communicate with the nvidia driver",
        r"failed to initiali[sz]e nvml",
        r"nvml[\w :/]{0,30}(?:error|mismatch|fail)",
        r"off the bus",
        r"cuda (?:is )?(?:not|un)[ -]?available",
        r"is_available\(\)[\w ]{0,20}(?:false|no)",
        r"nvidia-smi[\w '’]{0,30}(?:fail|error|broken|not work|does ?n['’]?t work|complain|says)",
        r"\bshort (?:a|one|of)\b[\w ]{0,12}\bgpus?",
        r"\b[0-9]{1,2} of (?:its |the |our )?(?:4|8|16|four|eight) gpus?",
        rf"no {_GPU} (?:found|visible|detected|available)",
    ),
    "invalid_ordinal": _compile_patterns(
        r"device ordinal",
        r"invalid device",
        r"ordinal",
        r"device (?:id|index|number)[\w ]{0,20}(?:invalid|out of range|wrong)",
        r"invalid gpu (?:id|index)",
    ),
    "cuda_error": _compile_patterns(
        r"cuda[\w ]{0,20}(?:errors?|failures?|exceptions?)\b",
        r"illegal (?:memory|address|instruction)",
        r"\bcublas",
        r"\bcudnn",
        r"launch failure",
        r"no kernel image",
        r"device[- ]side assert",
        r"busy or unavailable",
        r"\bcuda[\w ]{0,12} (?:crash|fail|broke)",
        r"\bcudaerror",
        r"gpu (?:exceptions?|errors?|faults?)\b",
        r"\bmmu fault",
        r"kernel launch",
    ),
    "loss_nan": _compile_patterns(
        r"\bnans?\b",
        r"loss[\w ,'’]{0,30}(?:diverg|explod|spik|blew|blow|infinite|\binf\b|garbage|wrong|jump)",
        r"diverg(?:e|ed|es|ing|ence)",
        r"(?:gradients?|grad[ _-]norm)[\w ,]{0,30}(?:explod|blow|blew|spik|\binf\b|huge)",
        r"(?:explod|spik)\w+ (?:gradients?|grad|loss)",
        r"(?:wrong|corrupt\w*|garbage|incorrect) (?:results?|numbers|outputs?|values|data)",
        r"silent(?:ly)? (?:data )?corrupt",
    ),
    "killed": _compile_patterns(
        r"\bkill(?:ed|s|ing|er)\b",
        r"\bsig(?:kill|term|nal 9|nal 15)\b",
        r"exit(?:ed|s)?(?: with)?(?: code| status)? ?:?=? ?(?:137|143|-9|-15)\b",
        r"\bpre-?empt(?:ed|ion|s)?\b",
        r"bus error",
        r"\bevicted\b",
        r"\bcancell?ed\b",
        rf"{_JOB} (?:just |suddenly )?(?:disappear|vanish|went away|stopped by itself|was terminated|"
        r"got terminated|died|dies)\b(?! (?:in|at|on|during|while|with|right|after)\b)",
        r"terminated (?:by|unexpectedly)",
        r"\b(?:job|run|training|process)\b[^;\n]{0,60}\b(?:died|dies)\b(?! (?:in|at|on|during|while|with|right|after)\b)",
        r"workers? (?:\w{1,10} ){0,3}(?:died|dies|dead|exited unexpectedly|crash)",
        r"(?:ended|exited|stopped|died|dies|gone) without (?:any |an )?(?:error|message|reason|trace|traceback)",
        r"host (?:is )?(?:out of memory|ooms?\b)",
        r"shm\b|shared memory",
    ),
    "slow": _compile_patterns(
        r"\bslow(?:er|ly|ness|ed|s|ing)?\b",
        r"(?<!503 )(?<!: )\bslow[ -]?downs?\b",
        rf"\b{_RATE}\b[\w ,'’%()./-]{{0,40}}{_DROP}",
        rf"{_DROP}\w{{0,4}} (?:\w{{1,12}} ){{0,2}}{_RATE}\b",
        r"steps? times?[\w ,'’]{0,30}(?:up|doubl|tripl|increas|higher|grew|grow|longer|worse|climb|jump|went|rose)",
        r"(?:takes?|took|taking) (?:\w{1,10} ){0,2}(?:longer|twice|\d(?:\.\d)?x)",
        r"\b(?:sluggish|crawl(?:s|ing)?|laggy|under-?perform\w*|straggl\w+)\b",
        r"\b\d{1,3} ?%[\w ]{0,20}(?:slower|less|below|of (?:the )?(?:expected|normal|usual|baseline)|drop|lower)",
        r"\b(?:half|third|quarter|fraction) (?:of )?(?:the |its |our )?(?:usual|normal|expected|speed|throughput|rate)",
        r"(?:lower|less|worse|below) than (?:usual|expected|normal|before|yesterday|last|the (?:other|baseline))",
        r"\bthrottl\w+",
        r"(?:not|n['’]?t) (?:as fast|fast enough)",
        r"\d(?:\.\d)? ?x slower",
        r"behind (?:the )?(?:other|baseline|schedule)",
    ),
    "hang": _compile_patterns(
        r"\bhang(?:s|ing)?\b",
        r"\bhung\b",
        r"\bstuck\b",
        r"no (?:more |further |visible )?(?:progress|movement|forward progress)",
        r"not (?:making |make |made )?(?:any )?progress",
        r"(?:stop\w*|without|lack of|quit) (?:making )?(?:any )?progress",
        r"\bfr(?:eez(?:e|es|ing)|ozen|oze)\b",
        r"(?<!re)\bstall(?:s|ed|ing)?\b",
        r"\bwedged?\b",
        r"\bdead-?locks?(?:ed)?\b",
        r"stopped (?:making|printing|logging|advancing|moving|responding|updating|producing|reporting)",
        r"nothing (?:happens|happened|moves|is happening|more (?:is|was) (?:printed|logged))",
        r"no (?:new |more )(?:log|logs|lines?|output|steps?|iterations?|messages?)",
        r"(?:has|have|had|did)(?: not|n['’]?t) (?:moved?|advanced?|progressed|returned|printed|logged)",
        r"never (?:returns?|finish(?:es)?|completes?|comes? back|ends?|moves? on|gets? past|exits?)",
        r"(?:does|do|did)(?: not|n['’]?t) (?:return|finish|advance|move|complete|progress|come back|respond|get past|answer)",
        r"\bunresponsive\b",
        r"\bsits? (?:there|idle|at|on|in)\b",
        r"(?:blocked|waiting|waits|blocks|spinning|spins) (?:forever|for ?ever|indefinitely|endlessly)",
        r"(?:not|isn['’]?t) (?:moving|advancing|responding)",
        r"\bin d state\b",
        r"\bsilence\b",
        r"\b(?:goes|went|gone|going) silent\b",
        r"same (?:step|iteration) for",
    ),
    "init_fail": _compile_patterns(
        r"\binit(?:iali[sz]\w+)?\b[\w ,:'’()-]{0,40}(?:fail|error|crash|abort|dies|problem|broken)",
        rf"{_CANT} (?:even )?(?:\w{{1,12}} ){{0,2}}(?:start|init\w*|come up|launch|begin|boot|get going|set ?up|"
        rf"bootstrap|rendezvous|join)\b",
        r"\b(?:start-?up|launch|bootstrap|rendezvous|set-?up)\b[\w ,]{0,20}(?:fail|error|crash|problem|abort|times? out|timed out)",
        r"(?:fail|crash|die|abort|exit|error|break)\w* (?:right |immediately |straight |directly )?(?:at|on|during|in|while) (?:the )?(?:start\w*|launch\w*|"
        r"init\w*|boot\w*|beginning|rendezvous|first (?:collective|step)|comm(?:unicator)?)",
        r"ncclcomminit",
        r"init_process_group",
        r"unhandled (?:system|cuda) error",
        r"system not yet initiali[sz]ed",
        r"\b(?:error|code) 802\b",
        r"never (?:starts?|gets? off|comes? up|begins?|launch\w*)",
        r"could not select device driver",
        r"cannot allocate memory",
        r"certificate (?:is )?(?:not yet valid|expired)",
        r"name or service not known",
        r"name resolution",
        r"crash\w* (?:immediately|instantly|right away)",
        r"timed out waiting for clients",
        r"info-?rom",
    ),
    "py_exception": _compile_patterns(
        r"\btraceback",
        r"\b[a-z]{3,30}(?:error|exception)\b(?!s? (?:rate|count))",
        r"\bexceptions?\b",
        r"permission denied",
        r"no such file",
        r"no space left",
        r"read-only file ?system",
        r"stack ?trace",
        r"(?:size|shape) mismatch",
        r"undefined symbol",
        r"\b503\b",
        r"disk (?:is )?full",
        r"file not found",
        r"can(?:not|['’]?t) (?:\w{1,10} ){0,2}(?:read|write|open|load|save|import)\b",
        r"(?:checkpoint|import)s?[\w ]{0,30}(?:fail|corrupt|error|broken)",
        r"crash(?:es|ed|ing)? (?:while|when|during) (?:sav|load|writ|read|import|upload|download)\w*",
    ),
    "unreachable": _compile_patterns(
        r"(?<!network is )\bunreachable\b",
        r"\b(?:node|host|instance|target|server|machine)_?down\b",
        r"\bnicht erreichbar\b",
        r"not reachable",
        rf"{_CANT} (?:\w{{1,12}} )?(?:ssh|ping|reach|log ?in|get (?:in)?to)\b",
        r"\bssh\b[\w ,'’]{0,30}(?:fail|time[sd]? ?out|refus|hang|dead|not work|does ?n['’]?t work|drop)",
        r"(?:node|host|machine|server|box)s?\b[\w ,'’-]{0,30}\b(?:down|offline|dead|powered off|not responding|gone)\b",
        r"no (?:ping|ssh|answer)\b",
        r"not[ _]responding",
        r"\bnode_?fail\b",
        r"lost contact",
        r"does(?: not|n['’]?t) answer",
        r"\bdown\*",
        r"\b[a-z][\w.-]{0,80}\d[\w.-]{0,80}[`*>)]{0,2} (?:is |went |are |seems? )?(?:down|offline|dead)\b(?! to| by)",
        r"powered off",
    ),
}

SYMPTOM_CLASSES = (*SYMPTOM_PATTERNS, "vague")

_SIGNATURE_TEXTS: Mapping[str, str] = {
    "nccl_timeout": "nccl_timeout collective_desync rendezvous_timeout",
    "ib_err12": "nccl_ib_error nccl_ib_device",
    "conn_refused": "nccl_connection_refused rendezvous_refused",
    "init_fail": "nccl_init_failed nccl_no_interface nccl_invalid_usage nccl_shm_failed cuda_system_not_initialized memlock name_resolution "
                 "certificate_time too_many_files missing_gpu_runtime gpu_init xid:120",
    "cuda_oom": "cuda_oom",
    "ecc_text": "cuda_ecc_uncorrectable xid:48 xid:63 xid:64 xid:92 xid:94 xid:95 xid:172",
    "no_device": "cuda_no_device cuda_driver_mismatch nvml_unknown_error xid:79 driver_mismatch",
    "invalid_ordinal": "cuda_invalid_ordinal cuda_driver_too_old",
    "cuda_error": "cuda_illegal_access cuda_launch_failure cuda_illegal_instruction cuda_no_kernel_image cuda_devices_busy cublas_failed "
                  "cudnn_not_initialized device_assert xid:13 xid:31 xid:43 xid:45",
    "loss_nan": "loss_nan grad_explodes",
    "killed": "host_killed sigterm crash_signal aborted time_limit cancelled step_unkillable node_failed dataloader_killed dataloader_shm preempted oom_kill",
    "hang": "xid:62 xid:109 xid:119 soft_lockup",
    "py_exception": "python_exception no_space read_only_fs file_not_found permission_denied import_undefined_symbol checkpoint_mismatch "
                    "checkpoint_corrupt service_unreachable storage_throttled",
}  # fmt: skip
SYMPTOM_BY_SIGNATURE: Mapping[str, str] = {signature: symptom for symptom, names in _SIGNATURE_TEXTS.items() for signature in names.split()}


def find_symptoms(prose: str) -> tuple[str, ...]:
    """Return the classes, most specific first."""
    text = prose.lower()
    return tuple(symptom for symptom, pattern in SYMPTOM_PATTERNS.items() if _is_mentioned(pattern, text))


def map_signatures_to_symptoms(signatures: Iterable[str]) -> tuple[str, ...]:
    """Return the classes of error signatures."""
    return tuple(dict.fromkeys(SYMPTOM_BY_SIGNATURE[name] for name in signatures if name in SYMPTOM_BY_SIGNATURE))


def _is_mentioned(pattern: re.Pattern[str], text: str) -> bool:
    return any(not _DENIAL_PATTERN.search(text[max(0, match.start() - 40) : match.start()]) for match in pattern.finditer(text))
