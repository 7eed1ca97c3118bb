//! The common blocks of MPICH's `mpif.h`, and the variables of its `mpi_f08`.

use std::os::raw::c_int;

use crate::target::common::{blocks, sentinels, told_to_c};

blocks! {
    mpipriv1_: c_int 7;
    mpipriv2_: c_int 6;
    mpiprivc_: u8 2;
    mpifcmb5_: c_int 1;
    mpifcmb9_: c_int 1;
    mpifcmba_: c_int 1;
    MPIR_F08_MPI_BOTTOM: c_int 1;
    MPIR_F08_MPI_IN_PLACE: c_int 1;
    MPIR_F08_MPI_STATUS_IGNORE_OBJ: c_int 5;
    MPIR_F08_MPI_STATUSES_IGNORE_OBJ: c_int 5;
    __mpi_f08_link_constants_MOD_mpi_argv_null: u8 1;
    __mpi_f08_link_constants_MOD_mpi_argvs_null: u8 1;
    __mpi_f08_link_constants_MOD_mpi_errcodes_ignore: c_int 1;
    __mpi_f08_link_constants_MOD_mpi_unweighted: c_int 1;
    __mpi_f08_link_constants_MOD_mpi_weights_empty: c_int 1;
    __mpi_f08_link_constants_MOD_mpi_buffer_automatic: c_int 1;
    mpi_f08_link_constants_mp_mpi_argv_null_: u8 1;
    mpi_f08_link_constants_mp_mpi_argvs_null_: u8 1;
    mpi_f08_link_constants_mp_mpi_errcodes_ignore_: c_int 1;
    mpi_f08_link_constants_mp_mpi_unweighted_: c_int 1;
    mpi_f08_link_constants_mp_mpi_weights_empty_: c_int 1;
    mpi_f08_link_constants_mp_mpi_buffer_automatic_: c_int 1;
}

sentinels! {
    /// MPI_BOTTOM.
    is_bottom: mpipriv1_ + 0 MPIR_F08_MPI_BOTTOM + 0;
    /// MPI_IN_PLACE.
    is_in_place: mpipriv1_ + 4 MPIR_F08_MPI_IN_PLACE + 0;
    /// MPI_STATUS_IGNORE.
    is_status_ignore: mpipriv1_ + 8 MPIR_F08_MPI_STATUS_IGNORE_OBJ + 0;
    /// MPI_STATUSES_IGNORE.
    is_statuses_ignore: mpipriv2_ + 0 MPIR_F08_MPI_STATUSES_IGNORE_OBJ + 0;
    /// MPI_ERRCODES_IGNORE.
    is_errcodes_ignore: mpipriv2_ + 20 __mpi_f08_link_constants_MOD_mpi_errcodes_ignore + 0
        mpi_f08_link_constants_mp_mpi_errcodes_ignore_ + 0;
    /// MPI_ARGVS_NULL.
    is_argvs_null: mpiprivc_ + 0 __mpi_f08_link_constants_MOD_mpi_argvs_null + 0
        mpi_f08_link_constants_mp_mpi_argvs_null_ + 0;
    /// MPI_ARGV_NULL.
    is_argv_null: mpiprivc_ + 1 __mpi_f08_link_constants_MOD_mpi_argv_null + 0
        mpi_f08_link_constants_mp_mpi_argv_null_ + 0;
    /// MPI_UNWEIGHTED.
    is_unweighted: mpifcmb5_ + 0 __mpi_f08_link_constants_MOD_mpi_unweighted + 0
        mpi_f08_link_constants_mp_mpi_unweighted_ + 0;
    /// MPI_WEIGHTS_EMPTY.
    is_weights_empty: mpifcmb9_ + 0 __mpi_f08_link_constants_MOD_mpi_weights_empty + 0
        mpi_f08_link_constants_mp_mpi_weights_empty_ + 0;
    /// MPI_BUFFER_AUTOMATIC.
    is_buffer_automatic: mpifcmba_ + 0 __mpi_f08_link_constants_MOD_mpi_buffer_automatic + 0
        mpi_f08_link_constants_mp_mpi_buffer_automatic_ + 0;
}

told_to_c! {
    MPI_F_STATUS_IGNORE = mpipriv1_ + 8;
    MPI_F_STATUSES_IGNORE = mpipriv2_ + 0;
}
