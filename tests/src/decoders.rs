//! Fuzz targets: the decoders of everything that comes from outside a process.
//!
//! Each function takes any bytes and returns whether the decoder accepted them. It panics if the
//! decoder does, or if an accepted value changes when it is encoded and decoded again.
//! `tests/fuzz.rs` runs these functions with mutated inputs on stable Rust; `fuzz/` has a target of
//! cargo-fuzz for each.

use std::ffi::OsString;

use bootstrap::control::{Decoder, ToLauncher, ToRank, encode};
use bootstrap::environment::RankParams;
use bootstrap::status_entry::decode_entry;
use bootstrap::status_page::decode_header;
use config::{File, Knobs, Level};
use fabric::transport::Rts;
use fabric::{Header, Region};
use launcher::binding::Machine;
use launcher::dial_in::greeting::{self, Greeting};
use launcher::frames::{self, FromHost, ToHost};
use launcher::hosts::{merge, parse_file, parse_list};
use launcher::options::{Command, parse_with};
use serde::Serialize;
use serde::de::DeserializeOwned;
use verbs_transport::fuzzing;

/// A fuzz target: its name, which is that of its corpus, and its function.
pub type Target = (&'static str, fn(&[u8]) -> bool);

/// All targets.
pub const TARGETS: &[Target] = &[
    ("wire_header", wire_header),
    ("control", control),
    ("launcher_frames", launcher_frames),
    ("wireup", wireup),
    ("tcp", tcp),
    ("knobs", knobs),
    ("hosts", hosts),
    ("rank_params", rank_params),
    ("process_manager", process_manager),
    ("status_page", status_page),
    ("command_line", command_line),
];

/// Decodes a frame: the wire header, then its body as the bodies that have fields.
pub fn wire_header(frame: &[u8]) -> bool {
    let Ok((header, body)) = Header::decode(frame) else { return false };
    let encoded = header.encode();
    assert_eq!(Header::decode(&encoded), Ok((header, &[][..])));
    if let Some(rts) = Rts::decode(body) {
        assert_eq!(Rts::decode(&rts.encode()), Some(rts));
    }
    if let Some(region) = Region::decode(body) {
        assert_eq!(region.encode(), *body);
    }
    true
}

/// Decodes streams of control messages in both directions, in two pieces.
pub fn control(bytes: &[u8]) -> bool {
    let to_rank = messages::<ToRank>(Decoder::default(), bytes);
    let to_launcher = messages::<ToLauncher>(Decoder::default(), bytes);
    to_rank.iter().for_each(|message| assert_eq!(again(message), std::slice::from_ref(message)));
    to_launcher
        .iter()
        .for_each(|message| assert_eq!(again(message), std::slice::from_ref(message)));
    !to_rank.is_empty() || !to_launcher.is_empty()
}

fn again<T: Serialize + DeserializeOwned>(message: &T) -> Vec<T> {
    messages(Decoder::default(), &encode(message))
}

/// Decodes streams of frames between `mpiexec` and its daemons, in both directions, and greetings
/// of agents.
pub fn launcher_frames(bytes: &[u8]) -> bool {
    let to_host = messages::<ToHost>(frames::decoder(), bytes);
    let from_host = messages::<FromHost>(frames::decoder(), bytes);
    let greetings = messages::<Greeting>(greeting::decoder(), bytes);
    to_host.iter().for_each(keeps_its_encoding);
    from_host.iter().for_each(keeps_its_encoding);
    greetings.iter().for_each(keeps_its_encoding);
    let is_usable = greetings.iter().any(|greeting| greeting.fault().is_none());
    is_usable || !to_host.is_empty() || !from_host.is_empty()
}

fn keeps_its_encoding<T: Serialize + DeserializeOwned>(message: &T) {
    let Ok(encoded) = frames::encode(message) else { return };
    let again = messages::<T>(frames::decoder(), &encoded);
    assert_eq!(again.len(), 1, "an encoded frame is not decoded");
    assert_eq!(frames::encode(&again[0]), Ok(encoded));
}

/// The messages of a stream until its end or its first error.
fn messages<T: DeserializeOwned>(mut decoder: Decoder, bytes: &[u8]) -> Vec<T> {
    let mut messages = Vec::new();
    let (first, second) = bytes.split_at(bytes.len() / 2);
    for piece in [first, second] {
        decoder.push(piece);
        loop {
            match decoder.next_message() {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => break,
                Err(_) => return messages,
            }
        }
    }
    messages
}

/// Decodes what peers of the verbs transport send and publish.
pub fn wireup(bytes: &[u8]) -> bool {
    let accepted = [
        fuzzing::wireup_msg(bytes),
        fuzzing::notice(bytes),
        fuzzing::address(bytes),
        fuzzing::message(bytes) > 0,
        fuzzing::packet(bytes),
        fuzzing::eager_rdma_slot(bytes, 1).is_some(),
        fuzzing::ring_control(bytes),
    ];
    accepted.contains(&true)
}

/// Decodes what strangers and peers of the TCP transport send and publish.
pub fn tcp(bytes: &[u8]) -> bool {
    let is_handshake = tcp_transport::fuzzing::handshake(bytes);
    tcp_transport::fuzzing::records(bytes) || is_handshake
}

/// Loads a configuration: a file, then lines of environment variables, then lines of `--set`,
/// separated by zero bytes.
pub fn knobs(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let mut parts = text.split('\0');
    let mut part = || parts.next().unwrap_or_default();
    let file = File { level: Level::Site, path: "fuzz.toml".to_owned(), text: part().to_owned() };
    let environment = part().lines().filter_map(|line| line.split_once('='));
    let environment = environment.map(|(name, value)| (OsString::from(name), value.into()));
    match Knobs::load(&[file], environment, part().lines()) {
        Ok(_) => true,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
    }
}

/// Parses a host file, and each of its lines as a list of `mpiexec --hosts`.
pub fn hosts(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let file = parse_file("hosts", &text);
    let lists: Vec<_> = text.lines().map(parse_list).collect();
    let accepted: Vec<_> = lists.into_iter().chain([file]).flatten().collect();
    for hosts in &accepted {
        let mut names: Vec<_> = merge(hosts.clone()).into_iter().map(|host| host.name).collect();
        names.sort();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "a host twice: {names:?}");
    }
    !accepted.is_empty()
}

/// Texts of process managers: lines of PMI-1, messages of PMI-2, and the map of hosts. The ranks of
/// this host include the own one.
pub fn process_manager(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let pairs = bootstrap::process_manager::parse_pairs(&text);
    let line = bootstrap::process_manager::parse_line(&text);
    let ranks = bootstrap::process_manager::ranks_of_node(&text, 3, 8);
    if let Some(ranks) = &ranks {
        assert!(ranks.contains(&3) && ranks.iter().all(|rank| *rank < 8));
    }
    ranks.is_some() || pairs.len() + line.len() > 2
}

/// Parses the environment variable that a rank starts with.
pub fn rank_params(bytes: &[u8]) -> bool {
    let Ok(params) = RankParams::parse(&String::from_utf8_lossy(bytes)) else { return false };
    assert_eq!(RankParams::parse(&params.to_string()), Ok(params));
    true
}

/// Decodes the header of a status page, then entries of ranks.
pub fn status_page(bytes: &[u8]) -> bool {
    let (header, mut rest) = bytes.split_at(bytes.len().min(16));
    while let Some((entry, more)) = rest.split_first_chunk::<128>() {
        let seen = decode_entry(entry);
        assert!(seen.blocked.is_none_or(|blocked| blocked.since != 0));
        rest = more;
    }
    header.try_into().is_ok_and(|header| decode_header(header).is_ok_and(|size| size > 0))
}

/// Parses the words of a command line of `mpiexec`, one on each line. A host file's text is its
/// path. Places the ranks on the machine that the last words describe.
pub fn command_line(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let words = text.lines().map(OsString::from);
    let Ok(Command::Run(settings)) = parse_with(words, |path| Ok(path.to_owned())) else {
        return false;
    };
    let ranks = settings.total_ranks();
    assert!(ranks > 0, "a job without ranks");
    if let Some(machine) = text.lines().last().and_then(Machine::parse) {
        let sets = machine.assign(&settings.mapping, ranks.min(16)).unwrap_or_default();
        assert!(sets.iter().all(|set| !set.is_empty()), "a rank without a processor");
    }
    true
}
