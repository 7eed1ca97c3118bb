//! The token that agents and `mpiexec` share: read from a file or from a variable, never from the
//! command line, which other users can see.

use std::io;

/// The variable with the token, if no file is given. Ranks and daemons do not get it.
pub const VARIABLE: &str = "VERBENA_TOKEN";

/// The shortest token, in bytes.
const MIN_BYTES: usize = 16;

/// The use of the derived key, which no other derivation has.
const CONTEXT: &str = "Verbena 2026-11 token of agents that dial in";

/// Returns the secret of a token, from a file or from [`VARIABLE`]. White space around the token
/// is ignored. The error is one line for the user.
pub fn read(
    file: Option<&str>,
    read_file: impl Fn(&str) -> io::Result<String>,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<[u8; 32], String> {
    let (text, origin) = match file {
        Some(path) => {
            let text = read_file(path)
                .map_err(|error| format!("--token-file {path}: cannot read it: {error}"))?;
            (text, format!("--token-file {path}"))
        }
        None => {
            let missing = || {
                format!(
                    "agents need a token: write one to a file for --token-file, or set {VARIABLE}; \
                     `openssl rand -hex 32` makes one"
                )
            };
            (variable(VARIABLE).ok_or_else(missing)?, VARIABLE.to_owned())
        }
    };
    let token = text.trim();
    if token.len() < MIN_BYTES {
        return Err(format!(
            "{origin}: its token has {} bytes, must have at least {MIN_BYTES}; `openssl rand -hex \
             32` makes one",
            token.len()
        ));
    }
    Ok(blake3::derive_key(CONTEXT, token.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    fn from(file: Option<&str>, variable: Option<&str>) -> Result<[u8; 32], String> {
        let read_file = |path: &str| match path {
            "gone" => Err(io::Error::from(io::ErrorKind::NotFound)),
            "short" => Ok("secret\n".to_owned()),
            _ => Ok(format!("{TOKEN}\n")),
        };
        read(file, read_file, |name| variable.filter(|_| name == VARIABLE).map(str::to_owned))
    }

    #[test]
    fn a_file_and_a_variable_give_the_same_secret_and_no_secret_is_the_token() {
        let secret = from(Some("file"), None).unwrap();
        assert_eq!(from(None, Some(TOKEN)), Ok(secret));
        assert_ne!(from(None, Some("0123456789abcdeg")), Ok(secret));
        assert!(!TOKEN.as_bytes().starts_with(&secret[..8]));
    }

    #[test]
    fn what_is_wrong_with_a_token_is_said_without_it() {
        assert!(from(None, None).unwrap_err().contains("openssl rand -hex 32"));
        let short = from(Some("short"), None).unwrap_err();
        assert!(short.starts_with("--token-file short: its token has 6 bytes"), "{short}");
        assert!(!short.contains("secret"));
        assert!(from(Some("gone"), None).unwrap_err().contains("cannot read it"));
    }
}
