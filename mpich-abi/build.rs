//! Link arguments of `libmpi.so.12`.
//!
//! The library is linked to no MPI: it has the same names as the one below it, which it opens when
//! it is loaded (`src/library.rs`).

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libmpi.so.12");
    // MPI_X jumps to this library's PMPI_X, not to a tool's, and needs no table for it.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
    // dlopen finds the library below in these folders, unless LD_LIBRARY_PATH names another.
    println!("cargo::rustc-cdylib-link-arg=-Wl,--enable-new-dtags,-rpath,$ORIGIN/..:$ORIGIN");
}
