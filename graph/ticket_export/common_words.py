"""Common words, which may leave a site. No name of a model, a data set or a private program is among them."""

from typing import Final

from graph.dialogue.real_words import REAL

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
