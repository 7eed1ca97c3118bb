//! See `tests::decoders::status_page`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    tests::decoders::status_page(bytes);
});
