# Modules fit one compiler and version. They are built from the installed sources when a compiler
# is first used, into the user's cache, unless the installation has them. Where the cache cannot be
# written, they go to a folder of the user's below /tmp. VERBENA_MODULES names another folder.
sources=$prefix/share/verbena/modules

prepare() {
    [ -z "$prepared" ] || return 0
    prepared=yes
    # shellcheck disable=SC2086
    about=$($compiler --version 2>/dev/null </dev/null | head -n 2)
    [ -n "$about" ] || about=$compiler
    edit=
    case $about in
    *flang*)
        # flang refuses an element of a pointer array for an array, whatever the directives say.
        edit='s/TYPE(\*), DIMENSION(\*)/TYPE(*)/'
        ;;
    *'GNU Fortran'*)
        # Calls through mpif.h pass buffers of many types; since version 10 that is an error.
        # shellcheck disable=SC2086
        major=$($compiler -dumpversion 2>/dev/null | cut -d. -f1)
        [ "${major:-0}" -lt 10 ] || extra=-fallow-argument-mismatch
        ;;
    esac
    key=$(
        {
            printf '%s\n' "$about" "$edit"
            cat "$sources"/*.f90
        } 2>/dev/null | cksum | cut -d' ' -f1
    )
    name=${compiler%% *}
    key=${name##*/}-$key
    cache=${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}
    cache=${VERBENA_MODULES:-${cache:+$cache/verbena/modules}}
    spare=${TMPDIR:-/tmp}/verbena-modules-$(id -u)
    for folder in "$lib/verbena/modules" "$cache" "$spare"; do
        modules=$folder/$key
        is_trusted && [ -e "$modules/libverbena_modules.a" ] && return 0
    done
    for folder in "$cache" "$spare"; do
        modules=$folder/$key
        new=$folder/.$key.$$
        [ "$folder" != "$spare" ] || mkdir -m 700 "$spare" 2>/dev/null
        if is_trusted && mkdir -p "$new" 2>/dev/null; then
            build_modules
            return 0
        fi
    done
    failed 'cannot write modules to the cache, nor below /tmp (VERBENA_MODULES names another folder)'
}

# Another user may have made a folder by the name of the spare one.
is_trusted() {
    [ -n "$folder" ] && { [ "$folder" != "$spare" ] || { [ -O "$spare" ] && [ ! -L "$spare" ]; }; }
}

# Builds in a folder of its own and moves it into place, as several compilers may start at once.
build_modules() {
    if (
        cd "$new" &&
            for module in verbena_mpi_types mpi mpi_f08; do
                sed "$edit" "$sources/$module.f90" >$module.f90
                # shellcheck disable=SC2086
                $compiler -fPIC -c $module.f90 || exit 1
            done &&
            ar cr libverbena_modules.a ./*.o && rm ./*.o ./*.f90
    ) >"$new.log" 2>&1; then
        # A folder without the library is damaged. One that was made meanwhile has had it from the
        # start; where there is none yet, nothing may be removed, as it may be there by then.
        [ ! -d "$modules" ] || [ -e "$modules/libverbena_modules.a" ] || rm -rf "$modules"
        [ -d "$modules" ] || mv "$new" "$modules" 2>/dev/null
        rm -rf "$new" "$modules/.$key.$$" "$new.log"
        [ ! -e "$modules/libverbena_modules.a" ] || return 0
    fi
    failed "cannot build the modules mpi and mpi_f08 in $folder"
    [ ! -s "$new.log" ] || head -n 5 "$new.log" >&2
    rm -rf "$new" "$new.log"
}

failed() {
    printf '@NAME@: %s %s; mpif.h can be used\n' "$compiler" "$1" >&2
    modules=
}

# INTEGERs of another size fit no interface, which compilers say in words of their own.
advise() {
    for word; do
        case $word in
        -fdefault-integer-8 | -i8 | -Mi8 | -integer-size=64 | -qintsize=8)
            advice="$word changes the size of INTEGER, and MPI's interfaces take INTEGERs of 4 bytes: \
declare those that are passed to MPI as integer(kind=4), or leave $word out"
            ;;
        esac
    done
}
