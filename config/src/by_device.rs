//! Ports of RDMA devices as users write them, and numbers that differ from device to device.
//!
//! A port is `device`, any of its ports, or `device:port`; `*` and `?` make it a pattern. Numbers
//! are one for all devices, or pairs as in `mlx5_0:1=3,mlx5_*=5`, of which the first that fits a
//! port applies.

/// A device, or several, and a port of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevicePattern {
    /// Name of the device, with `*` for any characters and `?` for one.
    pub device: String,
    /// Port, from 1; `None`: any.
    pub port: Option<u8>,
}

impl DevicePattern {
    /// Parses `device` or `device:port`; `None` for anything else.
    pub fn parse(text: &str) -> Option<DevicePattern> {
        let (device, port) = match text.split_once(':') {
            Some((device, port)) => (device, Some(port.parse().ok().filter(|&port| port > 0)?)),
            None => (text, None),
        };
        let is_name = !device.is_empty() && !device.contains([':', '^', '=', ',', ' ']);
        is_name.then(|| DevicePattern { device: device.to_owned(), port })
    }

    /// Returns whether it is the name of one device.
    pub fn is_name(&self) -> bool {
        !self.device.contains(['*', '?'])
    }

    /// Returns whether a port is meant.
    pub fn includes(&self, device: &str, port: u8) -> bool {
        self.port.is_none_or(|wanted| wanted == port)
            && matches(self.device.as_bytes(), device.as_bytes())
    }
}

/// Returns whether a name fits a pattern.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => (0..=name.len()).any(|from| matches(rest, &name[from..])),
        (Some((wanted, pattern)), Some((found, name))) => {
            (*wanted == b'?' || wanted == found) && matches(pattern, name)
        }
        _ => false,
    }
}

/// A number for each port of the devices, or none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ByDevice(Vec<(DevicePattern, u64)>);

impl ByDevice {
    /// Parses a number for all devices, or pairs with commas. The error names the entry.
    pub(crate) fn parse(text: &str, max: u64) -> Result<ByDevice, String> {
        let number = |text: &str| match parse_index(text.trim()) {
            Some(number) if number <= max => Ok(number),
            Some(_) => Err(format!("must be at most {max}")),
            None => Err("must be a whole number".to_owned()),
        };
        if !text.contains(['=', ',']) {
            let all = DevicePattern { device: "*".to_owned(), port: None };
            let number = number(text).map_err(|why| match parse_index(text) {
                Some(_) => why,
                None => format!("{why}, pairs such as mlx5_0:1=3,mlx5_2=5, or auto"),
            })?;
            return Ok(ByDevice(vec![(all, number)]));
        }
        let mut pairs: Vec<(DevicePattern, u64)> = Vec::new();
        for entry in text.split(',').map(str::trim) {
            let (ports, value) = entry.split_once('=').unwrap_or((entry, ""));
            let ports = DevicePattern::parse(ports.trim())
                .filter(|_| !value.is_empty())
                .ok_or_else(|| {
                    format!(
                        "{entry:?} must be DEVICE=NUMBER or DEVICE:PORT=NUMBER, as in mlx5_0:1=3"
                    )
                })?;
            if pairs.iter().any(|(other, _)| *other == ports) {
                return Err(format!("{entry:?} is the second entry for its device"));
            }
            let number = number(value).map_err(|why| format!("the number of {entry:?} {why}"))?;
            pairs.push((ports, number));
        }
        Ok(ByDevice(pairs))
    }

    /// Returns the number of a port.
    pub fn of(&self, device: &str, port: u8) -> Option<u64> {
        let mut pairs = self.0.iter();
        pairs.find(|(ports, _)| ports.includes(device, port)).map(|&(_, number)| number)
    }

    /// Returns the entries that name one device.
    pub fn named(&self) -> impl Iterator<Item = &DevicePattern> {
        self.0.iter().map(|(ports, _)| ports).filter(|ports| ports.is_name())
    }
}

/// Parses a whole number, decimal or with 0x in front.
pub(crate) fn parse_index(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_names_or_patterns() {
        let fits = |text: &str, device, port| {
            DevicePattern::parse(text).is_some_and(|ports| ports.includes(device, port))
        };
        assert!(fits("mlx5_0", "mlx5_0", 2) && !fits("mlx5_0", "mlx5_01", 1));
        assert!(fits("mlx5_0:1", "mlx5_0", 1) && !fits("mlx5_0:1", "mlx5_0", 2));
        assert!(fits("mlx5_*", "mlx5_bond_0", 1) && fits("mlx5_?", "mlx5_3", 2));
        assert!(!fits("mlx5_?", "mlx5_10", 1) && !fits("mlx5_*:2", "mlx5_0", 1));
        for wrong in ["", ":1", "a:", "a:x", "a:0", "a:256", "^a", "a:1:2", "a b"] {
            assert_eq!(DevicePattern::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_number_is_for_all_devices_or_for_the_first_entry_that_fits() {
        let of = |text: &str, device, port| ByDevice::parse(text, 65_535).unwrap().of(device, port);
        assert_eq!([of("3", "mlx5_0", 1), of("0x8001", "rxe0", 2)], [Some(3), Some(0x8001)]);
        let pairs = "mlx5_0:1=3, mlx5_2=5,mlx5_bond_*=0x7";
        let ports = [("mlx5_0", 1), ("mlx5_0", 2), ("mlx5_2", 2), ("mlx5_bond_1", 1), ("rxe0", 1)];
        let found = ports.map(|(device, port)| of(pairs, device, port));
        assert_eq!(found, [Some(3), None, Some(5), Some(7), None]);
        assert_eq!(of("mlx5_0:2=4,*=1", "mlx5_0", 1), Some(1));
        assert_eq!(ByDevice::default().of("mlx5_0", 1), None);
    }

    #[test]
    fn a_wrong_entry_is_named() {
        let why = |text: &str| ByDevice::parse(text, 65_535).unwrap_err();
        let lone = "must be a whole number, pairs such as mlx5_0:1=3,mlx5_2=5, or auto";
        assert_eq!([why(""), why("mlx5_0"), why("-1")], [lone; 3]);
        assert_eq!(why("65536"), "must be at most 65535");
        for (text, entry) in [
            ("a=1,b", "\"b\" must be DEVICE=NUMBER"),
            ("a=1,3", "\"3\" must be DEVICE=NUMBER"),
            ("a=1,^b=2", "\"^b=2\" must be DEVICE=NUMBER"),
            ("a:x=1,b=2", "\"a:x=1\" must be DEVICE=NUMBER"),
            ("a=,b=2", "\"a=\" must be DEVICE=NUMBER"),
            ("a=1,", "\"\" must be DEVICE=NUMBER"),
            ("a=1,b=x", "the number of \"b=x\" must be a whole number"),
            ("a=1,b=65536", "the number of \"b=65536\" must be at most 65535"),
            ("a:1=1,a:1=2", "\"a:1=2\" is the second entry for its device"),
        ] {
            assert!(why(text).starts_with(entry), "{text}: {}", why(text));
        }
    }

    #[test]
    fn entries_with_a_pattern_name_no_device() {
        let numbers = ByDevice::parse("mlx5_7*=3,mlx5_0:2=3,mlx5_1=4", 9).unwrap();
        let named: Vec<_> = numbers.named().map(|ports| (&*ports.device, ports.port)).collect();
        assert_eq!(named, [("mlx5_0", Some(2)), ("mlx5_1", None)]);
        assert_eq!(ByDevice::parse("3", 9).unwrap().named().count(), 0);
    }
}
