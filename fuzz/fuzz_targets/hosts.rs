//! See `tests::decoders::hosts`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    tests::decoders::hosts(bytes);
});
