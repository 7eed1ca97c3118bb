//! See `tests::decoders::knobs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    tests::decoders::knobs(bytes);
});
