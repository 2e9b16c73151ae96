"""Reading files and naming what lies where. A file's content only from `tools.checks.site.paths`; of any place its name, size and owner.

Who reads contents reads the files that are named, never those of a folder: below an admitted folder lie secrets too. So no such program has an
option that goes down, and diff, which compares folders unasked, is none of them.
"""

from collections.abc import Mapping

from tools.checks.site.usage import Usage, use

# fmt: off
READERS: Mapping[str, tuple[Usage, ...]] = {
    #  program        ways in which it only reads
    "cat":          (use("FILE+", options="-[AbeEnstTv] --number --show-all"),),
    "tac":          (use("FILE+"),),
    "zcat":         (use("FILE+"),),
    "nl":           (use("FILE+", options="-[] -b=NAME"),),
    "head":         (use("FILE+", options="-[qv0123456789] -n=OFFSET -c=OFFSET --lines=OFFSET --bytes=OFFSET"),),
    "tail":         (use("FILE+", options="-[qv0123456789] -n=OFFSET -c=OFFSET --lines=OFFSET --bytes=OFFSET"),),
    "wc":           (use("FILE+", options="-[lwcmL] --lines --words --bytes"),),
    "cut":          (use("FILE+", options="-[s] -d=TEXT -f=LIST -c=LIST --delimiter=TEXT --fields=LIST"),),
    "od":           (use("FILE+", options="-[cxdbv] -A=NAME -t=NAME -N=NUM -j=NUM"),),
    "strings":      (use("FILE+", options="-[a] -n=NUM"),),
    "cmp":          (use("FILE FILE", options="-[sl]"),),
    "md5sum":       (use("FILE+"),),
    "sha1sum":      (use("FILE+"),),
    "sha256sum":    (use("FILE+"),),
    "cksum":        (use("FILE+"),),
    "grep":         (use("TEXT FILE+", options="-[EFGPivwxcnHhlLosqaI] -m=NUM -A=NUM -B=NUM -C=NUM --count --ignore-case"),
                     use("FILE+", options="-[EFGPivwxcnHhlLosqaI] -e=TEXT --regexp=TEXT -m=NUM -A=NUM -B=NUM -C=NUM --max-count=NUM")),
    "egrep":        (use("TEXT FILE+", options="-[ivwxcnHhlLosqaI] -m=NUM"),),
    "fgrep":        (use("TEXT FILE+", options="-[ivwxcnHhlLosqaI] -m=NUM"),),
    "ls":           (use("PLACE*", options="-[aAlhtr1dRSisnoFLHZcu] --all --full-time --time-style=CLOCK --sort=NAME --color=NAME --human-readable"),),
    "stat":         (use("PLACE+", options="-[fLt] -c=TEXT --format=TEXT --printf=TEXT --file-system --terse --dereference"),),
    "file":         (use("PLACE+", options="-[bLi] --brief --mime-type"),),
    "readlink":     (use("PLACE+", options="-[femn]"),),
    "realpath":     (use("PLACE+", options="-[emsq]"),),
    "basename":     (use("PLACE"),),
    "dirname":      (use("PLACE"),),
    "namei":        (use("PLACE+", options="-[lmox]"),),
    "test":         (use("", options="-e=PLACE -f=PLACE -d=PLACE -r=PLACE -w=PLACE -x=PLACE -s=PLACE -L=PLACE -S=PLACE -b=PLACE -c=PLACE"),),
    "find":         (use("PLACE+", options="-L -H -P -name=GLOB -iname=GLOB -path=GLOB -type=NAME -maxdepth=NUM -mindepth=NUM -mtime=OFFSET -mmin=OFFSET"
                         " -atime=OFFSET -ctime=OFFSET -size=OFFSET -size=NUM -user=NAME -group=NAME -perm=NUM -newer=PLACE -xdev -mount -empty"
                         " -print -ls -not -quit -readable -writable -executable -nouser -nogroup"),),
    "du":           (use("PLACE+", options="-[shkmcxabDLS] -d=NUM --max-depth=NUM --apparent-size --summarize --human-readable --block-size=NUM"),),
    "df":           (use("PLACE*", options="-[hHiklPTam] -t=NAME -x=NAME --output=COLUMNS --output --local --type=NAME --exclude-type=NAME"
                         " --block-size=NUM -B=NUM --total --inodes --portability --human-readable"),),
    "mountpoint":   (use("PLACE", options="-[qdx]"),),
    "getfacl":      (use("PLACE+", options="-[pcen]"),),
    "getfattr":     (use("PLACE+", options="-[d] -n=NAME"),),
    "lsattr":       (use("PLACE+", options="-[adRv]"),),
    "getcap":       (use("PLACE+", options="-[r]"),),
    "openssl":      (use("x509", options="-in=FILE -noout -enddate -startdate -dates -subject -issuer -serial -fingerprint -sha256 -checkend=NUM"),
                     use("version", options="-a -v")),
}
# fmt: on
