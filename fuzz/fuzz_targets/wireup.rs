//! See `tests::decoders::wireup`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    tests::decoders::wireup(bytes);
});
