"""Replace private names in exported text by signatures; only common and public words pass. Pure."""

import hashlib
import hmac
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from graph.dialogue.real_words import REAL
from graph.ticket_export.document import PseudonymKind
from kb.redact import redact_start
from tools.inventory.host_ranges import BadRange, expand_host_range

# Common words, which may leave a site. No name of a model, a data set or a private program is among them.

_EXTRA_COMMON_WORDS: Final = """
a able abort aborted aborting aborts about above absent accelerator accept accepted access according across active actual adapter add added
address after again against ago ahead algorithm alive all alloc allocate allocated allocation allocator allow allreduce allgather almost alone
already also although always am amount an and another any anything apart appears application apply architecture are argument arguments around
arrived as aside ask asked assert assertion assertionerror assertion_failed at attempt attempted attribute attributeerror autograd available average away async
back backend backends backward bad balance bandwidth barrier base based batch be became because become been before began begin behind being below
beside best better between big bit block blocked boot booted both bound boundary broadcast broken buffer bug build built bus busy but by byte
bytes c++ cable cache call called caller calls came can cannot card case caught cause caused certain changed channel channels check checked
checkpoint checkpoints child chunk clean clear client clock close closed cluster code collective collectives come comm command comms
communicator compile compiled complete completed completion compute condition config configuration connect connected connecting connection
connectionreseterror contact container context continue control controller copy core cores correct corrupt corrupted could count counter
cpu crash crashed crashes create created creating critical current currently cuda cudnn cublas cycle
daemon data dataloader dataset day days dead deadlock debug default defined delay delete deleted denied dependency depth detail details
detected device devices did died differ different dimension directory disabled disconnect disconnected disk distributed do does
done double down driver drop dropped drops due dump during duration
each earlier early ecc either elapsed elastic element empty enable enabled end ended endpoint engine enough ensure entire entry environ
environment epoch equal errno error errors eth even event ever every everything exact exceeded except exception exceptions exec execute
executed exhausted exist exists exit exitcode exited exits expected experiment expired export external extra
fabric fail failed failing fails failure failures fallback false far fast faster fatal fault fetch few field file filenotfounderror files
filesystem filled final finally find fine finish finished finite first fix flag floating flow flush follow following for force forever fork
format forward found frame free freed freeze frequency fresh from frozen full function further
gather gave get gets getting give given gives global go goes going gone good got gpu gpus gradient gradients graph graphics great group
groups grow had half halt handle handled handler happen happened hard hardware has hash have having he header health healthy heap hello
help hence her here hidden high higher him his hit hold home hook hooks host hostname hosts hot hour hours how however hung
i id identical idle if ignore ignored illegal image images immediately import importerror improper in include including incomplete
incorrect increase increased index indexerror infiniband info information init initial initialization initialize initialized initializing
inner input inputs inside install installed instance instead int intel interface internal interrupt interrupted into invalid io is issue
it item iteration iterations its itself job jobs join joined just keep keepalive kept kernel kernels key keyerror keys kill killed kind
know known label lane large largest last late latency later latest launch launched launcher layer layers lead least left len length less
let level libc library like likely limit limits line lines link linked links list listen listening little live load loaded loader loading
local localhost lock locked log logging logger logs long longer look looked looks loop lose loss lost lot low lower machine machines made main
make makes manager manual many mapped mapping mask master match matching matrix max maximum may me mean means measured mem memory memoryerror
message messages meta method metric metrics might min minimum minute minutes misaligned mismatch missing mode module modulenotfounderror moment monitor more
morning most mount mounted move much multi multiple must my name named nan nans native nccl near need needed needs negative network never new
next nic nics night no node nodes non none nor normal not note nothing notice now null number numbers nvidia nvlink nvswitch
object occurred of off offset often ok old on once one ones only onto oom op open opened operation operations operator ops optimizer option
options or order original os oserror other others our out outer output outside over overflow overlap own packet packets page pages pair
pairs parallel parameter parameters parent part partial parts pass passed past path pci pcie peer peers pending people per perhaps permission
permissionerror person persistent phase physical pid pin pinned pipe pipeline place please plug plus point pointer policy pool port ports
position possible power pre precision prefix present previous print printed probably problem process processed processes processgroup
processing producer profile program progress propagate protocol proxy put python pytorch quarter queue queued quick quiet quit quite raise
raised random range rank ranks rate rather ratio raw rdma reach reached reaches read reading ready real really reason reboot rebooted receive
received recent recently reconnect recover recovered recovery recv redacted reduce reference refused register registered related release
reliable reload remain remaining remote remove removed rendezvous repeat repeated replace replaced replica report reported request requested
require required reset resolve resource response rest restart restarted restarting result results resume retried retries retry retrying
return returned returns right ring roce root round row run running runs runtime runtimeerror safe same sample samples save saved saving say
says scale schedule scheduled scheduler scope search second seconds section see seed seem seems seen segfault segmentation select self send
sender sending sent sequence server service session set sets setting settings setup several shape shapes shard shards share shared she shell
should show shown shows shut shutdown side sigabrt sigbus sigkill sigsegv sigterm signal similar simple since single size sizes sleep slow slower
small so socket software some somebody something sometimes soon source space specified speed spike split stack stage stale stall stalled
stalls standard start started starting starts startup state stats status step steps still stop stopped stops storage store stored stream
string strong stuck stuff style subnet success successful successfully such suddenly sum support supported sure switch sync synchronize
system systemd table take taken takes talk target task tasks tcp tcpstore team tell temperature temporary tensor tensors terminate terminated
terminating test tested than thank thanks that the their them then there thermal these they thing things think this those though thread
threads three threshold through throughput throw thrown thus ticket time timed timeout timeouterror times timestamp tls to today together
token tokens tokenizer told too took tool top topology torch torchrun total trace traceback train trained trainer training transfer transport
tree tried trigger triggered true truncated try trying tuning turn twice two type typeerror types unable unavailable uncaught uncorrectable
under undefined underlying unexpected unhandled unhealthy unit unknown unless unlimited unreachable unrecoverable unset unsupported until up
update updated upgrade upgraded upon us usage use used useful user using usual utilization valid validate validation value valueerror values
vector verify version versions very via view virtual visible volatile wait waited waiting waits want wanted warm warn warning warnings was
watchdog way we week weight weights well went were what when where whether which while who whole why will window with within without
word words work worked worker workers working works world worse worst would write writes writing written wrong year yes yesterday yet you your
zero zone
two four five seven eight nine ten middle showed stood racks disks communication resets monitoring ends drivers losing mb kb gb tb cloud inference
serving unusable
hundreds anywhere logged chosen poor sensors time-out
nccl_error ncclsystemerror ncclinternalerror ncclremoteerror ncclunhandledcudaerror ncclinvalidusage cuda_error cudaerror
processgroupnccl workncl worknccl opttype seqnum numelin numelout timeoutms torch.distributed torch.cuda c10d std::runtime_error what() err
kern syslog nvrm nccl unspecified warn fatal debug info trace error hi hello slurm srun sbatch scontrol slurmstepd mpirun mpi docker kubelet kubernetes pod pods
'be' 'do' 'get' 'have' 'in' 'is' 'let' 'make' 'need' 'now' 'on' 'put' 'to' 'want' 'work' ME a_bit abilities abnormal action actions actually
addition additional additionally advice advisable advise affected afresh afternoon ah ai aisle alarm alert allowed alright altered amazing
analysis answer answering answers anybody anyone anyway apparently appreciate appreciated approval approvals approve approved approves approving
archive assign assigned assignee assuming attach attached attachment authorise authorised authorize authorized awake awesome basically basis bay
beeping believe benchmark bios blame blinking bold boss bosses bot bounce box boxes break brief briefly brilliant bring broaden broke buddy
bumped busbw butt button bye cage cancel canceled canceling cancelled cancelling capabilities capable cards care carry cases cat catch causes
cease center ceo change changelog changes charge chart chassis chatgpt cheat cheatsheet checking checks cheers chief chronological chronology
ciao claim clarify claude cleaned cleanup click closing clusters colleague colleagues comes commander commands commenting compare compared
compares comparison complain complained complaining complains concentrate concerning conclude concluded conclusion confidence confident configure
confirm confirmed confirming confirms consequence consequences consider considered continues convinced cool cordon cost couple course cover
crashing cto culprit cured curve curves customer customers cut cya cycled cycling danger dangerous danke datacenter dc deal dealing decision
decline declined deduce degraded deja delegate delivery dell deny deployed desist diag diagnosing diagnosis diagnostic diagnostics diagram die
dies diff difference differences differently differs digest digging dimm director disable disappeared disapprove discard discarded dismissed
display distinguish distinguishes disturb doing domain downgraded download dr draft drain drained draining draw drawing drawn driving dying
easiest effect effects elaborate eliminate eliminated else encounter encountered engineer english entail erors erroring escalate escalating
escalation eta etc evening events everyone everywhere evidence exactly examine excellent excerpt exclude excluded excluding exclusively execs
executes executive executives expand experiencing expert explain explanation extend face faced fact fair fan fantastic fastest faulty features
fellow fiddling finding findings finetuning fire firmware fixed flap flapping flaps fleet focus folks forget freezes friday froze functional
funny fyi general generally gist gm gn goodbye gpt grab gracias granted graphically grateful green greenlight greetings grounds guess guilty guys
haha hahaha hand handles handling handoff handover hands hang hanging hangs happening happens happy harm harmful head healed heat heatmap heh
hehe helped helpful helping helps hero hey history hiya hm hmm holding honest honestly hope hopefully horses howdy hpe human hunt hunting hurt
hush idea ill impact impacted impressive improve improved improvement inaccurate incident incidents indicates inspect instructions interesting
inventory investigate investigating investigation involve involved isolate issues jira joke journal joy jump justify keeps kick killing kindly
knew knock kudos lately layman leadership leave led legend lenovo lets lgtm lifesaver light llm lmao lol looking loses love lovely lowered luck
magic maintenance man management managers manufacturer map mark mate maybe meanwhile meddling mend mended merci messaging messing mgmt midnight
migrated mine mins misdiagnosed misdiagnosis mistake mistaken model modified modprobe monday month months mortem moved moves mute myself narrow
neat necessary neighbors neighbours neither news nice nicely nonsense noon nope nosing notifications notifying nutshell occur occurring occurs
odd oem offender offline oh okay oncall online optic optics ought ours outage outlier outliers outputs overall overheating overnight overview
owner owning owns pack panic panicked partition partner party passes passing paste patched pause perfect perform performance permissions
permitted persisting persists pick picked picking picture ping pinging plain plan play plot plugged png poking positive possibly post posting
postmortem posts powercycle precedent precedents press previously printout prior probe problematic problems proceed prodding production proof
propose proposed props prove proven proves provided psu pull pulling push pushed quarantine question quickest quickly quorum rack rackmedic ran
rationale re reachable reactivate readings reasoning reasons reassess reassign rebooting rebuild recabled recap recheck reckon recommend
recommendation recommended reconfigured recurrence recurring red reenable reexamine refresh regarding reimaged reject rejected relaunch relevant
reloaded reloading remains remedied remedy reopen repair repaired repeatedly replacement replacements replacing replugged reply replying
reporting reports requeue reread rerouted rerun rescan rescheduled reseat reseated reseating resetting resolved respond responding responsible
restore restrict restricted resubmit resubmitted reuse reverse revert reverted rid rights riser risk risks risky rma robot rock rofl roll
rollback rolled room rotation roughly rubbish rule ruled sadly safely said sane saturday saver scan scancel scanning screenshot searching seeing
sees segfaults servers servicenow shall sheet ship shipment shoes short shorten shush siblings sick sign silence silent sitrep situation skip
smart smoking snippet snooze solely solution solve solved someone somewhere sorry sort sorted sounds spamming spare spares specialist sre
stakeholder stakeholders stand standing stands stay stderr stdout stick strange submit suggest suggested suggestion suggestions suggests
summaries summarise summarised summarize summary sunday super superb supermicro supervisor supplier suppliers suppose sureness suspect suspected
suspicious swap swapped swapping sweet switched tail taking talking tap taxonomy teams technical technician technicians tenants tests text
therefore third throttled throttling thumbsdown thumbsup thursday tickets tightened till timeline timelines timeouts tinkering tl tldr tomorrow
tonight touch touched touching transceiver trees trick trouble tuesday turned turns txt uh um unaffected unchanged unclose uncordon understand
understood undo undoing undrain unfixed unfortunately unlike unlock unplug unplugged unplugging unresolved unresponsive unusual updates updating
upload upper usable users vendor vendors verb verdict versus veto visual visualise visualize vp vs vu walk watch wednesday weekend weeks weird
welcome whats whenever whom whose widen wider wise wonder wonderful wondering workaround workload worth wrap writeup years yo yours yourself
"""
COMMON_WORDS: Final = REAL | {*_EXTRA_COMMON_WORDS.split()}


# Replace private names in exported text by signatures; only public words pass. Pure.
#
# A text is split into chunks. A chunk passes as a number, as a device or host in question, or if RackMedic's public
# tables contain it. Everything else (paths, models, data sets, scripts, people, addresses) becomes `~` and twelve hex
# digits of HMAC-SHA256 under the site's salt, so that unforeseen names stay private, too.

SIGNATURE_HEX_DIGITS = 12
MAX_TEXT_CHARS = 4000  # Characters read per text.
_CHUNK_PATTERN = re.compile(r"[^\s\"'`(){}\[\]<>,;|=!?*\\]+")
_RANGE_PATTERN = r"[A-Za-z][\w.-]{0,40}\[\d[\d,-]{0,80}\][\w.-]{0,40}"
_PIECE_PATTERN = re.compile(rf"(?P<range>{_RANGE_PATTERN})|{_CHUNK_PATTERN.pattern}")
_EDGE_CHARS = ".:-+"
_INNER_PATTERN = re.compile(r"[^:@]+")
_PUBLIC_SHAPE_PATTERN: Final = re.compile(
    r"""(?ix:
      [+-]?\d+(?:\.\d+){0,2}(?:%|[kmgt]i?b(?:/s)?|[kmg]hz|gt/s|gb/s|ms|us|ns|s|m|h|d|w|c|x|th|nd|rd|st)? # numbers and their units
    | \d+x                                                        # of a template
    | \d{1,4}[-/]\d{1,2}[-/]\d{1,4}(?:t\d{1,2})?                  # days
    | t?\d{1,6}(?:\.\d{1,9})?(?:[+-]\d{2})?z?                      # parts of a time
    | rank\d{1,5}
    | 0x[0-9a-f]{1,16}
    | ~[0-9a-f]{12}                                               # what was signed already
    | [0-9a-f]{2,8}\.[0-9a-f]                                     # the end of a PCI address
    | (?:gpu|nv|sm_|compute_|nvme|sd[a-z]|eth|ib|mlx[45]_|nvswitch|numa|cpu|dimm|psu|fan|xid|sxid|cuda|cu|rc)
      \d{1,3}(?:[a-z_]\d{1,3}){0,2}                               # devices and their numbers
    | gpu-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}             # the UUID of a GPU
    | v?\d+(?:\.\d+){1,2}(?:[+-](?:cu|cuda|rc)\d*(?:\.\d+)?){0,2}    # versions
    | \d+(?:\.\d+){2}(?:-\d+){1,2}(?:-(?:generic|nvidia|nvidia-64k|aws|azure|gcp|oracle|amd64|cloud-amd64|lowlatency))?  # of kernels
    | [0-9a-f]{2}(?:\.[0-9a-f]{2}){4}                              # of a VBIOS
    )"""
)
_BDF_PATTERN = re.compile(r"(?i)\b(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?\b")
# Tried in this order; `other` if none matches.
_KIND_PATTERNS: Mapping[PseudonymKind, re.Pattern[str]] = {
    "model": re.compile(r"(?i)\.(?:safetensors|ckpt|pt|pth|onnx|gguf)$|(?:^|[-_/])\d+(?:x\d+)?b(?:$|[-_/])|checkpoint|model"),
    "data": re.compile(r"(?i)\.(?:parquet|jsonl?|csv|tar|zst|arrow|tfrecord|idx|bin|mds)$|data"),
    "code": re.compile(r"(?i)\.(?:py|sh|cu|cpp|cc|h|so|ya?ml|toml|sif|sqsh)(?:$|\.\d)|[a-z0-9]/[a-z0-9].*|\w\.\w"),
}


def collect_public_chunks(texts: Iterable[str]) -> frozenset[str]:
    """Return the lower-case chunks of public texts, and common words."""
    pieces = (piece for text in texts for chunk in _CHUNK_PATTERN.findall(text) for piece in (chunk, *_INNER_PATTERN.findall(chunk)))
    return frozenset(word for piece in pieces if (word := piece.strip(_EDGE_CHARS).lower())) | COMMON_WORDS


@dataclass(frozen=True)
class Pseudonymizer:
    """Prepares one incident's texts for export.

    `public`: public chunks. `hosts`: those in question, by the site's names. `names`: learnt names of the workload,
    signed even if public.
    """

    salt: bytes
    public: Collection[str]
    hosts: Collection[str] = ()
    names: Collection[str] = ()

    def pseudonymize_text(self, said: str, most: int = 400) -> str:
        """Return the text with private names signed, on one line of at most `most` characters."""
        pieces: list[str] = []
        room = most
        for piece in self._iter_pieces(said):
            room -= len(piece)
            if room < 0:
                pieces.append("…" if room + len(piece) > 0 else "")
                break
            pieces.append(piece)
        return "".join(pieces).strip()[:most]

    def pseudonymize_name(self, said: str, most: int = 80) -> str:
        return self.pseudonymize_text(said, most) if self._is_public(said) or not said else self.sign_name(said)

    def sign_name(self, name: str) -> str:
        digest = hmac.new(self.salt, name.casefold().encode("utf-8", "replace"), hashlib.sha256).hexdigest()
        return f"~{digest[:SIGNATURE_HEX_DIGITS]}"

    def find_signatures(self, texts: Iterable[str]) -> dict[str, PseudonymKind]:
        """Return signature → kind for every private name in these texts."""
        signatures: dict[str, PseudonymKind] = {}
        for text in texts:
            for chunk in _split_chunks(text):
                signatures |= {self.sign_name(name): guess_name_kind(name) for name in self._list_hidden_names(chunk)}
        return signatures

    def _iter_pieces(self, said: str) -> Iterator[str]:
        text = " ".join(redact_start(said, MAX_TEXT_CHARS).split())
        at = 0
        for match in _PIECE_PATTERN.finditer(text):
            yield _keep_ascii(text[at : match.start()])
            yield (
                match[0]
                if match["range"] and self._is_own_range(match[0])
                else self._pseudonymize_range(match[0])
                if match["range"]
                else self._pseudonymize_chunk(match[0])
            )
            at = match.end()
        yield _keep_ascii(text[at:])

    def _pseudonymize_range(self, text: str) -> str:
        """Treat brackets with other hosts as plain text."""
        return _CHUNK_PATTERN.sub(lambda found: self._pseudonymize_chunk(found[0]), text)

    def _is_own_range(self, text: str) -> bool:
        try:
            return {name.lower() for name in expand_host_range(text)} <= self._hosts
        except BadRange:
            return False

    def _pseudonymize_chunk(self, chunk: str) -> str:
        if self._is_public(chunk):
            return chunk
        body = chunk.strip(_EDGE_CHARS)
        before, after = chunk[: chunk.find(body)] if body else "", chunk[chunk.find(body) + len(body) :] if body else chunk
        if "/" in body or "@" in body or ":" not in body:
            return f"{before}{self.sign_name(body)}{after}" if body else chunk
        return before + ":".join(part if not part or self._is_public(part) else self.sign_name(part) for part in body.split(":")) + after

    def _list_hidden_names(self, chunk: str) -> list[str]:
        body = chunk.strip(_EDGE_CHARS)
        if not body or self._is_public(chunk):
            return []
        if "/" in body or "@" in body or ":" not in body:
            return [body]
        return [part for part in body.split(":") if part and not self._is_public(part)]

    def _is_public(self, chunk: str) -> bool:
        body = chunk.strip(_EDGE_CHARS)
        lower = body.lower()
        if not body or lower in self._hosts:
            return True
        if lower in self._names or not body.isascii():
            return False
        host, _, device = lower.partition("/")
        if device and host in self._hosts:
            return self._is_public(device)
        if _PUBLIC_SHAPE_PATTERN.fullmatch(body) or _BDF_PATTERN.fullmatch(body) or lower in self.public:
            return True
        return ":" in body and "@" not in body and "/" not in body and all(self._is_public(part) for part in body.split(":") if part)

    @cached_property
    def _hosts(self) -> frozenset[str]:
        return frozenset(name.lower() for name in self.hosts)

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(name.lower() for name in self.names if name)


def _keep_ascii(between: str) -> str:
    return "".join(char for char in between if char.isascii())


def _split_chunks(text: str) -> list[str]:
    return _CHUNK_PATTERN.findall(" ".join(redact_start(text, MAX_TEXT_CHARS).split()))


def guess_name_kind(name: str) -> PseudonymKind:
    return next((kind for kind, look in _KIND_PATTERNS.items() if look.search(name)), "other")
