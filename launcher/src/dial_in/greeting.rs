//! The first message of an agent, after both sides have proved the token.

use bootstrap::control::{Decoder, Malformed, encode_limited};
use serde::{Deserialize, Serialize};

use crate::frames::VERSION;
use crate::hosts::{MAX_SLOTS, why_invalid_name};

/// The largest greeting, in bytes without its length.
const MAX_BYTES: usize = 1024;
/// The longest name of an agent's host, in bytes.
const MAX_NAME: usize = 255;

/// What an agent says of its host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Greeting {
    /// The agent's [`VERSION`].
    pub version: u32,
    /// The host's own name.
    pub name: String,
    /// The number of ranks that it is meant for.
    pub slots: u32,
}

impl Greeting {
    /// Returns the greeting of this process.
    pub fn new(name: String, slots: u32) -> Greeting {
        Greeting { version: VERSION, name, slots: slots.clamp(1, MAX_SLOTS) }
    }

    /// Encodes the greeting with its length.
    pub fn encode(&self) -> Result<Vec<u8>, Malformed> {
        encode_limited(self, MAX_BYTES)
    }

    /// Returns what is wrong with a greeting that has arrived, in words that follow "an agent".
    pub fn fault(&self) -> Option<String> {
        if self.version != VERSION {
            return Some(format!(
                "has version {}, this mpiexec has version {VERSION}: install the same Verbena in \
                 all images",
                self.version
            ));
        }
        let is_plain = self.name.len() <= MAX_NAME && !self.name.contains(char::is_control);
        if !is_plain || why_invalid_name(&self.name).is_some() {
            return Some("gives its host a name that cannot be used".into());
        }
        (!(1..=MAX_SLOTS).contains(&self.slots)).then(|| format!("offers {} slots", self.slots))
    }
}

/// Returns a decoder for greetings.
pub fn decoder() -> Decoder {
    Decoder::with_limit(MAX_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greeting_arrives_and_what_is_wrong_with_it_is_named() {
        let greeting = Greeting::new("worker-0".into(), 4);
        let mut decoder = decoder();
        decoder.push(&greeting.encode().unwrap());
        let arrived = decoder.next_message::<Greeting>().unwrap().unwrap();
        assert_eq!((arrived.fault(), &arrived), (None, &greeting));
        let other = Greeting { version: VERSION + 1, ..greeting.clone() };
        assert!(other.fault().unwrap().contains("install the same Verbena"));
        for name in ["", "a b", "-x", "a\u{1b}[2J", &"x".repeat(256)] {
            assert!(Greeting::new(name.into(), 1).fault().is_some(), "{name:?}");
        }
        assert!(Greeting { slots: 0, ..greeting }.fault().is_some());
    }
}
