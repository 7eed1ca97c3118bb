//! See `tests::decoders::wire_header`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    tests::decoders::wire_header(bytes);
});
