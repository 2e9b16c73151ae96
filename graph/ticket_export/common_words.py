"""Common words, which may leave a site. No name of a model, a data set or a private program is among them."""

from typing import Final

from graph.dialogue.real_words import REAL
from graph.dialogue.words import IDEAS, NEUTRAL, WEAK

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
"""
COMMON_WORDS: Final = frozenset(
    {word for idea_words in IDEAS.values() for phrase in idea_words.split() for word in phrase.split("_")}
    | NEUTRAL
    | WEAK
    | REAL
    | {*_EXTRA_COMMON_WORDS.split()}
)
