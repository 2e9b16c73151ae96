#!/bin/sh
# Installs RackMedic's node kit @VERSION@ from this folder. Run as root on a node; running it again upgrades.
# With --check it only says whether the site signed every file here. Where @SIGNERS@ exists, nothing else is installed.
set -eu
umask 022
cd "$(dirname "$0")"
SIGNERS=@SIGNERS@
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
case $(stat -c '%u %A' @DIRECTORY@) in
  "0 "?????-??-?) ;;
  *) echo "@DIRECTORY@ must belong to root and be writable for nobody else" >&2; exit 1 ;;
esac
# '*' instead of '!': no password either, but sshd does not take the account for a locked one
id @USER@ >/dev/null 2>&1 || useradd --system --create-home --shell /bin/sh --password '*' @USER@
visudo -cqf sudoers
install -o root -g root -m 0755 rackmedic-look rackmedic-act @DIRECTORY@/
install -d -o root -g root -m 0700 @STATE@
(umask 077 && flock -w 30 @STATE@/lock @DIRECTORY@/rackmedic-act reserve) ||
  echo "no room for records is set aside: once the disk is full, no remedy will run here, not even the one that cleans it up" >&2
install -o root -g root -m 0440 sudoers /etc/sudoers.d/rackmedic
if [ -d /etc/ssh/sshd_config.d ]; then
  install -o root -g root -m 0644 sshd_config /etc/ssh/sshd_config.d/50-rackmedic.conf
  echo "reload sshd to apply /etc/ssh/sshd_config.d/50-rackmedic.conf"
fi
echo "kit @VERSION@ installed; give @USER@ its public key in ~@USER@/.ssh/authorized_keys"
