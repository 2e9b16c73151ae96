#!/bin/sh
# root_owned.sh FOLDER...: 0 where each folder that exists, and every folder above it, belongs to root and is writable for nobody else.
set -fu
LC_ALL=C
export LC_ALL

owned_upwards() { # PATH
  path=$1
  while :; do
    case $(stat -L -c '%u %A' -- "$path") in
      "0 "?????-??-?) ;;
      *) echo "$path must belong to root and be writable for nobody else" >&2; exit 1 ;;
    esac
    [ "$path" != / ] || return 0
    path=$(dirname -- "$path")
  done
}

for folder in "$@"; do
  if [ -e "$folder" ] || [ -L "$folder" ]; then
    owned_upwards "$folder"
    owned_upwards "$(readlink -f -- "$folder")"
  fi
done
