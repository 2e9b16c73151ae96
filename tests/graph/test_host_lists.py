"""Host lists and ranges in everyday spellings, over inventories with different name shapes."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph.extraction.hosts import find_hosts

GPU = tuple(f"gpu-{n:03}" for n in range(1, 25))
PLAIN = tuple(f"gpu{n:03}" for n in range(1, 25))
NODE = tuple(f"node-{row}{n}" for row in "ab" for n in range(1, 13))
RACK = tuple(f"b200-r{rack}-{n:02}" for rack in (6, 7) for n in range(1, 17))
FULL = tuple(f"dgx{n:02}.dc1.example.com" for n in range(1, 25))
BARE = tuple(f"h100n{n}" for n in range(1, 25))
MIXED = (*GPU, "login-01", "login-02", "ctl")


def gpus(*numbers: int) -> tuple[str, ...]:
    return tuple(f"gpu-{n:03}" for n in numbers)


FOUR = gpus(1, 2, 3, 4)

RANGES: Sequence[tuple[Sequence[str], str, Sequence[str]]] = [
    *(
        (GPU, text, FOUR)
        for text in (
            "gpu-001-004 hang",
            "gpu-001-gpu-004 hang",
            "gpu-001 - gpu-004 hang",
            "gpu-1 - gpu-4 hang",
            "gpu-1..gpu-4 hang",
            "gpu-1 to 4 hang",
            "gpu-001–004 hang",
            "gpu-001 — gpu-004 hang",
            "gpu-001..004 hang",
            "gpu-001...004 hang",
            "gpu-001…004 hang",
            "gpu-001 … gpu-004 hang",
            "gpu-001 .. gpu-004 hang",
            "gpu-001~004 hang",
            "gpu-001→gpu-004 hang",
            "gpu-001 -> gpu-004 hang",
            "gpu-001:gpu-004 hang",
            "gpu-001:004 hang",
            "gpu-001 to gpu-004 hang",
            "gpu-001 to 004 hang",
            "GPU-001 TO GPU-004 HANG",
            "Gpu-001 To 004 hang",
            "gpu-001 thru gpu-004",
            "gpu-001 through 004",
            "gpu-001 till gpu-004",
            "gpu-001 til 004 hang",
            "gpu-001 until gpu-004",
            "gpu-001 up to gpu-004",
            "gpu-001 up to and including 004",
            "gpu-001 bis gpu-004 hängen",
            "gpu-001 bis 004 hängen",
            "von gpu-001 bis zu gpu-004 hängt alles",
            "gpu-001 à gpu-004 plantent",
            "de gpu-001 jusqu'à gpu-004",
            "gpu-001 a gpu-004 cuelgan",
            "desde gpu-001 hasta gpu-004",
            "gpu-001 t/m 004",
            "gpu-001 tot en met gpu-004",
            "between gpu-001 and gpu-004 everything hangs",
            "all between gpu-001 and 004",
            "zwischen gpu-001 und gpu-004",
            "`gpu-001` to `gpu-004`",
            "*gpu-001* - *gpu-004* hang",
            "gpu-004 to gpu-001 hang",
            "gpu-[001-004] hang",
            "gpu-[1-4] hang",
            "gpu-[001..004] hang",
            "gpu-00[1-4] hang",
            "gpu-00{1..4} hang",
            "gpu-{001..004} hang",
            "gpu-{001,002,003,004} hang",
            "gpu-[001 - 004] hang",
            "gpu-[001, 002, 003-004] hang",
            "gpu-(001-004) hang",
            "nodes 1-4 hang",
            "nodes 1 to 4 hang",
            "hosts 001 to 004 hang",
            "nodes 1..4 hang",
            "nodes 1, 2, 3 and 4 hang",
            "machines 1/2/3/4 hang",
            "hosts 001, 002, 003 & 004 hang",
            "Knoten 1 bis 4 hängen",
            "nodes #1 - #4",
            "gpu-001/2/3/4 hang",
            "gpu-001/002/003/004 hang",
            "gpu-001, 002, 003 & 004 hang",
            "gpu-001, 2, 3 and 4 hang",
            "gpu-001,002,003,004",
            "gpu-001|002|003|004",
            "gpu-001 002 003 004 hang",
            "gpu-001; gpu-002; gpu-003; gpu-004",
            "gpu-001 und 002 und 003 und 004",
            "gpu-001 + 002 + 003 + 004",
            "gpu-001 as well as 002, 003, and 004",
            "gpu-001,2-4 hang",
            "gpu-001..003,004",
            "gpu-001 to 003 and 004 hang",
            "gpu-001 - 002, 003 - 004",
            "gpu-001 to gpu-003 and also gpu-004",
            "gpu-001-002/003-004 hang",
            "node gpu-001-004 hangs",
            "hosts gpu-001..004",
            "on nodes gpu-001 to 004",
            "gpu-001--004",
            "gpu-001 -- gpu-004",
            "gpu-001-4 hang",
            "gpu-01-04 hang",
            "gpu-001 all the way to gpu-004",
            "gpu-001 bis einschließlich gpu-004",
            "gpu-001 bis inkl. 004",
            "gpu-001, ..., gpu-004",
            "gpu-001, …, gpu-004",
            "gpu-001, -002, -003 and -004 hang",
            "gpu-001 to -004",
            "gpu-00(1-4) hang",
            "gpu-00(1|2|3|4) hang",
            "_gpu-001_ to _gpu-004_",
            "<gpu-001> to <gpu-004>",
            "--hosts gpu-001..004",
            "NodeList=gpu-[001-004]",
            "on gpu-001,gpu-002,\ngpu-003 and gpu-004 it hangs",
        )
    ),
    (GPU, "gpu-[001-003,007] hang", gpus(1, 2, 3, 7)),
    (GPU, "gpu-021 bis gpu-024", gpus(21, 22, 23, 24)),
    (GPU, "gpu-9..12 are slow", gpus(9, 10, 11, 12)),
    (GPU, "gpu-21-24 are slow", gpus(21, 22, 23, 24)),
    (GPU, "nodes 3-6 hang", gpus(3, 4, 5, 6)),
    (MIXED, "nodes 3-6 hang", gpus(3, 4, 5, 6)),
    (GPU, "gpu-020/21/22 hang since 10:04", gpus(20, 21, 22)),
    (PLAIN, "gpu001-gpu004", PLAIN[:4]),
    (PLAIN, "gpu001-004", PLAIN[:4]),
    (PLAIN, "gpu001..gpu004", PLAIN[:4]),
    (PLAIN, "gpu001/2/3", PLAIN[:3]),
    (NODE, "node-a1..a4 hang", NODE[:4]),
    (NODE, "node-a1-a4 hang", NODE[:4]),
    (NODE, "node-a1 to a4 hang", NODE[:4]),
    (NODE, "node-a1 bis node-a4 hängen", NODE[:4]),
    (NODE, "node-a1..4 hang", NODE[:4]),
    (NODE, "node-a01..a04 hang", NODE[:4]),
    (NODE, "node-a01 - node-a04 hang", NODE[:4]),
    (NODE, "node-a9 through a11", NODE[8:11]),
    (NODE, "node-a[1-4]", NODE[:4]),
    (NODE, "node-[a1-a4]", NODE[:4]),
    (NODE, "node-{a1..a4}", NODE[:4]),
    (NODE, "node-[ab]1", ()),
    (NODE, "node-{a,b}1 hang", ("node-a1", "node-b1")),
    (NODE, "node-{a,b}[1-2] hang", ("node-a1", "node-a2", "node-b1", "node-b2")),
    (NODE, "node-a1,a2 and b3", ("node-a1", "node-a2", "node-b3")),
    (NODE, "node-a1/a2/b3", ("node-a1", "node-a2", "node-b3")),
    (NODE, "node-a1,2,3", NODE[:3]),
    (RACK, "b200-r7-01..04 hang", RACK[16:20]),
    (RACK, "b200-r7-01-04 hang", RACK[16:20]),
    (RACK, "b200-r7-1-4 hang", RACK[16:20]),
    (RACK, "b200-r7-01 to 04", RACK[16:20]),
    (RACK, "b200-r7-01 through 03", RACK[16:19]),
    (RACK, "b200-r7-01 to b200-r7-04", RACK[16:20]),
    (RACK, "b200-r7-01 to r7-04", RACK[16:20]),
    (RACK, "b200-r7-03/07/12/15 hang", tuple(RACK[15 + n] for n in (3, 7, 12, 15))),
    (RACK, "b200-r7-03, 7 and 12 hang", tuple(RACK[15 + n] for n in (3, 7, 12))),
    (RACK, "b200-r7-[01-04]", RACK[16:20]),
    (RACK, "b200-r[6-7]-01", (RACK[0], RACK[16])),
    (RACK, "b200-r[6-7]-[01-02]", (*RACK[:2], *RACK[16:18])),
    (RACK, "b200-r6-01/r7-01", (RACK[0], RACK[16])),
    (FULL, "dgx01..dgx04 hang", FULL[:4]),
    (FULL, "dgx01-04 hang", FULL[:4]),
    (FULL, "dgx1-4 hang", FULL[:4]),
    (FULL, "dgx1 - dgx4 hang", FULL[:4]),
    (FULL, "dgx01.dc1.example.com - dgx04.dc1.example.com", FULL[:4]),
    (FULL, "dgx01.dc1.example.com-dgx04.dc1.example.com", FULL[:4]),
    (FULL, "dgx01.dc1.example.com..dgx04.dc1.example.com", FULL[:4]),
    (FULL, "dgx[01-04].dc1.example.com", FULL[:4]),
    (FULL, "dgx01/02/03", FULL[:3]),
    (FULL, "dgx01.dc1.example.com to 04", FULL[:4]),
    (FULL, "nodes 1-4", FULL[:4]),
    (BARE, "h100n1-4 hang", BARE[:4]),
    (BARE, "h100n1-n4 hang", BARE[:4]),
    (BARE, "h100n1 - h100n4", BARE[:4]),
    (BARE, "h100n01..04", BARE[:4]),
    (BARE, "h100n12 to n14", BARE[11:14]),
    (BARE, "h100n9..12", BARE[8:12]),
    (BARE, "h100n[1-4]", BARE[:4]),
    (BARE, "h100n1/2/3", BARE[:3]),
]


@pytest.mark.parametrize(("fleet", "text", "hosts"), RANGES)
def test_a_range_names_its_hosts_however_it_is_written(fleet: Sequence[str], text: str, hosts: Sequence[str]) -> None:
    named = find_hosts(text, fleet, domains=("dc1.example.com",) if fleet is FULL else ())
    assert (named.hosts, named.unknown) == (tuple(hosts), ())


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("between 10:04 to 10:09 all was slow", ()),
        ("gpu-003 hung 10:04 to 10:09", gpus(3)),
        ("gpu-003, 10:04 to 10:09", gpus(3)),
        ("gpu-003 - 10:04", gpus(3)),
        ("gpu-003, 02:40-02:50 UTC", gpus(3)),
        ("gpu-003 02:40", gpus(3)),
        ("gpu-003 to 02:40", gpus(3)),
        ("gpu-003 until 10:30", gpus(3)),
        ("gpu-003 till 8 am", gpus(3)),
        ("gpu-003 until 12h", gpus(3)),
        ("GPUs 0-3 on gpu-001", gpus(1)),
        ("GPU 3/5/7 on gpu-002", gpus(2)),
        ("gpu-002 GPUs 3, 5 and 7", gpus(2)),
        ("gpu-002, GPUs 3-5", gpus(2)),
        ("gpu-002: GPU 3 and 4", gpus(2)),
        ("gpu0-gpu7 on gpu-002", gpus(2)),
        ("gpu0..gpu7 on gpu-002", gpus(2)),
        ("gpu-001 and 2 GPUs are lost", gpus(1)),
        ("gpu-001, 3 GPUs lost", gpus(1)),
        ("gpu-001 - 4 GPUs lost", gpus(1)),
        ("gpu-001 and 3 others", gpus(1)),
        ("gpu-001 and 3 more", gpus(1)),
        ("gpu-001 or 2 times", gpus(1)),
        ("gpu-001, 12 steps in", gpus(1)),
        ("gpu-001, 20 minutes ago", gpus(1)),
        ("gpu-001, 8 x H100", gpus(1)),
        ("gpu-001 and 16 ranks", gpus(1)),
        ("gpu-001 to 70 percent", gpus(1)),
        ("gpu-001 to 12%", gpus(1)),
        ("gpu-001 up to 20 C", gpus(1)),
        ("gpu-001 to 20°C", gpus(1)),
        ("gpu-001, 10 Gb/s", gpus(1)),
        ("gpu-001, 10 of 24", gpus(1)),
        ("gpu-001 0000:1b:00.0", gpus(1)),
        ("gpu-001/0000:1b:00.0", gpus(1)),
        ("gpu-001, 0000:0c:00.0", gpus(1)),
        ("gpu-001 04:00.0", gpus(1)),
        ("0000:01:00.0 to 0000:04:00.0", ()),
        ("driver 535.104..535.129", ()),
        ("gpu-001 535.104 to 535.129", gpus(1)),
        ("gpu-001, 12.4", gpus(1)),
        ("ranks 0 to 7", ()),
        ("ranks 0 to 7 on gpu-001", gpus(1)),
        ("gpu-001 ranks 0-7", gpus(1)),
        ("gpu-001, rank 3 to 5", gpus(1)),
        ("2026-01-03 to 2026-01-09", ()),
        ("gpu-001, 01/02/2026", gpus(1)),
        ("gpu-001, 02-03-2026", gpus(1)),
        ("gpu-001, 12/05", gpus(1)),
        ("gpu-001(8) and gpu-002(8)", gpus(1, 2)),
        ("gpu-001(1-4)", gpus(1)),
        ("gpu-001, -20 C", gpus(1)),
        ("gpu-001=8,gpu-002=8", gpus(1, 2)),
        ("gpu-001 DIMM 3/4", gpus(1)),
        ("batch 003/004 on gpu-001", gpus(1)),
        ("gpu-001's fan 3", gpus(1)),
        ("gpu-001 - 2026-01-03", gpus(1)),
        ("gpu-001 03 Jan", gpus(1)),
        ("gpu-001, 3 May", gpus(1)),
        ("gpu-001/2026/01/02", gpus(1)),
        ("3-5% of steps on gpu-001", gpus(1)),
        ("10.0.0.1 - 10.0.0.9", ()),
        ("gpu-001 10.0.0.1", gpus(1)),
        ("gpu-001, 10.0.0.2", gpus(1)),
        ("gpu-001/24", gpus(1, 24)),
        ("10.0.0.1/24", ()),
        ("gpu-012:22", gpus(12)),
        ("gpu-012:9400", gpus(12)),
        ("http://gpu-012:9400/metrics", gpus(12)),
        ("gpu-012:8080-8090", gpus(12)),
        ("gpu-012[1234]: segfault", gpus(12)),
        ("root@gpu-003:~# nvidia-smi", gpus(3)),
        ("gpu-003:/var/log/004.log", gpus(3)),
        ("gpu-003/004.log", gpus(3)),
        ("ping from gpu-001 to gpu-004 fails", gpus(1, 4)),
        ("the link between gpu-001 and gpu-004 is slow", gpus(1, 4)),
        ("nccl between gpu-001 and gpu-004 fails", gpus(1, 4)),
        ("I moved the job from gpu-001 to gpu-004", gpus(1, 4)),
        ("rsync gpu-001 -> gpu-004 is slow", gpus(1, 4)),
        ("gpu-001 and gpu-004", gpus(1, 4)),
        ("gpu-001. 2 of them", gpus(1)),
        ("gpu-001\n2\n3", gpus(1)),
        ("8 nodes 16 GPUs", ()),
        ("2 nodes 3 GPUs each", ()),
        ("nodes 3-6 GPUs", ()),
        ("nodes 10:04", ()),
        ("nodes 1.2.3", ()),
        ("0-7", ()),
        ("1, 2 and 3", ()),
        ("steps 001-004", ()),
        ("epoch 1..4", ()),
        ("lanes 0/1/2/3", ()),
        ("mlx5_0 to mlx5_3 on gpu-001", gpus(1)),
        ("gpu-001/mlx5_0", gpus(1)),
        ("gpu-001 mlx5_0-mlx5_3", gpus(1)),
        ("eth0..eth3 on gpu-001", gpus(1)),
        ("xid 48, 63 and 79 on gpu-001", gpus(1)),
        ("gpu-001 xid 48/63", gpus(1)),
        ("job 4711 on gpu-001, 4712 too", gpus(1)),
    ],
)
def test_what_is_no_range_of_hosts_names_none(text: str, hosts: tuple[str, ...]) -> None:
    named = find_hosts(text, GPU, domains=())
    assert (named.hosts, named.unknown) == (hosts, ())


@pytest.mark.parametrize(
    ("fleet", "text", "hosts", "unknown"),
    [
        (GPU, "gpu-023 to gpu-026 hang", gpus(23, 24), ("gpu-025", "gpu-026")),
        (GPU, "gpu-023..026 hang", gpus(23, 24), ("gpu-025", "gpu-026")),
        (GPU, "gpu-023-026 hang", gpus(23, 24), ("gpu-025", "gpu-026")),
        (GPU, "gpu-[023-026] hang", gpus(23, 24), ("gpu-025", "gpu-026")),
        (GPU, "gpu-023, 026 hang", gpus(23), ("gpu-026",)),
        (GPU, "gpu-023/026", gpus(23), ("gpu-026",)),
        (GPU, "nodes 23-26 hang", gpus(23, 24), ("gpu-025", "gpu-026")),
        (GPU, "gpu-023 bis gpu-025", gpus(23, 24), ("gpu-025",)),
        (GPU, "gpu-101 to gpu-103 hang", (), ("gpu-101", "gpu-102", "gpu-103")),
        (NODE, "node-a11..a13", NODE[10:12], ("node-a13",)),
        (RACK, "b200-r7-15 to 17", RACK[30:], ("b200-r7-17",)),
        (FULL, "dgx23-25", FULL[22:], ("dgx25",)),
        (BARE, "h100n23..25", BARE[22:], ("h100n25",)),
    ],
)
def test_of_a_range_the_unknown_part_is_named_beside_the_known(
    fleet: Sequence[str], text: str, hosts: tuple[str, ...], unknown: tuple[str, ...]
) -> None:
    named = find_hosts(text, fleet, domains=())
    assert (named.hosts, named.unknown) == (tuple(hosts), unknown)


SPELLINGS: Sequence[Callable[[str, str, str, str], str]] = [
    lambda stem, low, high, domain: f"{stem}{low}..{high}",
    lambda stem, low, high, domain: f"{stem}{low}…{high}",
    lambda stem, low, high, domain: f"{stem}{low} to {high}",
    lambda stem, low, high, domain: f"{stem}{low} through {stem}{high}",
    lambda stem, low, high, domain: f"{stem}{low} bis {stem}{high}",
    lambda stem, low, high, domain: f"{stem}{low}{domain} - {stem}{high}{domain}",
    lambda stem, low, high, domain: f"{stem}{low}{domain} to {stem}{high}{domain}",
    lambda stem, low, high, domain: f"{stem}{low}-{stem}{high}",
    lambda stem, low, high, domain: f"{stem}{low} –{stem}{high}",
    lambda stem, low, high, domain: f"between {stem}{low} and {stem}{high}",
    lambda stem, low, high, domain: f"{stem}[{low.zfill(len(high))}-{high}]{domain}",
    lambda stem, low, high, domain: f"{stem}{{{low}..{high}}}",
    lambda stem, low, high, domain: "/".join([f"{stem}{low}", *(str(n).zfill(len(low)) for n in range(int(low) + 1, int(high) + 1))]),
    lambda stem, low, high, domain: ", ".join([f"{stem}{low}", *(str(n).zfill(len(low)) for n in range(int(low) + 1, int(high) + 1))]),
]
SHAPES = [("gpu-", 3, ""), ("gpu", 3, ""), ("node-a", 1, ""), ("b200-r7-", 2, ""), ("dgx", 2, ".dc1.example.com"), ("h100n", 1, "")]


@given(
    st.sampled_from(SHAPES), st.sampled_from(SPELLINGS), st.integers(1, 23), st.integers(1, 6), st.integers(0, 3), st.booleans(),
    st.sampled_from(["{} hang", "job 4711 on {} is slow since 10:04", "please look at {}.", "({}) NCCL timeout", "*{}* crash"]),
)  # fmt: skip
def test_any_spelling_of_a_range_over_any_shape_of_names(
    shape: tuple[str, int, str],
    spell: Callable[[str, str, str, str], str],
    low: int,
    size: int,
    width: int,
    upper: bool,
    sentence: str,
) -> None:
    """Leading zeros as in the inventory, fewer, or more if it has none."""
    stem, zeros, domain = shape
    fleet = tuple(f"{stem}{str(n).zfill(zeros)}{domain}" for n in range(1, 25))
    width = min(width, zeros) if zeros > 1 else width
    if stem == "gpu" and width < 3:
        width = 3  # gpu1 is a GPU
    high = low + size
    written = sentence.format(spell(stem, str(low).zfill(width), str(high).zfill(width), domain))
    named = find_hosts(written.upper() if upper else written, fleet, domains=("dc1.example.com",))
    assert named.hosts == tuple(fleet[low - 1 : high])
    assert len(named.unknown) == max(0, high - 24)
