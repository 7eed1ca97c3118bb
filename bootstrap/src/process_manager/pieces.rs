//! Bytes as text in pieces: managers store short texts.
//!
//! A value of n pieces is `n.` and hexadecimal digits under its key, then digits alone under the
//! keys `key~1`, `key~2` and so on. Decoding is total.

/// The largest number of pieces.
const MAX_PIECES: usize = 4096;

/// Returns the key of a piece.
pub(super) fn key(key: &str, index: usize) -> String {
    if index == 0 { format!("verbena.{key}") } else { format!("verbena.{key}~{index}") }
}

/// Returns the pieces of a value, each at most `max` bytes of text.
pub(super) fn encode(value: &[u8], max: usize) -> Vec<String> {
    // Two digits a byte; the first piece has the number of pieces in front.
    let bytes = (max.saturating_sub(8) / 2).max(1);
    let count = value.len().div_ceil(bytes).max(1);
    let digits = |piece: &[u8]| piece.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let mut pieces: Vec<String> = value.chunks(bytes).map(digits).collect();
    pieces.resize(count, String::new());
    pieces[0].insert_str(0, &format!("{count}."));
    pieces
}

/// Returns the value whose pieces `get` returns; `None` if there is no first piece.
pub(super) fn decode<E: ToString>(
    mut get: impl FnMut(usize) -> Result<Option<String>, E>,
) -> Result<Option<Vec<u8>>, String> {
    let Some(first) = get(0).map_err(|error| error.to_string())? else { return Ok(None) };
    let parsed = first.split_once('.').and_then(|(count, digits)| {
        let count = count.parse::<usize>().ok()?;
        (1..=MAX_PIECES).contains(&count).then_some((count, digits.to_owned()))
    });
    let (count, mut digits) = parsed.ok_or("it has no number of pieces")?;
    for index in 1..count {
        let piece = get(index).map_err(|error| error.to_string())?;
        digits += &piece.ok_or_else(|| format!("piece {index} of {count} is missing"))?;
    }
    bytes(&digits).map(Some).ok_or_else(|| "it has other characters than digits".into())
}

fn bytes(digits: &str) -> Option<Vec<u8>> {
    let digits = digits.trim().as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    digits.chunks(2).map(|pair| Some((digit(pair[0])? * 16 + digit(pair[1])?) as u8)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_value_survives_in_pieces(
            value in prop::collection::vec(any::<u8>(), 0..300),
            max in 10usize..80,
        ) {
            let pieces = encode(&value, max);
            prop_assert!(pieces.iter().all(|piece| piece.len() <= max));
            let get = |index: usize| Ok::<_, String>(pieces.get(index).cloned());
            prop_assert_eq!(decode(get), Ok(Some(value)));
        }

        #[test]
        fn any_text_is_a_value_or_an_error(texts in prop::collection::vec("[0-9a-f.]{0,9}|\\PC*", 3)) {
            let _ = decode(|index| Ok::<_, String>(texts.get(index).cloned()));
        }
    }

    #[test]
    fn a_value_that_is_not_there_is_none() {
        assert_eq!(decode(|_| Ok::<_, String>(None)), Ok(None));
    }
}
