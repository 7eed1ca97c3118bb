//! How `libmpi_abi.so` is linked.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // The name that programs record: that of the standard ABI on Linux.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libmpi_abi.so.1");
    // MPI_X jumps to our PMPI_X, not to that of a tool, and needs no table for it.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
    // What a profile says is hot lies together, and what it says never runs lies apart.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,keep-text-section-prefix");
}
