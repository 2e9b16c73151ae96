"""Names and the network: resolvers, /etc/hosts, routes, neighbours, interfaces, and what is between us and a node."""

from functools import partial

from tests.real.breakages.breakage import Breakage, Step, on_one_host

ADDRESS_OF = "$(getent hosts {} | cut -d' ' -f1)"
DNS = ("INTERCONNECT.ETH.DNS_Failure", "*Resolver*", "*Name_Resolution*")
NAMES = ("base.*", "peer.*", "names.*", "net.*", "dns.*", "probe.*")
ROUTE = ("*Route*", "*Blackhole*", "*Unreachable*Peer*", "INTERCONNECT.ETH.Rendezvous_Port_Blocked")
KEEP, RESTORE = "cp -p {0} /root/keep.file", "cat /root/keep.file > {0}; rm /root/keep.file"


_of = partial(on_one_host, facts=NAMES)

NETWORK = (
    _of(
        "names",
        "resolver-dead",
        "gpu-002",
        "pip and hf download sit there forever on gpu-002",
        (
            "printf 'nameserver 192.0.2.53\\noptions timeout:2 attempts:2\\n' > /etc/resolv.conf",
            ": > /etc/resolv.conf",
            "grep -q 192.0.2.53 /etc/resolv.conf",
        ),
        DNS,
        tier=2,
        kind=9,
    ),
    _of(
        "names",
        "names-from-dns-only",
        "gpu-001",
        "gpu-001 can't find ctl or anybody else",
        (
            f"{KEEP.format('/etc/nsswitch.conf')} && sed -i 's/^hosts:.*/hosts: dns/' /etc/nsswitch.conf",
            RESTORE.format("/etc/nsswitch.conf"),
            "grep -qx 'hosts: dns' /etc/nsswitch.conf",
        ),
        DNS,
    ),
    _of(
        "names",
        "wrong-address-in-hosts",
        "gpu-001",
        "2 node job on gpu-001 and gpu-002 hangs in init, each one alone is fine",
        (
            f"{KEEP.format('/etc/hosts')} && sed 's/^\\([0-9.]*\\)\\.[0-9]* gpu-002$/\\1.212 gpu-002/' /root/keep.file > /etc/hosts",
            RESTORE.format("/etc/hosts"),
            "grep -q '212 gpu-002' /etc/hosts",
        ),
        (*DNS, "*Hosts_File*", "*Etc_Hosts*"),
        kind=9,
    ),
    _of(
        "names",
        "own-name-is-loopback",
        "gpu-003",
        "gloo connectFullMesh failed on gpu-[001-003]",
        (
            f"{KEEP.format('/etc/hosts')} && sed '1i 127.0.1.1 gpu-003' /root/keep.file > /etc/hosts",
            RESTORE.format("/etc/hosts"),
            "grep -q '^127.0.1.1 gpu-003' /etc/hosts",
        ),
        ("INTERCONNECT.ETH.Hostname_Resolves_To_Loopback", "*Hosts_File*", "*Etc_Hosts*"),
    ),
    _of(
        "names",
        "host-name-changed",
        "gpu-002",
        "monitoring lost gpu-002 after the maintenance, the box is there",
        ("hostname gpu-02", "hostname gpu-002", "test $(hostname) = gpu-02"),
        ("*Host_Name*", "*Hostname*"),
    ),
    _of(
        "network",
        "blackhole-route",
        "gpu-001",
        "gpu-001 and gpu-002 don't see each other, both ping the head node",
        (
            f"ip route add blackhole {ADDRESS_OF.format('gpu-002')}/32",
            f"ip route del blackhole {ADDRESS_OF.format('gpu-002')}/32",
            "ip route | grep -q blackhole",
        ),
        ROUTE,
        tier=2,
        kind=9,
    ),
    Breakage(
        id="default-route-missing",
        area="network",
        kind=9,
        report="no internet on gpu-002",
        at_fault="gpu-002",
        do=(Step("gpu-[001,003]", f"ip route add default via {ADDRESS_OF.format('outside')}"),),
        undo=(Step("gpu-[001,003]", "ip route del default"),),
        sign=Step("gpu-001", "ip route | grep -q default"),
        causes=ROUTE,
        facts=NAMES,
    ),
    _of(
        "network",
        "mtu-too-small",
        "gpu-003",
        "big messages hang as soon as gpu-003 is in, small ones pass",
        (
            "ip link set eth0 mtu 1280",
            "ip link set eth0 mtu 1500",
            "grep -qx 1280 /sys/class/net/eth0/mtu || ip link show eth0 | grep -q 'mtu 1280'",
        ),
        ("INTERCONNECT.ETH.MTU_Mismatch",),
    ),
    _of(
        "network",
        "loopback-down",
        "gpu-002",
        "tensorboard and jupyter dead on gpu-002, localhost refuses",
        ("ip link set lo down", "ip link set lo up", "! ip link show lo | grep -q LOOPBACK,UP"),
        ("*Loopback_Down*", "*Interface*Down*"),
    ),
    _of(
        "network",
        "wrong-neighbour",
        "gpu-001",
        "gpu-001 can't reach gpu-003 but everybody else can",
        (
            f"ip neigh replace {ADDRESS_OF.format('gpu-003')} lladdr 02:00:00:00:00:99 dev eth0 nud permanent",
            f"ip neigh del {ADDRESS_OF.format('gpu-003')} dev eth0",
            "ip neigh | grep -q 02:00:00:00:00:99",
        ),
        (*ROUTE, "*Neighbour*", "*Arp*"),
    ),
    Breakage(
        id="few-local-ports",
        area="network",
        report="cannot assign requested address on gpu-003 after a while",
        at_fault="gpu-003",
        do=(Step("gpu-003", "echo '32768 32800' > /proc/sys/net/ipv4/ip_local_port_range", outside=True),),
        undo=(Step("gpu-003", "echo '32768 60999' > /proc/sys/net/ipv4/ip_local_port_range", outside=True),),
        sign=Step("gpu-003", "grep -q 32800 /proc/sys/net/ipv4/ip_local_port_range", outside=True),
        causes=("*Port_Range*", "*Sysctl*"),
        facts=NAMES,
    ),
    Breakage(
        id="host-key-changed",
        area="login",
        kind=4,
        tier=2,
        report="gpu-003 doesn't answer the tools since last night",
        at_fault="gpu-003",
        do=(
            Step(
                "gpu-003",
                "mv /etc/ssh/ssh_host_ed25519_key /etc/ssh/ssh_host_ed25519_key.pub /root/ && "
                'ssh-keygen -q -t ed25519 -N "" -f /etc/ssh/ssh_host_ed25519_key && systemctl restart ssh',
            ),
        ),
        undo=(Step("gpu-003", "mv /root/ssh_host_ed25519_key /root/ssh_host_ed25519_key.pub /etc/ssh/ && systemctl restart ssh"),),
        sign=Step("gpu-003", "test -e /root/ssh_host_ed25519_key"),
        causes=("*Host_Key*",),
        facts=("host.key*", "ssh.*"),
    ),
    Breakage(
        id="sshd-stopped",
        area="login",
        report="can't log in to gpu-001, ping works",
        at_fault="gpu-001",
        do=(Step("gpu-001", "systemctl stop ssh"),),
        undo=(Step("gpu-001", "systemctl start ssh"),),
        sign=Step("gpu-001", "! systemctl is-active -q ssh"),
        causes=("OTHER.INFRA.Node_Unreachable", "*Sshd*", "*Login*", "*.Service_*"),
        facts=("host.reachable", "ssh.*"),
    ),
    Breakage(
        id="link-down",
        area="login",
        report="gpu-002 is gone",
        at_fault="gpu-002",
        do=(Step("gpu-002", "ip link set eth0 down"),),
        undo=(Step("gpu-002", "ip link set eth0 up; systemctl restart slurmd"),),
        sign=Step("gpu-002", "! ip link show eth0 | grep -q ',UP'"),
        causes=("OTHER.INFRA.Node_Unreachable",),
        facts=("host.reachable",),
    ),
    Breakage(
        id="login-refused",
        area="login",
        report="is gpu-001 ok? the tools can't get in but I can",
        at_fault="gpu-001",
        do=(Step("gpu-001", "chmod 777 ~rackmedic/.ssh"),),
        undo=(Step("gpu-001", "chmod 700 ~rackmedic/.ssh"),),
        sign=Step("gpu-001", "test $(stat -c %a ~rackmedic/.ssh) = 777"),
        causes=("*Login_Refused*",),
        facts=("ssh.*",),
        unobserved=("*",),
    ),
    Breakage(
        id="sudo-broken",
        area="login",
        report="gpu-002: sudo stopped working after the puppet run",
        at_fault="gpu-002",
        do=(Step("gpu-002", "chmod 666 /etc/sudoers"),),
        undo=(Step("gpu-002", "chmod 440 /etc/sudoers"),),
        sign=Step("gpu-002", "test $(stat -c %a /etc/sudoers) = 666"),
        causes=("*Sudo*",),
        facts=("base.*", "peer.*"),
        unobserved=("*",),
    ),
)
