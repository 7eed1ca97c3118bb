//! The text of `report.io`: what the members of a file moved, how fast, and one sentence of advice.
//! Also that of `--explain`: what is used for a file, and why.
//!
//! It is made of [`Counts`] alone, so that it depends on no order of events.

use std::fmt::Write;
use std::path::Path;

use crate::hints::Hints;
use crate::statistics::{Counts, SideCounts};

/// Mean pieces below this many bytes cost more for the call than for the data.
const SMALL_PIECE: u64 = 4096;
/// Mean requests below this many bytes do.
const SMALL_REQUEST: u64 = 64 << 10;
/// Accesses from which their size matters.
const MANY_CALLS: u64 = 100;

/// Returns the report of a file: some lines, without a line break at the end.
pub fn report(path: &Path, all: &[Counts]) -> String {
    let open = all.iter().map(|one| one.open_nanos).max().unwrap_or(0);
    let mut text = format!(
        "file {}: {} {}, open for {:.3} s, {} % of it in reads and writes",
        path.display(),
        all.len(),
        if all.len() == 1 { "rank" } else { "ranks" },
        open as f64 / 1e9,
        share(all, open)
    );
    for (name, call, pick) in SIDES {
        let side = sum(all.iter().map(pick));
        if side.calls > 0 {
            describe(&mut text, (name, call), &side, all.iter().map(|one| pick(one).nanos).max());
        }
    }
    let _ = write!(text, "\n  advice: {}", advice(all, open));
    text
}

/// Returns what is used for a file and why: one line. `reasons`: how often collective accesses went
/// through aggregators or not, and why.
pub(crate) fn explain(
    path: &Path,
    hints: &Hints,
    reasons: impl Iterator<Item = (u64, bool, &'static str)>,
) -> String {
    let file_system = hints.file_system.unwrap_or("unknown");
    let mut text = format!("file {}: on {file_system}", path.display());
    if hints.striping_unit > 0 {
        let _ = write!(text, ", stripes of {}", bytes(hints.striping_unit));
    }
    for (name, is_on) in [("reads", hints.direct.reads), ("writes", hints.direct.writes)] {
        if is_on {
            let _ = write!(text, ", {name} past the cache of the system");
        }
    }
    let mut has_collective = false;
    for (count, joins, why) in reasons {
        has_collective = true;
        let how = match joins {
            true => format!(
                "by up to {} aggregators, {} at a time",
                hints.cb_nodes,
                bytes(hints.cb_buffer_size)
            ),
            false => "by each rank itself".to_owned(),
        };
        let accesses = if count == 1 { "access" } else { "accesses" };
        let _ = write!(text, "; {count} collective {accesses} {how}: {why}");
    }
    if !has_collective {
        text += "; no collective accesses";
    }
    text
}

type Pick = fn(&Counts) -> &SideCounts;

/// The word for what moved, that for a call, and where they are counted.
const SIDES: [(&str, &str, Pick); 2] =
    [("written", "write", |one| &one.written), ("read", "read", |one| &one.read)];

/// Returns the sums over the members.
fn sum<'a>(sides: impl Iterator<Item = &'a SideCounts>) -> SideCounts {
    sides.filter(|side| side.calls > 0 || side.system_calls > 0).fold(
        SideCounts { smallest: u64::MAX, ..SideCounts::default() },
        |sum, side| SideCounts {
            calls: sum.calls + side.calls,
            bytes: sum.bytes + side.bytes,
            nanos: sum.nanos + side.nanos,
            smallest: if side.calls > 0 { sum.smallest.min(side.smallest) } else { sum.smallest },
            largest: sum.largest.max(side.largest),
            pieces: sum.pieces + side.pieces,
            aggregated: sum.aggregated + side.aggregated,
            system_calls: sum.system_calls + side.system_calls,
        },
    )
}

/// Returns the members' mean share of time in accesses, percent.
fn share(all: &[Counts], open: u64) -> u64 {
    let busy: u64 = all.iter().map(|one| one.read.nanos + one.written.nanos).sum();
    (busy * 100).checked_div(open.saturating_mul(all.len() as u64)).unwrap_or(0)
}

/// Adds two lines on one direction; `slowest`: the longest time of a member, nanoseconds.
fn describe(text: &mut String, words: (&str, &str), side: &SideCounts, slowest: Option<u64>) {
    let rate = side.bytes as f64 / slowest.unwrap_or(0).max(1) as f64 * 1e3;
    let _ = write!(
        text,
        "\n  {}: {} in {} calls of {} to {}, {rate:.0} MB/s\n    {} pieces of {} on average, {} \
         {}s of the system",
        words.0,
        bytes(side.bytes),
        side.calls,
        bytes(side.smallest),
        bytes(side.largest),
        side.pieces,
        bytes(side.bytes / side.pieces.max(1)),
        side.system_calls,
        words.1,
    );
    if side.aggregated > 0 {
        let part = side.aggregated * 100 / side.bytes.max(1);
        let _ = write!(text, "; {part} % through aggregators");
    }
}

/// Returns the sentence that helps most.
fn advice(all: &[Counts], open: u64) -> String {
    let percent = share(all, open);
    if percent < 5 {
        return "reads and writes take little of the time, and there is nothing to gain".to_owned();
    }
    for (name, call, pick) in SIDES {
        let side = sum(all.iter().map(pick));
        let (piece, request) = (side.bytes / side.pieces.max(1), side.bytes / side.calls.max(1));
        let joins = side.aggregated * 2 > side.bytes || side.system_calls * 4 < side.pieces;
        if side.pieces > MANY_CALLS && piece < SMALL_PIECE && !joins {
            return format!(
                "pieces of {} are {name} one by one: MPI_File_{call}_all lets aggregators join them",
                bytes(piece)
            );
        }
        if side.calls > MANY_CALLS * all.len() as u64 && request < SMALL_REQUEST {
            return format!("{call} more in a call: its {} on average are few", bytes(request));
        }
    }
    let times = || all.iter().map(|one| one.read.nanos + one.written.nanos);
    let (mean, longest) = (times().sum::<u64>() / all.len().max(1) as u64, times().max());
    match longest {
        Some(longest) if longest > mean.saturating_mul(3) => format!(
            "rank {} spends {} times the mean in reads and writes: divide the data more evenly",
            times().position(|time| time == longest).unwrap_or(0),
            longest / mean.max(1)
        ),
        _ => "the requests are large: the file system limits the rate".to_owned(),
    }
}

/// Returns a number of bytes as text.
fn bytes(number: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match units.iter().find(|(_, shift)| number >= 1 << shift) {
        Some((unit, shift)) => format!("{:.1} {unit}", number as f64 / (1u64 << shift) as f64),
        None => format!("{number} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(calls: u64, bytes: u64, pieces: u64, nanos: u64, aggregated: u64) -> Counts {
        let written = SideCounts {
            calls,
            bytes: calls * bytes,
            nanos,
            smallest: bytes,
            largest: bytes,
            pieces: calls * pieces,
            aggregated: calls * aggregated,
            system_calls: if aggregated > 0 { 1 } else { calls * pieces },
        };
        Counts { open_nanos: 1_000_000_000, read: SideCounts::default(), written }
    }

    #[test]
    fn a_report_has_sums_and_a_rate() {
        let text =
            report(Path::new("/data/x"), &[counts(2, 1 << 20, 2048, 500_000_000, 1 << 20); 2]);
        assert_eq!(
            text,
            "file /data/x: 2 ranks, open for 1.000 s, 50 % of it in reads and writes\n  written: \
             4.0 MiB in 4 calls of 1.0 MiB to 1.0 MiB, 8 MB/s\n    8192 pieces of 512 bytes on \
             average, 2 writes of the system; 100 % through aggregators\n  advice: the requests \
             are large: the file system limits the rate"
        );
    }

    #[test]
    fn explanations_say_how_and_why() {
        let mut hints = Hints::new(2);
        let reasons = [(3, true, "small pieces interleave"), (1, false, "one rank")];
        assert_eq!(
            explain(Path::new("/x"), &hints, reasons.into_iter()),
            "file /x: on unknown; 3 collective accesses by up to 2 aggregators, 4.0 MiB at a time: \
             small pieces interleave; 1 collective access by each rank itself: one rank"
        );
        (hints.file_system, hints.striping_unit, hints.direct.writes) =
            (Some("lustre"), 1 << 20, true);
        assert_eq!(
            explain(Path::new("/x"), &hints, [].into_iter()),
            "file /x: on lustre, stripes of 1.0 MiB, writes past the cache of the system; no \
             collective accesses"
        );
    }

    #[test]
    fn advice_fits_what_was_done() {
        let busy = 500_000_000;
        let given = |all: &[Counts]| report(Path::new("x"), all).lines().last().unwrap().to_owned();
        assert!(given(&[counts(2, 1 << 20, 1, 10, 0); 2]).contains("nothing to gain"));
        let pieces = given(&[counts(2, 1 << 20, 2048, busy, 0); 2]);
        assert!(pieces.contains("pieces of 512 bytes are written one by one"), "{pieces}");
        let calls = given(&[counts(300, 8192, 1, busy, 0); 2]);
        assert!(calls.contains("write more in a call: its 8.0 KiB on average"), "{calls}");
        let idle = counts(1, 1 << 20, 1, 0, 0);
        let uneven = given(&[idle, idle, idle, idle, counts(1, 1 << 20, 1, busy, 0)]);
        assert!(uneven.contains("rank 4 spends 5 times"), "{uneven}");
        assert!(report(Path::new("x"), &[Counts::default()]).contains("0 % of it"));
    }
}
