//! The list of RDMA devices that `verbs.devices` gives: names, patterns, and exclusions.
//!
//! An item is a device, or `device:port`; `*` and `?` in it make it a pattern; `^` in front
//! excludes what it matches. Without an item that includes, everything that is not excluded counts.

use crate::unavailable::Unavailable;

/// A device list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeviceList {
    items: Vec<Item>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) device: String,
    /// Port, from 1; `None`: any.
    pub(crate) port: Option<u8>,
    is_excluded: bool,
}

impl DeviceList {
    /// Parses the items of a list.
    pub(crate) fn parse(items: &[String]) -> Result<DeviceList, Unavailable> {
        let invalid = || Unavailable::DeviceList(items.join(","));
        let parse = |text: &String| {
            let (is_excluded, text) = match text.strip_prefix('^') {
                Some(rest) => (true, rest),
                None => (false, text.as_str()),
            };
            let (device, port) = match text.split_once(':') {
                Some((device, port)) => {
                    let port = port.parse().ok().filter(|&port| port > 0);
                    (device, Some(port.ok_or_else(invalid)?))
                }
                None => (text, None),
            };
            match device {
                "" => Err(invalid()),
                _ => Ok(Item { device: device.to_owned(), port, is_excluded }),
            }
        };
        Ok(DeviceList { items: items.iter().map(parse).collect::<Result<_, _>>()? })
    }

    /// Returns the items if they name devices and nothing else: the ports that are meant.
    pub(crate) fn names(&self) -> Option<&[Item]> {
        let is_name = |item: &Item| !item.is_excluded && !item.device.contains(['*', '?']);
        (!self.items.is_empty() && self.items.iter().all(is_name)).then_some(&self.items)
    }

    /// Returns whether a port is meant.
    pub(crate) fn includes(&self, device: &str, port: u8) -> bool {
        let fits = |item: &&Item| {
            item.port.is_none_or(|wanted| wanted == port)
                && matches(item.device.as_bytes(), device.as_bytes())
        };
        let mut included = self.items.iter().filter(|item| !item.is_excluded).peekable();
        let is_meant = included.peek().is_none() || included.any(|item| fits(&item));
        is_meant && !self.items.iter().filter(|item| item.is_excluded).any(|item| fits(&item))
    }
}

/// Returns whether a name fits a pattern, in which `*` stands for any characters and `?` for one.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Result<DeviceList, Unavailable> {
        DeviceList::parse(&text.split(',').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn names_patterns_and_exclusions() {
        let meant = |text: &str, device: &str, port| list(text).unwrap().includes(device, port);
        assert!(meant("mlx5_0:1,mlx5_2", "mlx5_0", 1) && meant("mlx5_0:1,mlx5_2", "mlx5_2", 2));
        assert!(!meant("mlx5_0:1,mlx5_2", "mlx5_0", 2) && !meant("mlx5_0", "mlx5_01", 1));
        assert!(meant("mlx5_*", "mlx5_bond_0", 1) && meant("mlx5_?", "mlx5_3", 2));
        assert!(!meant("mlx5_?", "mlx5_10", 1) && !meant("mlx5_*:2", "mlx5_0", 1));
        assert!(meant("^mlx5_1", "mlx5_0", 1) && !meant("^mlx5_1", "mlx5_1", 1));
        assert!(!meant("mlx5_*,^mlx5_bond_*", "mlx5_bond_0", 1));
        assert!(meant("*:1,^*:2", "rxe0", 1));
        assert!(DeviceList::default().includes("rxe0", 1));
    }

    #[test]
    fn only_plain_names_say_which_ports_are_meant() {
        let names = list("a,b:2").unwrap();
        let expected = [("a", None), ("b", Some(2))];
        let found = names.names().unwrap().iter().map(|item| (item.device.as_str(), item.port));
        assert_eq!(found.collect::<Vec<_>>(), expected);
        for text in ["a,^b", "a*", "?", "^a"] {
            assert_eq!(list(text).unwrap().names(), None, "{text}");
        }
        assert_eq!(DeviceList::default().names(), None);
    }

    #[test]
    fn wrong_items_are_named() {
        for wrong in ["a:", "a:x", ":1", "a:256", "a:0", "^", "a,,b"] {
            let why = list(wrong).unwrap_err().to_string();
            assert!(why.contains(wrong), "{why}");
        }
    }
}
