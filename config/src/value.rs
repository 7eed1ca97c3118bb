//! Values of knobs: parsing text, and showing a value as text.

use std::time::Duration;

use crate::by_device::{ByDevice, parse_index};

/// The set of values that a knob can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `8192`, `8K`, `1M`, `2G`, also `8KB` and `8KiB`: all in powers of 1,024.
    Bytes {
        /// The smallest allowed.
        min: u64,
        /// The largest allowed.
        max: u64,
        /// Only powers of two are allowed.
        power_of_two: bool,
    },
    /// A power of two in bytes, or `auto`.
    SizeOrAuto {
        /// The smallest allowed.
        min: u64,
        /// The largest allowed.
        max: u64,
    },
    /// A whole number.
    Count {
        /// The smallest allowed.
        min: u64,
        /// The largest allowed.
        max: u64,
        /// The noun that it counts.
        unit: &'static str,
    },
    /// `50us`, `2ms`, `1s`, a number of microseconds, or `auto`.
    Time {
        /// The longest allowed.
        max: Duration,
    },
    /// `on` or `off`; also `true`, `false`, `yes`, `no`, `1`, `0`.
    Switch,
    /// One of the listed words.
    Choice(&'static [&'static str]),
    /// A number up to `max`, also in hexadecimal, or `auto`.
    Index {
        /// The largest allowed.
        max: u64,
    },
    /// A number as `Index` for all RDMA devices, or pairs of device and number, or `auto`.
    ByDevice {
        /// The largest allowed number.
        max: u64,
    },
    /// Names that the system knows, such as devices or a path: one word of up to
    /// [`Kind::MAX_TEXT`] bytes, or `auto`.
    Name,
    /// A text of up to [`Kind::MAX_TEXT`] bytes in one line, or `auto`.
    Text,
}

/// A value of a knob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// The value of `Bytes` and `Count`.
    Number(u64),
    /// A time, or `None` for auto.
    Time(Option<Duration>),
    /// On or off.
    Switch(bool),
    /// The index of the word.
    Choice(usize),
    /// A number or size, or `None` for auto.
    Index(Option<u64>),
    /// A name or a list of pairs, or `None` for auto. The text is leaked: a configuration lives as
    /// long as the process.
    Name(Option<&'static str>),
}

impl Kind {
    /// The most bytes of a name or a text.
    pub const MAX_TEXT: usize = 1023;

    /// Parses a value. The error says what is allowed.
    pub fn parse(&self, text: &str) -> Result<Value, String> {
        let text = text.trim();
        if let Some(auto) = self.auto().filter(|_| text.eq_ignore_ascii_case("auto")) {
            return Ok(auto);
        }
        match *self {
            Kind::Bytes { min, max, power_of_two } => {
                let number =
                    parse_bytes(text).ok_or("must be a number of bytes such as 8192, 8K or 1M")?;
                if !(min..=max).contains(&number) {
                    return Err(format!(
                        "must be from {} to {} bytes",
                        show_bytes(min),
                        show_bytes(max)
                    ));
                }
                if power_of_two && !number.is_power_of_two() {
                    return Err("must be a power of two".to_owned());
                }
                Ok(Value::Number(number))
            }
            Kind::SizeOrAuto { min, max } => {
                match (Kind::Bytes { min, max, power_of_two: true }).parse(text)? {
                    Value::Number(number) => Ok(Value::Index(Some(number))),
                    other => Ok(other),
                }
            }
            Kind::Count { min, max, unit } => match text.parse() {
                Ok(number) if (min..=max).contains(&number) => Ok(Value::Number(number)),
                Ok(_) => Err(format!("must be from {min} to {max} {unit}")),
                Err(_) => Err("must be a whole number".to_owned()),
            },
            Kind::Time { max } => {
                let time = time(text).ok_or("must be a time such as 50us, 2ms, or auto")?;
                if time > max {
                    return Err(format!("must be at most {} µs", max.as_micros()));
                }
                Ok(Value::Time(Some(time)))
            }
            Kind::Switch => {
                switch(text).map(Value::Switch).ok_or_else(|| "must be on or off".to_owned())
            }
            Kind::Choice(words) => {
                match words.iter().position(|word| word.eq_ignore_ascii_case(text)) {
                    Some(index) => Ok(Value::Choice(index)),
                    None => Err(format!("must be one of {}", words.join(", "))),
                }
            }
            Kind::Index { max } => match parse_index(text) {
                Some(number) if number <= max => Ok(Value::Index(Some(number))),
                Some(_) => Err(format!("must be at most {max}")),
                None => Err("must be a whole number or auto".to_owned()),
            },
            Kind::ByDevice { max } => {
                ByDevice::parse(text, max)?;
                Kind::leak(text, "line", |c| c == '\n')
            }
            Kind::Name => Kind::leak(text, "word", char::is_whitespace),
            Kind::Text => Kind::leak(text, "line", |c| c == '\n'),
        }
    }

    /// Keeps the text of a name, unless it ends early by `is_end`.
    fn leak(text: &str, what: &str, is_end: fn(char) -> bool) -> Result<Value, String> {
        if text.is_empty() || text.len() > Kind::MAX_TEXT || text.contains(is_end) {
            return Err(format!("must be one {what} of at most {} bytes, or auto", Kind::MAX_TEXT));
        }
        Ok(Value::Name(Some(Box::leak(text.into()))))
    }

    /// Returns the value of `auto` where that is allowed.
    fn auto(&self) -> Option<Value> {
        match self {
            Kind::SizeOrAuto { .. } | Kind::Index { .. } => Some(Value::Index(None)),
            Kind::Time { .. } => Some(Value::Time(None)),
            Kind::ByDevice { .. } | Kind::Name | Kind::Text => Some(Value::Name(None)),
            _ => None,
        }
    }

    /// Shows a value as the shortest text that parses to it.
    pub fn show(&self, value: Value) -> String {
        match (*self, value) {
            (Kind::Bytes { .. }, Value::Number(number))
            | (Kind::SizeOrAuto { .. }, Value::Index(Some(number))) => show_bytes(number),
            (Kind::Choice(words), Value::Choice(index)) => words[index].to_owned(),
            (_, Value::Number(number)) => number.to_string(),
            (_, Value::Time(None)) => "auto".to_owned(),
            (_, Value::Time(Some(time))) => time.as_micros().to_string(),
            (_, Value::Switch(on)) => if on { "on" } else { "off" }.to_owned(),
            (_, Value::Choice(index)) => index.to_string(),
            (_, Value::Index(None) | Value::Name(None)) => "auto".to_owned(),
            (_, Value::Index(Some(number))) => number.to_string(),
            (_, Value::Name(Some(text))) => text.to_owned(),
        }
    }

    /// Returns the unit of a number, or the allowed words.
    pub fn unit(&self) -> String {
        match self {
            Kind::Bytes { .. } => "bytes".to_owned(),
            Kind::SizeOrAuto { .. } => "bytes|auto".to_owned(),
            Kind::Count { unit, .. } => (*unit).to_owned(),
            Kind::Time { .. } => "µs".to_owned(),
            Kind::Switch => "on|off".to_owned(),
            Kind::Choice(words) => words.join("|"),
            Kind::Index { .. } => "number|auto".to_owned(),
            Kind::ByDevice { .. } => "number|pairs|auto".to_owned(),
            Kind::Name => "name|auto".to_owned(),
            Kind::Text => "text|auto".to_owned(),
        }
    }
}

/// Splits a number from its unit.
fn split_number(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, text[end..].trim_start()))
}

/// Parses a size as users write it: `8`, `64K`, `1MiB`. `None` for anything else.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let (number, unit) = split_number(text)?;
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        _ => return None,
    };
    number.checked_mul(1 << shift)
}

/// Shows a size as users write it: 128K.
pub fn show_bytes(number: u64) -> String {
    for (shift, unit) in [(30, "G"), (20, "M"), (10, "K")] {
        if number != 0 && number.is_multiple_of(1 << shift) {
            return format!("{}{unit}", number >> shift);
        }
    }
    number.to_string()
}

fn time(text: &str) -> Option<Duration> {
    let (number, unit) = split_number(text)?;
    let micros = match unit {
        "" | "us" | "µs" | "μs" => 1,
        "ms" => 1_000,
        "s" => 1_000_000,
        _ => return None,
    };
    number.checked_mul(micros).map(Duration::from_micros)
}

fn switch(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "on" | "true" | "yes" | "1" => Some(true),
        "off" | "false" | "no" | "0" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: Kind = Kind::Bytes { min: 64, max: 1 << 30, power_of_two: false };

    #[test]
    fn sizes_have_suffixes() {
        for (text, bytes) in [
            ("64", 64),
            ("8K", 8192),
            (" 8 kib ", 8192),
            ("1MB", 1 << 20),
            ("3m", 3 << 20),
            ("1G", 1 << 30),
            ("100b", 100),
        ] {
            assert_eq!(BYTES.parse(text), Ok(Value::Number(bytes)), "{text}");
        }
        for text in [
            "",
            "K",
            "8X",
            "-8",
            "8.5K",
            "0x40",
            "99999999999999999999",
            "18446744073709551615G",
            "8K8",
        ] {
            assert!(BYTES.parse(text).is_err(), "{text}");
        }
        assert_eq!(BYTES.parse("63").unwrap_err(), "must be from 64 to 1G bytes");
        assert_eq!(BYTES.parse("2G").unwrap_err(), "must be from 64 to 1G bytes");
        let power = Kind::Bytes { min: 1, max: 1 << 20, power_of_two: true };
        assert_eq!(power.parse("24K").unwrap_err(), "must be a power of two");
        assert_eq!(
            [0, 100, 8192, 12288, 1 << 20, 3 << 30].map(show_bytes),
            ["0", "100", "8K", "12K", "1M", "3G"]
        );
    }

    #[test]
    fn times_have_units_or_are_automatic() {
        let kind = Kind::Time { max: Duration::from_secs(1) };
        for (text, micros) in
            [("50", 50), ("50us", 50), ("50 µs", 50), ("2ms", 2000), ("1s", 1_000_000), ("0", 0)]
        {
            assert_eq!(
                kind.parse(text),
                Ok(Value::Time(Some(Duration::from_micros(micros)))),
                "{text}"
            );
        }
        assert_eq!(kind.parse("AUTO"), Ok(Value::Time(None)));
        assert!(
            kind.parse("2s").is_err() && kind.parse("1h").is_err() && kind.parse("-1").is_err()
        );
        assert_eq!(kind.show(Value::Time(Some(Duration::from_millis(2)))), "2000");
    }

    #[test]
    fn indices_and_names_are_automatic_or_given() {
        let kind = Kind::Index { max: 0xffff };
        assert_eq!(kind.parse("auto"), Ok(Value::Index(None)));
        assert_eq!(kind.parse("0x7fff"), Ok(Value::Index(Some(0x7fff))));
        assert_eq!(kind.parse("3"), Ok(Value::Index(Some(3))));
        assert_eq!(kind.parse("65536").unwrap_err(), "must be at most 65535");
        assert!(kind.parse("-1").is_err() && kind.parse("mlx5").is_err());
        assert_eq!(Kind::Name.parse("Auto"), Ok(Value::Name(None)));
        assert_eq!(Kind::Name.parse(" mlx5_0 "), Ok(Value::Name(Some("mlx5_0"))));
        assert!(Kind::Name.parse("").is_err() && Kind::Name.parse("two words").is_err());
        let path = format!("/{}", "x".repeat(1022));
        assert!(Kind::Name.parse(&path).is_ok_and(|value| Kind::Name.show(value) == path));
        let why = "must be one word of at most 1023 bytes, or auto";
        assert_eq!(Kind::Name.parse(&format!("{path}x")).unwrap_err(), why);
        assert_eq!(Kind::Name.show(Value::Name(Some("mlx5_0"))), "mlx5_0");
        let rules = "bcast from=64K ring; reduce=linear";
        assert_eq!(Kind::Text.parse(rules), Ok(Value::Name(Some(rules))));
        assert!(Kind::Text.parse("").is_err() && Kind::Text.parse("a\nb").is_err());
        let pairs = Kind::ByDevice { max: 0xffff };
        assert_eq!(pairs.parse("auto"), Ok(Value::Name(None)));
        assert_eq!(pairs.parse(" a:1=3,b=0x5 "), Ok(Value::Name(Some("a:1=3,b=0x5"))));
        assert!(pairs.parse("a:1=3,b").unwrap_err().contains("\"b\""));
        assert_eq!(kind.show(Value::Index(None)), "auto");
        let size = Kind::SizeOrAuto { min: 64, max: 1 << 20 };
        for (text, value) in [("auto", None), ("4k", Some(4 << 10))] {
            assert_eq!(size.parse(text), Ok(Value::Index(value)));
            assert_eq!(size.show(Value::Index(value)), text.replace('k', "K"));
        }
        assert_eq!(size.parse("5000").unwrap_err(), "must be a power of two");
    }

    #[test]
    fn words_and_switches_are_lenient_about_case() {
        let kind = Kind::Choice(&["auto", "off", "on"]);
        assert_eq!(kind.parse("Off"), Ok(Value::Choice(1)));
        assert_eq!(kind.parse("never").unwrap_err(), "must be one of auto, off, on");
        assert_eq!(Kind::Switch.parse("Yes"), Ok(Value::Switch(true)));
        assert_eq!(Kind::Switch.parse("0"), Ok(Value::Switch(false)));
        assert!(Kind::Switch.parse("maybe").is_err());
        let count = Kind::Count { min: 1, max: 9, unit: "messages" };
        assert_eq!(count.parse("10").unwrap_err(), "must be from 1 to 9 messages");
        assert_eq!(count.parse("1K").unwrap_err(), "must be a whole number");
    }
}
