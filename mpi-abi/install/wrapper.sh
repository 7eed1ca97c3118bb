#!/bin/sh
# @NAME@: compiles and links @LANGUAGE@ programs with MPI.
#
# Finds its own installation, wherever that has been moved or linked to, and
# runs the compiler with what MPI needs. `@NAME@ -help` lists its options; everything else is the
# compiler's.

version='@VERSION@'

# The folder that bin/ is in, through symbolic links to this script.
self=$0
case $self in
*/*) ;;
*) self=$(command -v -- "$self") ;;
esac
while [ -L "$self" ]; do
    target=$(readlink -- "$self")
    case $target in
    /*) self=$target ;;
    *) self=${self%/*}/$target ;;
    esac
done
prefix=$(CDPATH='' cd -- "${self%/*}/.." && pwd) || exit 1
include=$prefix/include
lib=$prefix/lib

# The compiler: ours to set, then what users of other MPIs set, then the usual one.
compiler=${VERBENA_@VARIABLE@:-${@PROGRAM@_@VARIABLE@:-${MPICH_@VARIABLE@:-${OMPI_@VARIABLE@:-}}}}
if [ -z "$compiler" ]; then
    for compiler in @COMPILERS@; do
        command -v "$compiler" >/dev/null 2>&1 && break
    done
fi

# One word as a shell reads it.
quoted() {
    case $1 in
    *[!A-Za-z0-9_./=:,+%@^-]* | '') printf "'%s'" "$(printf %s "$1" | sed "s/'/'\\\\''/g")" ;;
    *) printf %s "$1" ;;
    esac
}

# Words on one line.
say() {
    space=
    for word; do
        printf %s "$space"
        quoted "$word"
        space=' '
    done
    printf '\n'
}

usage() {
    cat <<'END'
usage: @NAME@ [options] files ...

Runs the compiler with the paths and libraries of MPI. Options of its own:
  -show, -showme          print the command instead of running it
  -showme:compile         print the flags for compiling  (-compile-info, -compile_info)
  -showme:link            print the flags for linking    (-link-info, -link_info)
  -showme:incdirs         print the folder of mpi.h
  -showme:libdirs         print the folder of the library
  -showme:libs            print the name of the library
  -showme:command         print the compiler
  -showme:version         print the version of MPI
  -@OPTION@=COMPILER            use this compiler (also: the variables VERBENA_@VARIABLE@, @PROGRAM@_@VARIABLE@)
END
}

# What this language needs besides: `modules` is a folder, `extra` is an option.
modules=
extra=
prepared=
@PREPARE@
compile_flags() {
    prepare
    say "-I$include" ${modules:+"-I$modules"} ${extra:+"$extra"}
}
link_flags() {
    prepare
    say "-L$lib" "-Wl,-rpath,$lib" -Wl,--enable-new-dtags ${modules:+"-L$modules"} \
        ${modules:+-lverbena_modules} @LIBS@
}

# `link` unless an option stops the compiler before that; `ask` when there is nothing to compile.
stage=link
show=no
verbose=no
files=no
expects=no
count=$#
while [ "$count" -gt 0 ]; do
    argument=$1
    shift
    count=$((count - 1))
    case $argument in
    -show | --show | -showme | --showme) show=yes ; continue ;;
    -showme:compile | --showme:compile | -compile[-_]info | -show-compile-info) compile_flags ; exit ;;
    -showme:link | --showme:link | -link[-_]info | -show-link-info) link_flags ; exit ;;
    -showme:incdir | -showme:incdirs | --showme:incdirs | -show-incdir) printf '%s\n' "$include" ; exit ;;
    -showme:libdir | -showme:libdirs | --showme:libdirs | -show-libdir) printf '%s\n' "$lib" ; exit ;;
    -showme:libs | --showme:libs | -show-libs) printf '%s\n' '@LIBS@' | sed 's/-l//g' ; exit ;;
    -showme:command | --showme:command) printf '%s\n' "$compiler" ; exit ;;
    -showme:version | --showme:version) printf '@NAME@: Verbena %s (MPI 5.0)\n' "$version" ; exit ;;
    -help | -showme:help | --showme:help) usage ; exit ;;
    -showme:* | --showme:*) printf '@NAME@: no such question: %s\n' "$argument" >&2 ; exit 1 ;;
    -@OPTION@=*) compiler=${argument#*=} ; continue ;;
    -c | -S | -E | -M | -MM | -fsyntax-only | --precompile) stage=compile ;;
    -v | -V | -### | --version | -dumpversion | -dumpfullversion | -dumpmachine | -dumpspecs) verbose=yes ;;
    -print-* | --print-* | --help* | --target-help | -qversion) verbose=yes ;;
    -l* | -Wl,*) files=yes ;;
    -) files=yes ;;
    -*) ;;
    *) [ "$expects" = yes ] || files=yes ;;
    esac
    case $argument in
    -x | -o | -I | -L | -D | -U | -include | -isystem | -std) expects=yes ;;
    *) expects=no ;;
    esac
    set -- "$@" "$argument"
done
[ "$verbose" = yes ] && [ "$files" = no ] && stage=ask
if [ $# -eq 0 ] && [ "$show" = no ]; then
    usage >&2
    exit 1
fi

case $stage in
link)
    prepare
    set -- "-I$include" ${modules:+"-I$modules"} ${extra:+"$extra"} "$@" "-L$lib" \
        "-Wl,-rpath,$lib" -Wl,--enable-new-dtags ${modules:+"-L$modules"} \
        ${modules:+-lverbena_modules} @LIBS@
    ;;
compile)
    prepare
    set -- "-I$include" ${modules:+"-I$modules"} ${extra:+"$extra"} "$@"
    ;;
esac
# What may be the reason of a failure.
advice=
advise "$@"
# A compiler may be given with options of its own; therefore it is split into words. shellcheck
# disable=SC2086
if [ "$show" = yes ]; then
    say $compiler "$@"
elif [ -z "$advice" ]; then
    exec $compiler "$@"
else
    $compiler "$@"
    code=$?
    [ $code = 0 ] || printf '@NAME@: %s\n' "$advice" >&2
    exit $code
fi
