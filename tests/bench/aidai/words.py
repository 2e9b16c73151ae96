"""Text around the report's AidAI tables: how settings differ and why figures do. Braces take counted values."""

from typing import Final


def flat(text: str, **counted: object) -> str:
    """Return a paragraph as one line with values filled in."""
    return " ".join(text.split()).format(**counted)


HEAD: Final = """
The paper “AidAI: Automated Incident Diagnosis for AI Workloads in the Cloud” evaluates on {tickets} private tickets out of one year of
Microsoft's clusters, {usual} of them about GPUs, system software or interconnect. Labels came from a model (people agreed on 48 of 50),
GPT-4o answered, scripts ran on real machines, and figures are means of several runs. Here clusters are simulated, every fault comes about
equally often, difficulties are put in on purpose, truth is exact, and a case has several hosts. The model is a frontier model whose answers
were recorded once and for few cases (*recorded* below), so that there is no spread of runs: brackets are 95 % intervals over cases,
Wilson's for shares and bootstrap for F1. **A number of theirs beside one of ours is not the same exam.** What compares are arms on the same
cases, and ratios within one column. B6 is their algorithm built again on our checks and taxonomy; their RCACopilot is B2 here, DID-o1 is B3
and CVD is B4 (B4r where rules conclude in the model's place). TGD has no arm with a model: B5 walks the taxonomy by rules.
"""

MADE: Final = """
Recorded: {few} cases for B6 and B7 ({few_known} with a label that can be known), {many} for B3, B4 and B9 ({many_known}). Made by `python
-m tests.bench.aidai.measure`, version {version} of the benchmark; the hard cases are the first {hard} of the layer, every fault once.{older}
"""

TABLE_3: Final = """
Cumulative shares of what is resolved. Theirs counts tickets, and does not say when one counts as resolved; ours counts cases whose causes
are all named and nothing else. Their history resolves half, for the same GPU faults come back on the same fleet ({recurs} incidents a kind
in the year); our cases are each of a new cluster, and tickets of hard ones say little. Of two causes B6 names one: in {early} of {two}
cases history held for one and the search ended, in the others the walk brought out no second. B6-sage is the same algorithm with a model
that is always right: the most that the design can reach. RackMedic has no tiers: past incidents say where to look first, and looks decide.
"""

TABLE_4: Final = """
*Right before* is the cause named while its label is known; the other columns are the same cases once it is taken out of taxonomy and past
incidents. Theirs is accurate after removal, we take it, where the model still says the cause in its own words; how many tickets a label had
is not said. B8 has no own words: right is to claim none of the labels that are left and to hand over what it saw, harm is to claim
something else. B3 abstains in {silent} of {told} hard and composite cases whose label it knows as well, since their tickets say little, so
its share (and B2's) is no merit. In the last line a reader judged the ideas of the recorded model on texts, without a look at any machine.
The label that is complex to them (a CUDA too new for the driver) is found here while it is known, because versions in image and driver are
looked at and compared. Illegal memory access is filed under the user's code here.
"""

TABLE_5: Final = """
Means of a case. Their prices follow from their tokens at 2.50 and 10 USD a million (GPT-4o) and 15 and 60 (o1-preview), to {dear:.4f} USD;
ours are all at GPT-4o's. Our tokens are four characters each. A call has fewer of them than theirs: recorded answers are terse, and checks
reach the model as typed findings, not as what scripts print. So calls and ratios compare, tokens hardly: B6 costs {ours:.1f} times its CVD
(B4) on the same cases, AidAI {theirs:.1f} times. B6 asks more often than AidAI; one reason is that history ended its search in {early} of
{few} cases only, another that the walk goes down a taxonomy of {leaves} leaves. B9 asks only where rules leave something open. TGD is not
built with a model.
"""

FIGURE_8: Final = """
F1 of causes over recorded cases with a label that can be known (layers hard, composite and wild). Of theirs there is what the text says,
with the accuracy of Figure 3 where it gives one; dashes stand in the picture alone, and the level at which labels are compared is not said.
Alike: one call on the ticket, with or without retrieval, falls far behind whoever looks at machines. Unlike: to run everything and ask once
does well here (B4), where CVD has the macro F1 of a single call; we think because what checks print is read into findings before a model
sees it, and because our checks were written for the faults that are simulated. B6 has single causes right and misses second ones (Table 3).
{twins} of the {many} cases are twins of wild ones whose deciding look fails: to abstain and name that look is right there; only B8 and B9
say so ({named} of {twins}), while B4 names the cause from the ticket and the rest in {guessed} of {twins}. On all these cases B9 has
{gained} right that B8 has not, and {lost} the other way. A number in brackets behind an arm is of its cases where the recording lacks some.
"""

FIGURE_9: Final = """
Theirs is what one run solved of each category, from the tickets of §6.1 and the unsolved ones of §6.5; its precision, recall and F1 stand
in the picture alone. Ours are precision / recall / F1 at the cause, and of how many causes; the last column is micro F1 at three levels
over cases whose first cause is of the category. AidAI is weakest at errors of users and at system software; it says that tickets come from
the provider's side and carry messages of its tools. RackMedic reads the job's log, environment and versions like it reads a GPU, and
tickets were made to blame the innocent in every category alike, so there is no such reason here. Few causes a category: intervals are wide.
"""

FIGURE_10: Final = """
Seconds from the first look to the last, mean of a case. Theirs are of scripts on one real machine; ours are by the simulator's clock, on
which a check takes what we believe it takes, the hosts of a case side by side. Only *of CVD* compares. B6 takes a larger part of CVD than
AidAI does: its history seldom ends the search here, and it walks every branch that the model lets stand; with a model that prunes as if it
knew (B6-sage) it is far below. B5 ends at the first cause that is proven, where TGD explores on. B8 and B9 take all looks that disturb
nobody at once, keep them for every idea, and run tests that take a GPU for themselves only where something is still open; AidAI runs
scripts one by one and again for each sibling.
"""

FIGURE_11: Final = """
Theirs: {theirs}. Ours: {whole} published incidents as `kb build` labels them by the recorded model ({answered} answered, {labels} labels
met; {new} new to the taxonomy of {leaves}, which was written knowing them). Of these {dated} carry a date, so that there are no months: the
table is the mean over all orders in which they could have come. They were each chosen for being a story of its own and are of no one fleet,
so new labels thin out slowly; that says nothing of how soon a site's own would. For an export with dates `kb build` draws the figure by
month.
"""

FIGURE_12: Final = """
Theirs: {theirs}. No second model was recorded on our cases, so there is no such comparison. What can be measured without one is how far any
model could move a design: one that says the truth at every question, and one that says the opposite; both are models in name only. One that
is always right makes AidAI's design right in {theirs_right} of {hard} hard cases and RackMedic in {ours_right}, which has {alone} right
without any: RackMedic names what looks prove, whatever a model says, for better (one that is always wrong leaves {liar} right) and for
worse. AidAI's design with a model that is always wrong was not run.
"""

LEFT_OUT: Final = (
    "The spread over several runs (error bars of Figure 8): one recording was made.",
    "TGD with a model: there is no such arm; B5 stands in its place, by rules.",
    "Own words after removal (Table 4) on simulated clusters: nobody has judged ideas there.",
    "B6 on more than these cases: nobody has recorded it; its shares are of few cases and say only what is large.",
    "Other models (Figure 12) and months (Figure 11).",
)
