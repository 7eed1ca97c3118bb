//! The UD endpoint is C: the crate `ibverbs` has no datagrams.

fn main() {
    println!("cargo:rerun-if-changed=ud.c");
    println!("cargo:rerun-if-changed=ud.h");
    cc::Build::new().file("ud.c").warnings(true).compile("ud");
}
