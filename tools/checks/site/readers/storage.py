"""Storage: block devices, volumes, mounts, local and parallel file systems."""

from collections.abc import Mapping

from tools.checks.site.usage import Usage, build_usage

_LVM_OPTIONS = "-[av] -o=NAMES --noheadings --units=NAME --nosuffix --separator=NAME --reportformat=NAME --segments --options=NAMES"

# fmt: off
PROGRAM_USAGES: Mapping[str, tuple[Usage, ...]] = {
    #  program         ways in which it only reads
    "lsblk":         (build_usage("DISK*", options="-[abdfilmnpPrtSJsN] -o=COLUMNS --output=COLUMNS --json --all --bytes --fs --nodeps --noheadings"
                          " --output-all --topology"),),
    "blkid":         (build_usage("DISK*", options="-[p] -o=NAME -s=NAME"),),
    "findmnt":       (build_usage("", "PLACE+", "PLACE PLACE", options="-[abcDeflnPruvJikmsy] -o=COLUMNS -t=NAMES -T=PLACE -S=TEXT -M=PLACE -O=NAMES --json"
                          " --output=COLUMNS"
                          " --types=NAMES --target=PLACE --mountpoint=PLACE --noheadings --df --fstab --kernel --verify --raw --options=NAMES"),),
    "mount":         (build_usage("", options="-[l] -t=NAMES"),),
    "swapon":        (build_usage("", options="-s --show --show=COLUMNS --summary --noheadings --bytes --raw"),),
    "losetup":       (build_usage("", options="-[alJn] --list --all --json"),),
    "mdadm":         (build_usage("DISK*", must="-[DEQ] --detail --examine --query", options="-[sv] --scan --brief --verbose"),),
    "lvs":           (build_usage("NAME*", options=_LVM_OPTIONS),),
    "vgs":           (build_usage("NAME*", options=_LVM_OPTIONS),),
    "pvs":           (build_usage("DISK*", options=_LVM_OPTIONS),),
    "lvdisplay":     (build_usage("NAME*", options="-[cmv]"),),
    "vgdisplay":     (build_usage("NAME*", options="-[csv]"),),
    "pvdisplay":     (build_usage("DISK*", options="-[csmv]"),),
    "dmsetup":       (build_usage("ls|info|status|deps NAME?", options="--tree -c"),),
    "multipath":     (build_usage("NAME?", must="-l -ll", options="-v=NUM"),),
    "multipathd":    (build_usage("show paths|maps|status|topology|config"),),
    "iscsiadm":      (build_usage("", must="-m=NAME", options="-P=NUM"),),
    "cryptsetup":    (build_usage("status NAME"),),
    "tune2fs":       (build_usage("DISK", must="-l"),),
    "dumpe2fs":      (build_usage("DISK", must="-h"),),
    "xfs_info":      (build_usage("PLACE"),),
    "btrfs":         (build_usage("filesystem|fi show|usage|df PLACE?", "device|dev stats|usage PLACE", "subvolume|sub list PLACE", "scrub status PLACE"),),
    "zpool":         (build_usage("status|list|iostat|history NAME*", options="-[vxLPHpl] -o=NAMES"),
                      build_usage("get NAMES NAME*", options="-[Hp] -o=NAMES")),
    "zfs":           (build_usage("list NAME*", "get NAMES NAME*", options="-[Hrpt] -o=NAMES -s=NAME -d=NUM"),),
    "quota":         (build_usage("", options="-[ugsvwp]"),),
    "repquota":      (build_usage("PLACE*", options="-[augsvn]"),),
    "nfsstat":       (build_usage("", options="-[mcsnrv234l]"),),
    "nfsiostat":     (build_usage("", "NUM NUM", "NUM NUM PLACE+", options="-[ads]"),),
    "mountstats":    (build_usage("PLACE*", options="--nfs --rpc --raw"),),
    "showmount":     (build_usage("NAME?", options="-[ead]"),),
    "exportfs":      (build_usage("", options="-[vs]"),),
    "rpcinfo":       (build_usage("NAME?", options="-[ps]"),),
    "lfs":           (build_usage("df PLACE?", "check osts|mdts|servers|all PLACE?", "osts|mdts|getname|getstripe|getdirstripe|path2fid PLACE*", "quota PLACE+",
                          options="-[hiqvd] -u=NAME -g=NAME -p=NUM"),),
    "lctl":          (build_usage("get_param|list_param|lget_param KEY+", options="-[nNFR]"), build_usage("dl|device_list|list_nids|which_nid|ping_nids", options="-t")),
    "lnetctl":       (build_usage("net|route|routing|stats|peer|global show", "net|peer show", options="-v --net=NAME"),),
    "beegfs-ctl":    (build_usage("PLACE?", options="--listnodes --listtargets --listpools --getentryinfo --getquota --nodetype=NAME --state --longnodes"
                          " --mgmtd --pools"
                          " --spaceinfo --nicdetails --reachable --route --uid=NAME --all --storagepools"),),
    "beegfs-df":     (build_usage(),),
    "beegfs-net":    (build_usage(),),
    "mmgetstate":    (build_usage("", options="-[aLsv] -N=NAMES"),),
    "mmlsfs":        (build_usage("NAME", options="-[LTBAQkmMrR]"),),
    "mmlsdisk":      (build_usage("NAME", options="-[Lme]"),),
    "mmlsmount":     (build_usage("NAME", options="-[LY]"),),
    "mmlscluster":   (build_usage(),),
    "mmdiag":        (build_usage("", options="--waiters --version --network --stats --memory --iohist --config"),),
    "mmhealth":      (build_usage("node|cluster show NAME?", options="-v -Y -N=NAMES"),),
    "weka":          (build_usage("status", "status rebuild", "alerts", "cluster nodes|servers|drives|hosts|container list?", options="-J --json"),),
    "ceph":          (build_usage("", must="-s --status", options="-f=NAME --format=NAME"),
                      build_usage("status|health|df", "health detail", "osd tree|df|stat", "mon|pg stat", options="-f=NAME --format=NAME")),
}
# fmt: on
