//! The list of RDMA devices that `verbs.devices` gives: names, patterns, and exclusions.
//!
//! An item is a [`DevicePattern`]; `^` in front excludes what it matches. Without an item that
//! includes, everything that is not excluded counts.

use config::DevicePattern;

use crate::unavailable::Unavailable;

/// A device list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeviceList {
    items: Vec<Item>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Item {
    ports: DevicePattern,
    is_excluded: bool,
}

impl DeviceList {
    /// Parses the items of a list.
    pub(crate) fn parse(items: &[String]) -> Result<DeviceList, Unavailable> {
        let parse = |text: &String| -> Result<Item, Unavailable> {
            let (is_excluded, text) = match text.strip_prefix('^') {
                Some(rest) => (true, rest),
                None => (false, text.as_str()),
            };
            let ports = DevicePattern::parse(text)
                .ok_or_else(|| Unavailable::DeviceList(items.join(",")))?;
            Ok(Item { ports, is_excluded })
        };
        Ok(DeviceList { items: items.iter().map(parse).collect::<Result<_, _>>()? })
    }

    /// Returns the ports that are meant, if the items name them one by one.
    pub(crate) fn names(&self) -> Option<Vec<&DevicePattern>> {
        let is_name = |item: &Item| !item.is_excluded && item.ports.is_name();
        (!self.items.is_empty() && self.items.iter().all(is_name))
            .then(|| self.items.iter().map(|item| &item.ports).collect())
    }

    /// Returns whether a port is meant.
    pub(crate) fn includes(&self, device: &str, port: u8) -> bool {
        let fits = |item: &Item| item.ports.includes(device, port);
        let mut included = self.items.iter().filter(|item| !item.is_excluded).peekable();
        let is_meant = included.peek().is_none() || included.any(fits);
        is_meant && !self.items.iter().filter(|item| item.is_excluded).any(fits)
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
        let found =
            names.names().unwrap().into_iter().map(|item| (item.device.as_str(), item.port));
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
