#!/bin/bash
# A process of ours on one device and a foreign one on the other: meet.sh GID_INDEX OURS C_PEER RUST_PEER
gid=$1 ours=$2 c=$3 rust=$4
meet() {
  local folder pid
  folder=$(mktemp -d) || return
  VERBENA_VERBS_DEVICE=rxe0 "$ours" "$folder" "$2" &
  pid=$!
  "$1" rxe1 "$gid" "$folder" "$3" && wait $pid
}
meet "$c" first second && meet "$c" second first && meet "$rust" first second && echo "all have met"
