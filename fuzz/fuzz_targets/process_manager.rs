//! See `tests::decoders::process_manager`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    tests::decoders::process_manager(bytes);
});
