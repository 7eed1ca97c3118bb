//! Network namespaces between which packets are lost, delayed, overtaken, stalled and throttled,
//! and connections reset: TUN devices, and a switch in user space (`tests/network/weather.py`).
//! Kernels without netem have these too.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use super::tcp::ip;
use crate::project::Project;

/// Hosts with bad weather between them. They go when this is dropped.
pub(super) struct Weather {
    hosts: Vec<String>,
    switch: Option<Child>,
}

/// The kinds of weather: a name, the options of the switch, and the programs that are brief in it.
pub(super) const KINDS: [(&str, &str, &[&str]); 3] = [
    ("1 % loss, 20 ms delay, packets overtake", "delay=20,jitter=5,loss=10000", &["ring"]),
    ("connections are reset", "delay=1,jitter=1,reset=3000", &["ring", "order"]),
    ("stalls of 0.4 s, 20 MB/s", "delay=1,jitter=0,rate=20000,stall=400,every=1500", &["ring"]),
];

impl Weather {
    /// Makes so many hosts with this weather between them.
    pub(super) fn new(
        project: &Project,
        hosts: usize,
        seed: u64,
        options: &str,
    ) -> Result<Weather> {
        let mut weather = Weather { hosts: Vec::new(), switch: None };
        for host in 0..hosts {
            let name = format!("vrw{}h{host}", std::process::id());
            ip(&["netns", "add", &name])?;
            weather.hosts.push(name);
        }
        let mut switch = Command::new("python3");
        switch.arg(project.root.join("tests/network/weather.py"));
        switch.arg(seed.to_string()).arg(options).args(&weather.hosts);
        switch.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut switch = switch.spawn().context("starting the switch")?;
        let said = switch.stdout.take().context("the switch's output")?;
        weather.switch = Some(switch);
        let mut line = String::new();
        BufReader::new(said).read_line(&mut line)?;
        ensure!(line.trim() == "ready", "the switch between namespaces does not start");
        Ok(weather)
    }

    /// Returns the namespaces.
    pub(super) fn hosts(&self) -> &[String] {
        &self.hosts
    }
}

impl Drop for Weather {
    fn drop(&mut self) {
        if let Some(mut switch) = self.switch.take() {
            // It ends with its input.
            drop(switch.stdin.take());
            let _ = switch.wait();
        }
        for name in &self.hosts {
            let _ = ip(&["netns", "del", name]);
        }
    }
}
