#!/bin/sh
# Installs RackMedic's node kit @VERSION@ from this folder. Run as root on a node; running it again upgrades.
#
#   install.sh --key FILE   also installs the public key in FILE (one line), the only one that may log in as @USER@
#   install.sh              where that key is installed already
#   install.sh --check      only says whether the site signed every file here. Where @SIGNERS@ exists, nothing else is installed.
#
# Nothing is written below the account's home, and into no folder that somebody else than root may write.
set -eu
umask 022
unset CDPATH
PATH=$PATH:/usr/sbin:/sbin
key=
if [ "${1-}" = --key ]; then
  [ $# -eq 2 ] || { echo "usage: install.sh [--check | --key FILE]" >&2; exit 64; }
  key=$(cat -- "$2")
fi
cd "$(dirname "$0")"
SIGNERS=@SIGNERS@
KEY_FILE=@KEYS@/@USER@
RULE=/etc/ssh/sshd_config.d/50-rackmedic.conf
SIGNED="rackmedic-look rackmedic-act sudoers sshd_config install.sh"

no() { echo "not installed: $*" >&2; exit 1; }

listed() { # FILE: whether the signed list names it
  while read -r _ name; do [ "$name" = "$1" ] && return 0; done <SHA256SUMS
  return 1
}

verify() { # before anything is written: every file is one that the site signed, and there is no other
  command -v ssh-keygen >/dev/null || no "ssh-keygen is missing: install OpenSSH 8.1 or newer"
  if [ ! -f SHA256SUMS ] || [ ! -f SHA256SUMS.sig ]; then
    no "the kit is not signed, and $SIGNERS says whose signature it must have: rackmedic node-kit --sign KEY"
  fi
  ssh-keygen -Y verify -f "$SIGNERS" -I rackmedic-kit -n rackmedic-kit -s SHA256SUMS.sig <SHA256SUMS >/dev/null 2>&1 ||
    no "SHA256SUMS is not signed by a key of rackmedic-kit in $SIGNERS: another key, or the list was changed"
  for file in $SIGNED; do listed "$file" || no "the signed list does not name $file"; done
  for file in * .[!.]* ..?*; do
    [ -e "$file" ] || [ -L "$file" ] || continue
    case $file in SHA256SUMS | SHA256SUMS.sig) ;; *) listed "$file" || no "$file is in this folder and was not signed" ;; esac
    { [ -f "$file" ] && [ ! -L "$file" ]; } || no "$file is no plain file"
  done
  changed=$(sha256sum --check --strict --quiet SHA256SUMS 2>/dev/null | head -n 1)
  [ -z "$changed" ] || no "${changed%%:*} is not as it was signed"
  sha256sum --check --strict --quiet SHA256SUMS >/dev/null 2>&1 || no "a file is not as it was signed"
}

if [ -e "$SIGNERS" ]; then
  verify
elif [ -e SHA256SUMS.sig ]; then
  no "this kit is signed; put the site's key into $SIGNERS first (a line 'rackmedic-kit ssh-ed25519 AAAA...'), owned by root"
fi
if [ "${1-}" = --check ]; then
  [ -e "$SIGNERS" ] || no "there is no $SIGNERS, so nothing says whose signature the kit must have"
  echo "signed by the site: kit @VERSION@"
  exit 0
fi
[ "$(id -u)" -eq 0 ] || { echo "run as root" >&2; exit 1; }
for tool in flock setsid timeout sync stat sudo visudo; do
  command -v "$tool" >/dev/null || { echo "$tool is missing: install util-linux, coreutils (8.24 or newer) and sudo" >&2; exit 1; }
done

owned() { # PATH: it belongs to root and is writable for nobody else
  case $(stat -L -c '%u %A' -- "$1") in
    "0 "?????-??-?) ;;
    *) no "$1 must belong to root and be writable for nobody else${2-}" ;;
  esac
}

owned_upwards() { # PATH: so it is with every folder above it, by its name and where its links lead
  for path in "$1" "$(readlink -f -- "$1")"; do
    while owned "$path" && [ "$path" != / ]; do path=$(dirname -- "$path"); done
  done
}

one_key() { # TEXT: one line, and a public key by its form
  case $1 in
    *"
"*) return 1 ;;
    ssh-* | ecdsa-* | sk-*) printf '%s\n' "$1" | ssh-keygen -l -f /dev/stdin >/dev/null 2>&1 ;;
    *) return 1 ;;
  esac
}

new_rule() { # taken back where sshd would not start with it
  [ -d "${RULE%/*}" ] && ! cmp -s sshd_config "$RULE" || return 0
  old=$(mktemp)
  [ ! -e "$RULE" ] || cat -- "$RULE" >"$old"
  install -T -o root -g root -m 0644 sshd_config "$RULE"
  if ! said=$(sshd -t 2>&1); then
    if [ -s "$old" ]; then install -T -o root -g root -m 0644 "$old" "$RULE"; else rm -f -- "$RULE"; fi
    rm -f -- "$old"
    no "sshd's rule: sshd would not start with it: $said"
  fi
  rm -f -- "$old"
  echo "reload sshd to apply $RULE"
}

for file in . *; do owned "$file" ": copy this folder to /root, as root"; done
[ ! -L @STATE@ ] || no "@STATE@ is a link"
[ -d /etc/sudoers.d ] || install -d -o root -g root -m 0755 /etc/sudoers.d
[ -d @KEYS@ ] || install -d -o root -g root -m 0755 @KEYS@
for folder in @DIRECTORY@ "$(dirname -- @STATE@)" /etc/sudoers.d @KEYS@; do owned_upwards "$folder"; done
[ ! -d "${RULE%/*}" ] || owned_upwards "${RULE%/*}"
for folder in $(echo '@PATH@' | tr : ' '); do # where the scripts find what they run as root
  [ ! -d "$folder" ] || owned_upwards "$folder"
done
if [ -n "$key" ]; then
  one_key "$key" || no "--key must name a file with one line, the public key that 'rackmedic init' printed"
elif [ ! -f "$KEY_FILE" ] || [ -L "$KEY_FILE" ]; then
  no "there is no $KEY_FILE, so nobody could log in as @USER@: install.sh --key FILE, with the public key that 'rackmedic init' printed"
fi

# '*' instead of '!': no password either, but sshd does not take the account for a locked one
id @USER@ >/dev/null 2>&1 || useradd --system --create-home --shell /bin/sh --password '*' @USER@
visudo -cqf sudoers
install -o root -g root -m 0755 -t @DIRECTORY@ rackmedic-look rackmedic-act
install -d -o root -g root -m 0700 @STATE@
(umask 077 && flock -w 30 @STATE@/lock @DIRECTORY@/rackmedic-act reserve) ||
  echo "no room for records is set aside: once the disk is full, no remedy will run here, not even the one that cleans it up" >&2
install -T -o root -g root -m 0440 sudoers /etc/sudoers.d/rackmedic
[ -z "$key" ] || printf '%s\n' "$key" | install -T -o root -g root -m 0644 /dev/stdin "$KEY_FILE"
new_rule
sshd -T -C user=@USER@,host=localhost,addr=127.0.0.1 2>/dev/null | grep -qxF 'authorizedkeysfile @KEYS@/%u' ||
  echo "sshd does not read $RULE: append sshd_config of this folder to /etc/ssh/sshd_config, then sshd -t, then reload sshd" >&2
echo "kit @VERSION@ installed; @USER@ logs in with the key in $KEY_FILE alone"
