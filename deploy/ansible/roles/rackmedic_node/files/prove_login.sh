#!/bin/sh
# prove_login.sh ACCOUNT KEY_TYPE [ADDRESS PORT]: 0 where sshd lets ACCOUNT in by /etc/ssh/authorized_keys/ACCOUNT.
# The key with which that is tried is made here, may do nothing but that from this node, and is gone afterwards.
set -efu
umask 077
LC_ALL=C
PATH=/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL PATH
unset TMPDIR
account=$1 type=$2 file=/etc/ssh/authorized_keys/$1
shift 2
for tool in ssh ssh-keygen sshd; do
  command -v "$tool" >/dev/null || { echo "$tool is missing: install OpenSSH's client and server, or set rackmedic_prove_login=false" >&2; exit 1; }
done

work=$(mktemp -d)
cat -- "$file" >"$work/site"
replace() { # the key file by what comes in, at once
  chmod 0644 "$work/next" && install -o root -g root -m 0644 "$work/next" "$file.next" && mv -T -- "$file.next" "$file"
}
finish() {
  cp -- "$work/site" "$work/next"
  replace
  rm -rf -- "$work"
}
trap finish EXIT
trap 'exit 1' HUP INT TERM

case $type in
  ssh-rsa) type=rsa ;;
  ecdsa-*) type=ecdsa ;;
  *) type=ed25519 ;;
esac
ssh-keygen -q -t "$type" -N '' -f "$work/key"
listens() { # each address and port on which sshd here can be reached
  sshd -T -C user=root,host=localhost,addr=127.0.0.1 | sed -n 's/^listenaddress //p' |
    sed -e 's/^0\.0\.0\.0:/127.0.0.1:/' -e 's/^\[::\]:/[::1]:/' -e 's/^\(.*\):\([0-9]*\)$/\1 \2/' | tr -d '[]'
}
{ [ $# -lt 2 ] || printf '%s %s\n' "$1" "$2"; listens; } >"$work/addresses"
from=$(cut -d ' ' -f 1 "$work/addresses" | sort -u | tr '\n' ',')
{
  cat "$work/site"
  printf 'restrict,command="exit 0",from="127.0.0.1,::1,%s" %s\n' "${from%,}" "$(cut -d ' ' -f 1,2 "$work/key.pub")"
} >"$work/next"
sshd -T -C user=root,host=localhost,addr=127.0.0.1 | sed -n 's/^hostkey //p' | while read -r key; do
  [ ! -f "$key.pub" ] || printf 'this-node %s\n' "$(cut -d ' ' -f 1,2 "$key.pub")"
done >"$work/known"
replace

while read -r address port; do
  timeout -k 1 30 ssh -F /dev/null -T -i "$work/key" -l "$account" -p "$port" -o BatchMode=yes -o IdentitiesOnly=yes -o IdentityAgent=none \
    -o PreferredAuthentications=publickey -o ConnectTimeout=10 -o HostKeyAlias=this-node -o StrictHostKeyChecking=yes -o UpdateHostKeys=no \
    -o "UserKnownHostsFile=$work/known" -o GlobalKnownHostsFile=/dev/null "$address" true </dev/null >/dev/null 2>"$work/said" && exit 0
  echo "$account was not let in at $address port $port: $(tail -n 1 "$work/said")" >&2
done <"$work/addresses"
exit 1
