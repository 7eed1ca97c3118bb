//! See `tests::decoders::tcp`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    tests::decoders::tcp(bytes);
});
