//! See `tests::decoders::launcher_frames`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    tests::decoders::launcher_frames(bytes);
});
