//! The knobs whose values differ from device to device: the entry of the GID table, and the
//! partition.

use config::{Knobs, Origin};
use verbs_transport::{Selection, Settings};

use crate::stand_in::{alone, settings};

/// Returns the ports as a job with these knobs uses them, or the error.
fn ports(set: &[(&str, &str)]) -> Result<Vec<String>, String> {
    let mut knobs = Knobs::new();
    for (name, text) in [("verbs.devices", "stand0:1,stand0:2,stand1:1")].iter().chain(set) {
        knobs.set(name, text, Origin::Set).map_err(|why| why.to_string())?;
    }
    let Settings { library, .. } = settings();
    let settings = Settings { library, ..Settings::from_knobs(&knobs) };
    let selection = Selection::new(&settings).map_err(|why| why.to_string())?;
    Ok(selection.ports.iter().map(ToString::to_string).collect())
}

/// Returns the texts after a word in the lines of the ports, in the order of their names.
fn said(set: &[(&str, &str)], word: &str) -> Vec<String> {
    let mut lines = ports(set).expect("ports");
    lines.sort_by_key(|line| line.find("stand").map(|at| line[at..at + 6].to_owned()));
    let after = |line: &String| Some(line.split_once(word)?.1.to_owned());
    lines.iter().map(|line| after(line).unwrap_or_default()).collect()
}

#[test]
fn each_device_has_its_own_address_and_partition() {
    let name = "by_device::each_device_has_its_own_address_and_partition";
    alone(name, "devices=stand0/roce,stand1/roce ports=2 pkeys=ffff,8001", || {
        let gids = |value: &str| -> Vec<(String, bool)> {
            let said = said(&[("verbs.gid_index", value)], "GID ");
            said.iter().map(|text| (text[..1].to_owned(), text.contains("gid_index"))).collect()
        };
        let gid = |index: &str, is_wanted| (index.to_owned(), is_wanted);
        assert_eq!(gids("auto"), [gid("3", false), gid("3", false), gid("3", false)]);
        assert_eq!(gids("1"), [gid("1", true), gid("1", true), gid("1", true)]);
        assert_eq!(gids("stand0:2=1,stand1=2"), [gid("3", false), gid("1", true), gid("2", true)]);
        assert_eq!(gids("stand0:1=2,*=1"), [gid("2", true), gid("1", true), gid("1", true)]);
        let keys = |value: &str| said(&[("verbs.pkey", value)], ", partition ");
        assert_eq!(keys("0x8001"), ["0x8001 (verbs.pkey)"; 3]);
        assert_eq!(keys("stand1=0x8001"), ["", "", "0x8001 (verbs.pkey)"]);
    });
}

#[test]
fn entries_that_do_not_fit_the_devices_are_named() {
    let name = "by_device::entries_that_do_not_fit_the_devices_are_named";
    alone(name, "devices=stand0/roce,stand1/roce ports=2", || {
        for (knob, value, named) in [
            ("verbs.gid_index", "stand7=1,stand0=1", "stand7 (verbs.gid_index)"),
            ("verbs.pkey", "stand0=0xffff,stand8:1=1", "stand8 (verbs.pkey)"),
            ("verbs.gid_index", "stand1=7", "port 1 of stand1 has no GID 7 (verbs.gid_index)"),
            ("verbs.pkey", "stand0:2=9", "port 2 of stand0 is not in partition 0x0009"),
            ("verbs.gid_index", "stand0:3=1", "port 3 of the RDMA device stand0 (verbs.gid_index)"),
            ("verbs.pkey", "stand0=1,stand1:9=1", "stand1 (verbs.pkey): must be 1 to 2"),
            ("verbs.devices", "stand0:3", "stand0 (verbs.devices): must be 1 to 2"),
            ("verbs.gid_index", "stand0=1,stand1=x", "the number of \"stand1=x\""),
            ("verbs.pkey", "stand0=1,^stand1=2", "\"^stand1=2\" must be"),
        ] {
            let why = ports(&[(knob, value)]).expect_err("a wrong entry");
            assert!(why.contains(named), "{value}: {why}");
        }
        for pattern in ["stand7*=1", "stand*:3=1"] {
            assert!(ports(&[("verbs.gid_index", pattern)]).is_ok(), "{pattern}");
        }
    });
}
