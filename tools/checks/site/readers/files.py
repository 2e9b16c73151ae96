"""Read files or list places: contents only from `tools.checks.site.usage`, elsewhere name, size and owner.

Programs that read contents take named files and never recurse, because allowed folders may hold secrets. `diff` is left
out: it compares folders without an option.
"""

from collections.abc import Mapping

from tools.checks.site.usage import Usage, build_usage

# fmt: off
PROGRAM_USAGES: Mapping[str, tuple[Usage, ...]] = {
    #  program        ways in which it only reads
    "cat":          (build_usage("FILE+", options="-[AbeEnstTv] --number --show-all"),),
    "tac":          (build_usage("FILE+"),),
    "zcat":         (build_usage("FILE+"),),
    "nl":           (build_usage("FILE+", options="-[] -b=NAME"),),
    "head":         (build_usage("FILE+", options="-[qv0123456789] -n=OFFSET -c=OFFSET --lines=OFFSET --bytes=OFFSET"),),
    "tail":         (build_usage("FILE+", options="-[qv0123456789] -n=OFFSET -c=OFFSET --lines=OFFSET --bytes=OFFSET"),),
    "wc":           (build_usage("FILE+", options="-[lwcmL] --lines --words --bytes"),),
    "cut":          (build_usage("FILE+", options="-[s] -d=TEXT -f=LIST -c=LIST --delimiter=TEXT --fields=LIST"),),
    "od":           (build_usage("FILE+", options="-[cxdbv] -A=NAME -t=NAME -N=NUM -j=NUM"),),
    "strings":      (build_usage("FILE+", options="-[a] -n=NUM"),),
    "cmp":          (build_usage("FILE FILE", options="-[sl]"),),
    "md5sum":       (build_usage("FILE+"),),
    "sha1sum":      (build_usage("FILE+"),),
    "sha256sum":    (build_usage("FILE+"),),
    "cksum":        (build_usage("FILE+"),),
    "grep":         (build_usage("TEXT FILE+", options="-[EFGPivwxcnHhlLosqaI] -m=NUM -A=NUM -B=NUM -C=NUM --count --ignore-case"),
                     build_usage("FILE+", options="-[EFGPivwxcnHhlLosqaI] -e=TEXT --regexp=TEXT -m=NUM -A=NUM -B=NUM -C=NUM --max-count=NUM")),
    "egrep":        (build_usage("TEXT FILE+", options="-[ivwxcnHhlLosqaI] -m=NUM"),),
    "fgrep":        (build_usage("TEXT FILE+", options="-[ivwxcnHhlLosqaI] -m=NUM"),),
    "ls":           (build_usage("PLACE*", options="-[aAlhtr1dRSisnoFLHZcu] --all --full-time --time-style=CLOCK --sort=NAME --color=NAME --human-readable"),),
    "stat":         (build_usage("PLACE+", options="-[fLt] -c=TEXT --format=TEXT --printf=TEXT --file-system --terse --dereference"),),
    "file":         (build_usage("PLACE+", options="-[bLi] --brief --mime-type"),),
    "readlink":     (build_usage("PLACE+", options="-[femn]"),),
    "realpath":     (build_usage("PLACE+", options="-[emsq]"),),
    "basename":     (build_usage("PLACE"),),
    "dirname":      (build_usage("PLACE"),),
    "namei":        (build_usage("PLACE+", options="-[lmox]"),),
    "test":         (build_usage("", options="-e=PLACE -f=PLACE -d=PLACE -r=PLACE -w=PLACE -x=PLACE -s=PLACE -L=PLACE -S=PLACE -b=PLACE -c=PLACE"),),
    "find":         (build_usage("PLACE+", options="-L -H -P -name=GLOB -iname=GLOB -path=GLOB -type=NAME -maxdepth=NUM -mindepth=NUM -mtime=OFFSET -mmin=OFFSET"
                         " -atime=OFFSET -ctime=OFFSET -size=OFFSET -size=NUM -user=NAME -group=NAME -perm=NUM -newer=PLACE -xdev -mount -empty"
                         " -print -ls -not -quit -readable -writable -executable -nouser -nogroup"),),
    "du":           (build_usage("PLACE+", options="-[shkmcxabDLS] -d=NUM --max-depth=NUM --apparent-size --summarize --human-readable --block-size=NUM"),),
    "df":           (build_usage("PLACE*", options="-[hHiklPTam] -t=NAME -x=NAME --output=COLUMNS --output --local --type=NAME --exclude-type=NAME"
                         " --block-size=NUM -B=NUM --total --inodes --portability --human-readable"),),
    "mountpoint":   (build_usage("PLACE", options="-[qdx]"),),
    "getfacl":      (build_usage("PLACE+", options="-[pcen]"),),
    "getfattr":     (build_usage("PLACE+", options="-[d] -n=NAME"),),
    "lsattr":       (build_usage("PLACE+", options="-[adRv]"),),
    "getcap":       (build_usage("PLACE+", options="-[r]"),),
    "openssl":      (build_usage("x509", options="-in=FILE -noout -enddate -startdate -dates -subject -issuer -serial -fingerprint -sha256 -checkend=NUM"),
                     build_usage("version", options="-a -v")),
}
# fmt: on
