//! Configuration: the knobs of Verbena, their values, and the source of each value.
//!
//! [`knob`] is the one table of knobs. [`Knobs`] holds a value for each of them. Values come from
//! six levels, each of which overrides the ones before it:
//!
//! 1. the default in the table,
//! 2. the site's file, `/etc/verbena/config.toml`,
//! 3. the user's file, `$XDG_CONFIG_HOME/verbena/config.toml` (`~/.config/...`),
//! 4. the cluster's file, named by `mpiexec --config` (in `VERBENA_CONFIG`),
//! 5. environment variables such as `VERBENA_SHM_EAGER_MAX`,
//! 6. `mpiexec --set name=value` (in `VERBENA_SET`, one to a line).
//!
//! An unknown name in a file or in `--set`, and a bad value anywhere, is an error that names its
//! source. An unknown variable and a knob's former name are accepted with a [`Notice`].
//! [`Knobs::load`] is a pure function of texts; only [`Knobs::from_process`] and
//! [`Knobs::with_options`] read files and the environment.

#![forbid(unsafe_code)]

mod by_device;
mod choice;
mod error;
pub mod knob;
mod knobs;
mod load;
mod notice;
mod origin;
mod value;

pub use by_device::{ByDevice, DevicePattern};
pub use choice::{
    Choice, DynamicTransport, InterTransport, ProgressMode, Registration, Rendezvous, RoceVersion,
    SingleCopy,
};
pub use error::KnobError;
pub use knob::{
    Bytes, Count, DEFAULT_STALL_TIMEOUT, Index, Key, Knob, Name, NumberByDevice, SizeOrAuto,
    Switch, TABLE, Time,
};
pub use knobs::Knobs;
pub use load::{File, RESERVED, Sources};
pub use notice::Notice;
pub use origin::{Level, Origin};
pub use value::{Kind, Value, parse_bytes, show_bytes};
