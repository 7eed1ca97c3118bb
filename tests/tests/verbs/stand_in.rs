//! Tests on the stand-in device: processes of their own, transports, and storms.

use std::ffi::CString;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use fabric::Peer;
use fabric::sim::Rng;
use tests::conformance::{Job, Weather, storm};
use tests::device;
use verbs_transport::{InProcessStore, Settings, VerbsTransport};

use crate::faulty::Faulty;

pub(crate) const SEED: u64 = 20_261_123;
/// The variable with the seeds that a test runs, as `FIRST..END`.
pub(crate) const SEEDS_VARIABLE: &str = "VERBENA_TEST_SEEDS";
/// Longest time of a test.
pub(crate) const LIMIT: Duration = Duration::from_secs(200);

/// Runs `body` in a process of its own with these options for the device.
pub(crate) fn alone(name: &str, options: &str, body: impl FnOnce()) {
    alone_by_seed(name, 0, options, body);
}

/// Runs `body` as [`alone`] does, one of several times in the test of this name.
pub(crate) fn alone_by_seed(name: &str, seed: u64, options: &str, body: impl FnOnce()) {
    const NAME: &str = "VERBS_DEVICE_TEST";
    let value = format!("{name} {seed}");
    if let Ok(wanted) = std::env::var(NAME) {
        // A child runs the part that it was started for, and no other.
        if wanted == value {
            body();
        }
        return;
    }
    // A network of its own: other tests run at the same time.
    let options = format!("fabric={name}-{} {options}", std::process::id());
    let mut child = Command::new(std::env::current_exe().expect("a path"))
        .args([name, "--exact", "--nocapture"])
        .env(NAME, value)
        .env(SEEDS_VARIABLE, format!("{seed}..{}", seed + 1))
        .env(verbs_device::options::VARIABLE, options)
        .spawn()
        .expect("the test starts itself");
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child") {
            break status;
        }
        if began.elapsed() > LIMIT {
            let _ = child.kill();
            panic!("{name} (seed {seed}) hangs");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(status.success(), "{name} (seed {seed}): {status}");
}

pub(crate) fn library() -> PathBuf {
    // Cargo builds it as a dependency, next to the tests.
    let folder = std::env::current_exe().expect("a path");
    folder.with_file_name("libverbs_device.so")
}

pub(crate) fn settings() -> Settings {
    Settings { library: Some(library().display().to_string()), ..Settings::default() }
}

/// Changes the devices of this process, see `verbs_device`.
pub(crate) fn control(text: &str) {
    let text = CString::new(text).expect("a text");
    assert!(device::control(&library(), &text), "the device does not know {text:?}");
}

pub(crate) fn transports(ranks: u32, settings: &Settings) -> Vec<VerbsTransport> {
    let store = InProcessStore::default();
    let open = |rank| {
        VerbsTransport::open(settings.clone(), Peer(rank), ranks, [3; 32], Box::new(store.clone()))
            .expect("a transport")
    };
    (0..ranks).map(open).collect()
}

/// Returns transports that break one of `every` polls' connections and poll for some time before
/// they sleep.
pub(crate) fn faulty(ranks: u32, settings: &Settings, every: u64) -> Vec<Faulty<VerbsTransport>> {
    let faulty = |(rank, inner)| Faulty {
        inner,
        rng: Rng::new(SEED + rank),
        ranks,
        every,
        polls_before_sleep: 50,
        idle: 0,
        interrupt: VerbsTransport::interrupt,
    };
    (0..).zip(transports(ranks, settings)).map(faulty).collect()
}

pub(crate) fn weather(steps: usize) -> Weather {
    Weather { steps, ..Weather::default() }
}

/// A storm among ranks that poll, with connections that break.
pub(crate) fn stormy(ranks: u32, settings: &Settings, every: u64, steps: usize) -> u64 {
    let mut job = Job::new("a storm", SEED, faulty(ranks, settings, every));
    job.nap(Duration::from_millis(100));
    storm(&mut job, &weather(steps));
    let written = (0..ranks).map(|rank| job.rank(rank).transport.inner.frames_written()).sum();
    job.end();
    written
}
