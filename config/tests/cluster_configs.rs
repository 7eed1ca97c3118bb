//! Every file that is shipped in `cluster-configs/` can be used as it is.

use std::path::Path;

use config::knob::WAIT_SPIN;
use config::{File, Knobs, Level, Origin};

#[test]
fn every_cluster_config_is_valid_and_sets_a_knob() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cluster-configs");
    let mut seen = 0;
    for entry in std::fs::read_dir(&folder).expect("the folder is part of the repository") {
        let path = entry.expect("a folder can be listed").path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a file can be read");
        assert!(text.starts_with("# "), "{} says first what it is for", path.display());
        let file = File { level: Level::Cluster, path: path.display().to_string(), text };
        let knobs = Knobs::load(&[file], [], []).unwrap_or_else(|error| panic!("{error}"));
        assert!(
            knobs.iter().any(|(_, _, origin)| *origin != Origin::Default),
            "{} sets nothing",
            path.display()
        );
        // A value holds also where ranks share processors, and then they spin instead of yielding.
        assert_eq!(knobs.duration(WAIT_SPIN), None, "{} sets wait.spin", path.display());
        seen += 1;
    }
    assert!(seen >= 2, "only {seen} files in {}", folder.display());
}
