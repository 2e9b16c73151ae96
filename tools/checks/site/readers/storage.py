"""Storage: block devices, volumes, mounts, local and parallel file systems."""

from collections.abc import Mapping

from tools.checks.site.usage import Usage, use

_LVM = "-[av] -o=NAMES --noheadings --units=NAME --nosuffix --separator=NAME --reportformat=NAME --segments --options=NAMES"

# fmt: off
READERS: Mapping[str, tuple[Usage, ...]] = {
    #  program         ways in which it only reads
    "lsblk":         (use("DISK*", options="-[abdfilmnpPrtSJsN] -o=COLUMNS --output=COLUMNS --json --all --bytes --fs --nodeps --noheadings"
                          " --output-all --topology"),),
    "blkid":         (use("DISK*", options="-[p] -o=NAME -s=NAME"),),
    "findmnt":       (use("", "PLACE+", "PLACE PLACE", options="-[abcDeflnPruvJikmsy] -o=COLUMNS -t=NAMES -T=PLACE -S=TEXT -M=PLACE -O=NAMES --json"
                          " --output=COLUMNS"
                          " --types=NAMES --target=PLACE --mountpoint=PLACE --noheadings --df --fstab --kernel --verify --raw --options=NAMES"),),
    "mount":         (use("", options="-[l] -t=NAMES"),),
    "swapon":        (use("", options="-s --show --show=COLUMNS --summary --noheadings --bytes --raw"),),
    "losetup":       (use("", options="-[alJn] --list --all --json"),),
    "mdadm":         (use("DISK*", must="-[DEQ] --detail --examine --query", options="-[sv] --scan --brief --verbose"),),
    "lvs":           (use("NAME*", options=_LVM),),
    "vgs":           (use("NAME*", options=_LVM),),
    "pvs":           (use("DISK*", options=_LVM),),
    "lvdisplay":     (use("NAME*", options="-[cmv]"),),
    "vgdisplay":     (use("NAME*", options="-[csv]"),),
    "pvdisplay":     (use("DISK*", options="-[csmv]"),),
    "dmsetup":       (use("ls|info|status|deps NAME?", options="--tree -c"),),
    "multipath":     (use("NAME?", must="-l -ll", options="-v=NUM"),),
    "multipathd":    (use("show paths|maps|status|topology|config"),),
    "iscsiadm":      (use("", must="-m=NAME", options="-P=NUM"),),
    "cryptsetup":    (use("status NAME"),),
    "tune2fs":       (use("DISK", must="-l"),),
    "dumpe2fs":      (use("DISK", must="-h"),),
    "xfs_info":      (use("PLACE"),),
    "btrfs":         (use("filesystem|fi show|usage|df PLACE?", "device|dev stats|usage PLACE", "subvolume|sub list PLACE", "scrub status PLACE"),),
    "zpool":         (use("status|list|iostat|history NAME*", options="-[vxLPHpl] -o=NAMES"),
                      use("get NAMES NAME*", options="-[Hp] -o=NAMES")),
    "zfs":           (use("list NAME*", "get NAMES NAME*", options="-[Hrpt] -o=NAMES -s=NAME -d=NUM"),),
    "quota":         (use("", options="-[ugsvwp]"),),
    "repquota":      (use("PLACE*", options="-[augsvn]"),),
    "nfsstat":       (use("", options="-[mcsnrv234l]"),),
    "nfsiostat":     (use("", "NUM NUM", "NUM NUM PLACE+", options="-[ads]"),),
    "mountstats":    (use("PLACE*", options="--nfs --rpc --raw"),),
    "showmount":     (use("NAME?", options="-[ead]"),),
    "exportfs":      (use("", options="-[vs]"),),
    "rpcinfo":       (use("NAME?", options="-[ps]"),),
    "lfs":           (use("df PLACE?", "check osts|mdts|servers|all PLACE?", "osts|mdts|getname|getstripe|getdirstripe|path2fid PLACE*", "quota PLACE+",
                          options="-[hiqvd] -u=NAME -g=NAME -p=NUM"),),
    "lctl":          (use("get_param|list_param|lget_param KEY+", options="-[nNFR]"), use("dl|device_list|list_nids|which_nid|ping_nids", options="-t")),
    "lnetctl":       (use("net|route|routing|stats|peer|global show", "net|peer show", options="-v --net=NAME"),),
    "beegfs-ctl":    (use("PLACE?", options="--listnodes --listtargets --listpools --getentryinfo --getquota --nodetype=NAME --state --longnodes"
                          " --mgmtd --pools"
                          " --spaceinfo --nicdetails --reachable --route --uid=NAME --all --storagepools"),),
    "beegfs-df":     (use(),),
    "beegfs-net":    (use(),),
    "mmgetstate":    (use("", options="-[aLsv] -N=NAMES"),),
    "mmlsfs":        (use("NAME", options="-[LTBAQkmMrR]"),),
    "mmlsdisk":      (use("NAME", options="-[Lme]"),),
    "mmlsmount":     (use("NAME", options="-[LY]"),),
    "mmlscluster":   (use(),),
    "mmdiag":        (use("", options="--waiters --version --network --stats --memory --iohist --config"),),
    "mmhealth":      (use("node|cluster show NAME?", options="-v -Y -N=NAMES"),),
    "weka":          (use("status", "status rebuild", "alerts", "cluster nodes|servers|drives|hosts|container list?", options="-J --json"),),
    "ceph":          (use("", must="-s --status", options="-f=NAME --format=NAME"),
                      use("status|health|df", "health detail", "osd tree|df|stat", "mon|pg stat", options="-f=NAME --format=NAME")),
}
# fmt: on
