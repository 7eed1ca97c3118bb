//! See `tests::decoders::control`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    tests::decoders::control(bytes);
});
