//! Link arguments of `libmpi.so.12`, or with the feature `openmpi` of `libmpi.so.40`.
//!
//! The library is linked to no MPI: it has the same names as the one below it, which it opens when
//! it is loaded (`src/library.rs`).

use std::env;

fn main() {
    let soname = match env::var_os("CARGO_FEATURE_OPENMPI") {
        Some(_) => "libmpi.so.40",
        None => "libmpi.so.12",
    };
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,{soname}");
    // MPI_X jumps to this library's PMPI_X, not to a tool's, and needs no table for it. Variables
    // are not bound: a program may have its own copies of them, whose addresses are the right ones.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
    // dlopen finds the library below in these folders, unless LD_LIBRARY_PATH names another.
    println!("cargo::rustc-cdylib-link-arg=-Wl,--enable-new-dtags,-rpath,$ORIGIN/..:$ORIGIN");
}
