//! See `tests::decoders::rank_params`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    tests::decoders::rank_params(bytes);
});
