#!/bin/bash
# One rank in a rootless Podman container:
#
#   mpiexec -n 4 podman-rank.sh IMAGE ./a.out
#
# Podman hands down descriptors from number 3 on, without gaps. mpiexec's two have other numbers;
# VERBENA_BOOTSTRAP names them. More words for `podman run` go into PODMAN_OPTIONS, such as
# "--volume $PWD:$PWD --workdir $PWD" and "--device /dev/infiniband --ulimit memlock=-1".
set -eu
[[ ${VERBENA_BOOTSTRAP-} =~ (.*control=)([0-9]+)( board=)([0-9]+)(.*) ]] ||
  { echo "podman-rank.sh: mpiexec starts this script: mpiexec -n 4 podman-rank.sh IMAGE PROGRAM" >&2; exit 1; }
exec 3<&"${BASH_REMATCH[2]}" 4<&"${BASH_REMATCH[4]}"
export VERBENA_BOOTSTRAP="${BASH_REMATCH[1]}3${BASH_REMATCH[3]}4${BASH_REMATCH[5]}"
# shellcheck disable=SC2086 # the options are several words
exec podman run --rm --preserve-fds=2 --pid=host --network=host --env 'VERBENA_*' ${PODMAN_OPTIONS-} "$@"
