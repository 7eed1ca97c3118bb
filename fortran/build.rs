//! Link arguments of `libverbena_fortran.so`, and a stand-in for `libmpi_abi.so` to link with. With
//! the feature `mpich` these are `libmpifort.so.12` and `libmpi.so.12`, with the feature `openmpi`
//! `libmpi_mpifh.so.40` and `libmpi.so.40`.
//!
//! The stand-in has the soname of the MPI library and a symbol for each of its functions. The
//! library is therefore linked without any MPI, and records that it needs that soname.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Variables of `libmpi.so.12`.
const OF_MPICH: &[&str] =
    &["MPI_UNWEIGHTED", "MPI_WEIGHTS_EMPTY", "MPI_F_STATUS_IGNORE", "MPI_F_STATUSES_IGNORE"];

/// Variables of `libmpi.so.40`.
const OF_OPENMPI: &[&str] = &[
    "MPI_F_STATUS_IGNORE",
    "MPI_F_STATUSES_IGNORE",
    "MPI_F08_STATUS_IGNORE",
    "MPI_F08_STATUSES_IGNORE",
    "ompi_message_null",
    "ompi_mpi_comm_null",
    "ompi_mpi_comm_world",
    "ompi_mpi_datatype_null",
    "ompi_mpi_errhandler_null",
    "ompi_mpi_file_null",
    "ompi_mpi_group_null",
    "ompi_mpi_info_null",
    "ompi_mpi_instance_null",
    "ompi_mpi_op_null",
    "ompi_mpi_win_null",
    "ompi_request_null",
];

fn main() {
    let has = |feature| env::var_os(feature).is_some();
    let (mpi, soname, variables) = match () {
        () if has("CARGO_FEATURE_MPICH") => ("libmpi.so.12", "libmpifort.so.12", OF_MPICH),
        () if has("CARGO_FEATURE_OPENMPI") => ("libmpi.so.40", "libmpi_mpifh.so.40", OF_OPENMPI),
        () => ("libmpi_abi.so.1", "libverbena_fortran.so.1", &[] as &[&str]),
    };
    let table = "../mpi-abi/abi/functions.csv";
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={table}");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let rows = fs::read_to_string(table).expect("the table of functions");
    let (mut source, mut for_tests) = (String::new(), String::new());
    for name in rows.lines().skip(1).filter_map(|row| row.split(',').next()) {
        let _ = writeln!(source, "void {name}(void) {{}}\nvoid P{name}(void) {{}}");
        for name in [name.to_owned(), format!("P{name}")] {
            let _ = writeln!(for_tests, "#[unsafe(no_mangle)]\nextern \"C\" fn {name}() {{}}");
        }
    }
    for name in variables {
        let _ = writeln!(source, "int *{name};");
        let _ = writeln!(for_tests, "#[unsafe(no_mangle)]\nstatic mut {name}: usize = 0;");
    }
    // Unit tests are linked to no library, and call no MPI.
    fs::write(out.join("stand_in.rs"), for_tests).expect("OUT_DIR can be written");
    let c = out.join("stand_in.c");
    fs::write(&c, source).expect("OUT_DIR can be written");
    let mut cc = Command::new(env::var("CC").unwrap_or_else(|_| "cc".to_owned()));
    cc.args(["-shared", "-fPIC", "-w", &format!("-Wl,-soname,{mpi}"), "-o"]);
    let stand_in = out.join("stand_in.so");
    let built = cc.arg(&stand_in).arg(&c).status().expect("a C compiler runs");
    assert!(built.success(), "the stand-in for {mpi} does not compile");
    // By its path: a search path would be in LD_LIBRARY_PATH when cargo runs tests, and programs
    // of other tests would load the stand-in.
    println!("cargo::rustc-cdylib-link-arg={}", stand_in.display());
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,{soname}");
    // The MPI that lies next to this library, unless LD_LIBRARY_PATH names another.
    println!("cargo::rustc-cdylib-link-arg=-Wl,--enable-new-dtags,-rpath,$ORIGIN");
}
