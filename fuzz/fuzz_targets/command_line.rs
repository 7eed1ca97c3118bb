//! See `tests::decoders::command_line`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    tests::decoders::command_line(bytes);
});
