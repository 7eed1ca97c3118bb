# Functions for a guest's command, sourced before it.
export PATH=$VM_PATH
cd "$VM_FOLDER" || exit 1

# vm_barrier NAME: wait until all guests have come here, but for those that have died. Fails if the command of another
# guest has ended instead. The looks become rare, and no program is started for them, which would take most of an
# emulated processor: others may measure here meanwhile.
vm_barrier() {
  local n pause wait ms=20 code=0 file=${TMPDIR:-/tmp}/vm_pause
  : >"$VM_RESULTS/barrier.$1.$VM_ID"
  [ -p "$file" ] || mkfifo "$file"
  exec {pause}<>"$file"
  for ((n = 0; n < VM_GUESTS; n++)); do
    until [ -e "$VM_RESULTS/barrier.$1.$n" ] || [ -e "$VM_RESULTS/died.$n" ]; do
      if [ -e "$VM_RESULTS/code.$n" ] && [ ! -e "$VM_RESULTS/barrier.$1.$n" ]; then code=1; break; fi
      printf -v wait 0.%03d $ms
      read -r -t $wait -u $pause
      ((ms < 300)) && ((ms += ms / 8))
    done
  done
  exec {pause}>&-
  return $code
}

# vm_cable SECONDS: pull this guest's cable for so long; returns at once.
vm_cable() {
  echo "$1" >"$VM_RESULTS/cable.new.$VM_ID"
  mv "$VM_RESULTS/cable.new.$VM_ID" "$VM_RESULTS/cable.$VM_ID"
}

# vm_die GUEST: end that guest's machine at once, as if it lost its power. Its command counts as well done.
vm_die() {
  : >"$VM_RESULTS/die.$1"
}

# vm_listening PORT: wait until a program of this guest listens on it.
vm_listening() {
  local hex
  printf -v hex ':%04X 0' "$1"
  until grep -q "$hex[0-9A-F:]* 0A " /proc/net/tcp /proc/net/tcp6; do sleep 0.02; done
}

# vm_between PROGRAM OPTIONS...: a server and a client, as those of perftest and
# ibv_rc_pingpong are, from the second guest (or device) to the first. Give the
# port with VM_PORT if it is not theirs. Success if both succeed.
vm_between() {
  local port=${VM_PORT:-18515} server code
  VM_STEP=$((${VM_STEP:-0} + 1))
  if [ "$VM_ID" = 0 ]; then
    "$@" -d rxe0 >"$VM_RESULTS/server.$VM_STEP" 2>&1 &
    server=$!
    vm_listening "$port"
    if [ "$VM_GUESTS" = 1 ]; then
      "$@" -d rxe1 127.0.0.1; code=$?
      wait $server && return $code
      cat "$VM_RESULTS/server.$VM_STEP"; return 1
    fi
    vm_barrier "listening.$VM_STEP"
    wait $server; code=$?
    cat "$VM_RESULTS/server.$VM_STEP"
  elif [ "$VM_ID" = 1 ]; then
    vm_barrier "listening.$VM_STEP"
    "$@" -d rxe0 vm0; code=$?
  else
    vm_barrier "listening.$VM_STEP"; code=0
  fi
  vm_barrier "done.$VM_STEP"
  return $code
}
export -f vm_barrier vm_cable vm_die vm_listening vm_between
