//! Link arguments of `libmpi_abi.so`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // The soname of the standard ABI on Linux, which programs record.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libmpi_abi.so.1");
    // MPI_X jumps to this library's PMPI_X, not to a tool's, and needs no table for it.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
    // Functions that a profile marks as hot are placed together; functions that never run are
    // placed apart.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,keep-text-section-prefix");
}
