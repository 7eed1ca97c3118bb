//! The report of a comparison, made from the lines of its record.
//!
//! A library's number is the median of its rounds. The ratio to a peer is the median of the ratios
//! within each round, in which both ran side by side. If the machine had two states, each has rows
//! of its own. Rows are sorted by their distance from the promise, the worst first; rows without a
//! promise by their distance from the best peer.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use super::MACHINE;
use super::figures::{Better, Figure, PERFTEST, Table, Target};
use super::library::Kind;
use super::machine_state::{CacheState, CacheStates};
use super::record::{LibraryLine, Line, Machine, Run};

/// Most cores that other programs may use without a warning.
const MAX_QUIET_CORES: f64 = 0.1;

/// All numbers of one comparison: by figure, size and state, then by library, the number of each
/// round.
struct Numbers(BTreeMap<RowKey, BTreeMap<String, BTreeMap<u32, f64>>>);

/// The key of a row: a figure, its size, and the state of the machine.
type RowKey = (String, u64, CacheState);

/// A line of the table.
struct Row {
    figure: &'static Figure,
    size: u64,
    lines: CacheState,
    ours: Option<f64>,
    /// In the order of the columns.
    peers: Vec<Peer>,
    /// To the best peer.
    ratio: Option<f64>,
    /// Its smallest and largest of all rounds.
    spread: Option<(f64, f64)>,
    target: Target,
    /// The distance to the target: more than 1 misses it. Unknown without our number or a peer's.
    distance: Option<f64>,
}

/// A number of a peer's.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Peer {
    Reached(f64),
    Failed,
    NotTried,
}

/// The whole report.
pub(super) fn report(table: &Table, lines: &[Line]) -> String {
    let mut text = String::new();
    write_all(table, lines, &mut text).expect("a string takes everything");
    text
}

fn write_all(table: &Table, lines: &[Line], out: &mut String) -> fmt::Result {
    let runs: Vec<&Run> = lines
        .iter()
        .filter_map(|line| if let Line::Run(run) = line { Some(run) } else { None })
        .collect();
    let libraries: Vec<&LibraryLine> = lines
        .iter()
        .filter_map(|line| if let Line::Library(line) = line { Some(line) } else { None })
        .collect();
    for line in lines {
        if let Line::Machine(Machine { cpu, cores, kernel, load, date, revision, ranks }) = line {
            writeln!(
                out,
                "\n{cpu}, {cores} cores, Linux {kernel}, {date}, revision {revision}, load {load} at the start"
            )?;
            if let Some(ranks) = ranks {
                writeln!(out, "collectives among {ranks} ranks")?;
            }
        }
    }
    for library in &libraries {
        let version = library.version.clone().unwrap_or_else(|error| format!("MISSING: {error}"));
        writeln!(out, "  {:8} {version}", library.name)?;
    }
    let states = CacheStates::of(runs.iter().filter_map(|run| run.crossing));
    let numbers = Numbers::of(&runs, &states);
    let rows = rows(table, &numbers, &runs);
    write_rows(table, &rows, out)?;
    write_means(&rows, out)?;
    write_failures(&runs, out)?;
    write_limits(&numbers, out)?;
    write_states(&states, &runs, out)?;
    write_others(&runs, out)?;
    write_promises(&rows, out)
}

impl Numbers {
    fn of(runs: &[&Run], states: &CacheStates) -> Numbers {
        let mut numbers = BTreeMap::<_, BTreeMap<_, BTreeMap<_, _>>>::new();
        for run in runs {
            let lines = states.lines(run.crossing);
            for (size, value) in run.rows.iter().flatten() {
                let key = (run.figure.clone(), *size, lines);
                let rounds = numbers.entry(key).or_default().entry(run.library.clone());
                rounds.or_default().insert(run.round, *value);
            }
        }
        Numbers(numbers)
    }

    fn rounds(&self, key: &RowKey, library: &str) -> Option<&BTreeMap<u32, f64>> {
        self.0.get(key)?.get(library)
    }

    fn median(&self, key: &RowKey, library: &str) -> Option<f64> {
        median(self.rounds(key, library)?.values().copied())
    }

    /// Returns the rows of a figure that this library was measured in; if there are none, those of
    /// its peers. Runs during which the state changed count only if there are no others.
    fn keys(&self, figure: &str) -> Vec<RowKey> {
        let us = Kind::Verbena.name();
        let mut all: Vec<&RowKey> = self.0.keys().filter(|key| key.0 == figure).collect();
        if all.iter().any(|key| self.rounds(key, us).is_some()) {
            all.retain(|key| self.rounds(key, us).is_some());
        }
        let steady = |size| all.iter().any(|key| key.1 == size && key.2 != CacheState::Changed);
        all.iter()
            .filter(|key| key.2 != CacheState::Changed || !steady(key.1))
            .map(|&key| key.clone())
            .collect()
    }

    /// The quotients in the rounds that have both.
    fn ratios(&self, ours: (&RowKey, &str), other: (&RowKey, &str)) -> Vec<f64> {
        let both = (self.rounds(ours.0, ours.1), self.rounds(other.0, other.1));
        let (Some(ours), Some(other)) = both else { return Vec::new() };
        ours.iter().filter_map(|(round, value)| Some(value / other.get(round)?)).collect()
    }

    /// Returns the distance of a figure beside perftest to its promise.
    fn distance_to_device(&self, figure: &Figure, size: u64, lines: CacheState) -> Option<f64> {
        let Target::OfBest(wanted) = (figure.target)(size) else { return None };
        let key = (figure.name.to_owned(), size, lines);
        let ratios = self.ratios((&key, Kind::Verbena.name()), (&key, PERFTEST));
        median(ratios.into_iter()).map(|ratio| figure.better.distance(ratio, wanted))
    }
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 {
        Some(values[middle])
    } else {
        Some((values.get(middle)? + values[middle - 1]) / 2.0)
    }
}

/// Returns a row for every measured figure and size, sorted.
fn rows(table: &Table, numbers: &Numbers, runs: &[&Run]) -> Vec<Row> {
    let mut rows = Vec::new();
    for figure in table.figures {
        let mut keys = numbers.keys(figure.name);
        if keys.is_empty() && runs.iter().any(|run| run.figure == figure.name) {
            let size = figure.sizes.map_or(0, |(min, _)| min);
            keys.push((figure.name.to_owned(), size, CacheState::Any)); // all failed
        }
        let peers = |key: &RowKey| {
            let of = |&name: &&str| match numbers.median(key, name) {
                Some(number) => Peer::Reached(number),
                None if runs.iter().any(|run| {
                    run.figure == figure.name && run.library == name && run.rows.is_err()
                }) =>
                {
                    Peer::Failed
                }
                None => Peer::NotTried,
            };
            table.peers.iter().map(of).collect()
        };
        rows.extend(keys.iter().map(|key| Row::of(figure, key, table, peers(key), numbers)));
    }
    rows.sort_by(|a, b| b.distance.unwrap_or(f64::MAX).total_cmp(&a.distance.unwrap_or(f64::MAX)));
    rows
}

impl Row {
    fn of(
        figure: &'static Figure,
        key: &RowKey,
        table: &Table,
        peers: Vec<Peer>,
        numbers: &Numbers,
    ) -> Row {
        let us = Kind::Verbena.name();
        let &(_, size, lines) = key;
        let ours = numbers.median(key, us);
        let is_better = |a: &f64, b: &f64| {
            if figure.better == Better::Lower { b.total_cmp(a) } else { a.total_cmp(b) }
        };
        let reached =
            |peer: &Peer| if let Peer::Reached(number) = peer { Some(*number) } else { None };
        let all =
            table.peers.iter().zip(&peers).filter_map(|(name, peer)| Some((name, reached(peer)?)));
        let best = all.max_by(|a, b| is_better(&a.1, &b.1));
        let ratios = best.map_or_else(Vec::new, |(name, _)| numbers.ratios((key, us), (key, name)));
        let ratio = median(ratios.iter().copied());
        let extreme = |pick: fn(f64, f64) -> f64| ratios.iter().copied().reduce(pick);
        let spread = extreme(f64::min).zip(extreme(f64::max)).filter(|_| ratios.len() > 1);
        let target = (figure.target)(size);
        let of = |reached, wanted| figure.better.distance(reached, wanted);
        let to_own = |name: &str, wanted| {
            let ratios = numbers.ratios((key, us), (&(name.to_owned(), size, lines), us));
            median(ratios.into_iter()).map(|ratio| of(ratio, wanted))
        };
        let nearest = |all: [Option<f64>; 2]| all.into_iter().flatten().reduce(f64::min);
        let distance = match target {
            Target::OfBest(wanted) => ratio.map(|ratio| of(ratio, wanted)),
            Target::OfBestOr(wanted, device) => {
                let device = table.figures.iter().find(|figure| figure.name == device);
                let to_device = device.and_then(|it| numbers.distance_to_device(it, size, lines));
                nearest([ratio.map(|ratio| of(ratio, wanted)), to_device])
            }
            Target::OfBestOrOwn { best, figure, own } => {
                nearest([ratio.map(|ratio| of(ratio, best)), to_own(figure, own)])
            }
            Target::Limit(wanted) => ours.map(|ours| of(ours, wanted)),
            Target::OfOwn(name, wanted) => to_own(name, wanted),
            Target::None => ratio.map(|ratio| of(ratio, 1.0)),
        };
        Row { figure, size, lines, ours, peers, ratio, spread, target, distance }
    }

    fn holds(&self) -> bool {
        self.distance.is_some_and(|distance| distance <= 1.0)
    }

    /// The promise in words and whether it is kept.
    fn promise(&self) -> (String, &'static str) {
        let at = if self.figure.better == Better::Lower { "<=" } else { ">=" };
        let words = match self.target {
            Target::OfBest(wanted) => format!("{at} {wanted} x best"),
            Target::OfBestOr(wanted, device) => format!("{at} {wanted} x best, or {device}"),
            Target::OfBestOrOwn { best, figure, own } => {
                format!("{at} {best} x best, or {own} x {figure}")
            }
            Target::Limit(wanted) => format!("{at} {wanted} {}", self.figure.unit),
            Target::OfOwn(name, wanted) => format!("{at} {wanted} x {name}"),
            Target::None => return ("-".to_owned(), ""),
        };
        let holds = match (self.ours, self.distance) {
            (None, _) => "FAILED",
            (_, None) => "no peer",
            _ if self.holds() => "holds",
            _ => "MISSED",
        };
        (words, holds)
    }
}

fn write_rows(table: &Table, rows: &[Row], out: &mut String) -> fmt::Result {
    let width = rows
        .iter()
        .map(|row| row.lines.name().len() + 1)
        .max()
        .filter(|&width| width > 1)
        .map_or(0, |width| width.max(6));
    let heading = if width > 0 { "lines" } else { "" };
    write!(
        out,
        "\n{:18}{:>6} {heading:>width$}{:>5}{:>10}",
        "figure",
        "size",
        "unit",
        Kind::Verbena.name()
    )?;
    table.peers.iter().try_for_each(|name| write!(out, "{name:>10}"))?;
    writeln!(out, "{:>8} {:>12}  promise", "ratio", "of rounds")?;
    for row in rows {
        let ours = row.ours.map_or_else(|| "FAILED".to_owned(), shown);
        let (size, lines) = (bytes(row.size), row.lines.name());
        write!(
            out,
            "{:18}{size:>6} {lines:>width$}{:>5}{ours:>10}",
            row.figure.name, row.figure.unit
        )?;
        row.peers.iter().try_for_each(|peer| write!(out, "{:>10}", peer.shown()))?;
        let (promise, holds) = row.promise();
        let ratio = row.ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"));
        let spread =
            row.spread.map_or_else(String::new, |(least, most)| format!("{least:.2}-{most:.2}"));
        writeln!(out, "{ratio:>8} {spread:>12}  {promise:34} {holds}")?;
    }
    Ok(())
}

impl Peer {
    fn shown(&self) -> String {
        match self {
            Peer::Reached(number) => shown(*number),
            Peer::Failed => "failed".to_owned(),
            Peer::NotTried => String::new(),
        }
    }
}

/// For each figure of several sizes, the geometric mean of its ratios and its worst one.
fn write_means(rows: &[Row], out: &mut String) -> fmt::Result {
    let mut figures = BTreeMap::<(&str, CacheState), (Vec<f64>, Better)>::new();
    for row in rows {
        let ratios = figures
            .entry((row.figure.name, row.lines))
            .or_insert_with(|| (Vec::new(), row.figure.better));
        ratios.0.extend(row.ratio);
    }
    figures.retain(|_, (ratios, _)| ratios.len() > 1);
    if !figures.is_empty() {
        writeln!(out, "\nall sizes, to the best peer of each:")?;
    }
    for ((name, lines), (ratios, better)) in figures {
        let worst = match better {
            Better::Lower => ratios.iter().copied().fold(f64::MIN, f64::max),
            Better::Higher => ratios.iter().copied().fold(f64::MAX, f64::min),
        };
        let (mean, lines, sizes) = (geometric_mean(&ratios), lines.name(), ratios.len());
        writeln!(out, "  {name:18} {lines:6} mean {mean:.2}, worst {worst:.2} of {sizes} sizes")?;
    }
    Ok(())
}

fn geometric_mean(values: &[f64]) -> f64 {
    (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp()
}

/// Each different failure once, with the number of rounds that it happened in.
fn write_failures(runs: &[&Run], out: &mut String) -> fmt::Result {
    let mut failures = BTreeMap::<(&str, &str), Vec<&str>>::new();
    for run in runs {
        if let Err(reason) = &run.rows {
            failures.entry((&run.library, &run.figure)).or_default().push(reason);
        }
    }
    for (at, ((library, figure), reasons)) in failures.iter().enumerate() {
        if at == 0 {
            writeln!(out, "\nfailed:")?;
        }
        writeln!(out, "  {library} {figure}, {} times: {}", reasons.len(), reasons[0])?;
    }
    Ok(())
}

fn write_limits(numbers: &Numbers, out: &mut String) -> fmt::Result {
    if !numbers.0.values().any(|libraries| libraries.contains_key(MACHINE)) {
        return Ok(());
    }
    writeln!(out, "\nthe machine, in the same rounds:")?;
    if let Some(line) = numbers.median(&("cache line".to_owned(), 0, CacheState::Any), MACHINE) {
        writeln!(out, "  a cache line from core to core  {line:.3} us")?;
    }
    for ((_, size, _), libraries) in numbers.0.iter().filter(|((name, ..), _)| name == "memcpy") {
        let rate = libraries.get(MACHINE).and_then(|rounds| median(rounds.values().copied()));
        writeln!(
            out,
            "  memcpy of {:>4} on one core      {} MB/s",
            bytes(*size),
            rate.map_or_else(String::new, shown)
        )?;
    }
    Ok(())
}

/// Where the machine had two states: what they are, and how much was measured in each.
fn write_states(states: &CacheStates, runs: &[&Run], out: &mut String) -> fmt::Result {
    let of = |lines: CacheState| runs.iter().filter(move |run| states.lines(run.crossing) == lines);
    for lines in [CacheState::Fast, CacheState::Slow] {
        if let Some(time) = median(
            of(lines).filter_map(|run| run.crossing).flat_map(|(before, after)| [before, after]),
        ) {
            writeln!(
                out,
                "  lines cross {} in {time:.3} us  ({} runs)",
                lines.adverb(),
                of(lines).count()
            )?;
        }
    }
    match of(CacheState::Changed).count() {
        0 => Ok(()),
        changed => writeln!(out, "  which changed meanwhile in {changed} more, not in the table"),
    }
}

/// How many promises hold, in each state.
fn write_promises(rows: &[Row], out: &mut String) -> fmt::Result {
    writeln!(out)?;
    for lines in [CacheState::Fast, CacheState::Slow, CacheState::Any, CacheState::Changed] {
        let promised: Vec<&Row> =
            rows.iter().filter(|row| row.lines == lines && row.target != Target::None).collect();
        if promised.is_empty() {
            continue;
        }
        let held = promised.iter().filter(|row| row.holds()).count();
        let when = match lines {
            CacheState::Any => String::new(),
            CacheState::Changed => " of those during which the machine changed".to_owned(),
            CacheState::Fast | CacheState::Slow => {
                format!(" while cache lines cross {}", lines.adverb())
            }
        };
        writeln!(out, "{held} of {} promises hold{when}", promised.len())?;
    }
    Ok(())
}

/// A warning where other programs may have spoiled the numbers.
fn write_others(runs: &[&Run], out: &mut String) -> fmt::Result {
    let disturbed = runs.iter().filter(|run| run.others > MAX_QUIET_CORES).count();
    if disturbed > 0 {
        let mean = runs.iter().map(|run| run.others).sum::<f64>() / runs.len() as f64;
        writeln!(
            out,
            "\nDISTURBED: other programs used {mean:.2} cores; {disturbed} of {} runs had to share",
            runs.len()
        )?;
    }
    Ok(())
}

/// Three digits that count.
fn shown(value: f64) -> String {
    match value {
        _ if value >= 1e6 => format!("{:.2}M", value / 1e6),
        _ if value >= 100.0 => format!("{value:.0}"),
        _ if value >= 10.0 => format!("{value:.1}"),
        _ if value >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

fn bytes(size: u64) -> String {
    match size {
        0 => String::new(),
        _ if size.is_multiple_of(1 << 20) => format!("{}M", size >> 20),
        _ if size.is_multiple_of(1 << 10) => format!("{}K", size >> 10),
        _ => size.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::figures::{ON_A_HOST, OVER_VERBS};
    use super::*;

    fn run(round: u32, library: &str, figure: &str, value: f64) -> Run {
        let (library, figure) = (library.to_owned(), figure.to_owned());
        let (command, rows) = (String::new(), Ok(vec![(8, value)]));
        Run { round, library, figure, command, seconds: 0.1, others: 0.0, crossing: None, rows }
    }

    fn only_row(runs: &[Run], figure: &str) -> Row {
        let runs: Vec<&Run> = runs.iter().collect();
        let row = rows(&ON_A_HOST, &Numbers::of(&runs, &CacheStates { border: 0.1 }), &runs)
            .into_iter()
            .find(|row| row.figure.name == figure);
        row.expect("the figure has a row")
    }

    #[test]
    fn the_ratio_is_to_the_best_peer_round_by_round() {
        // The machine is ten times slower in the second and third rounds.
        let mut runs = Vec::new();
        for (round, slow) in [(1, 1.0), (2, 10.0), (3, 10.0)] {
            runs.extend([
                run(round, "verbena", "latency", 0.1 * slow),
                run(round, "ompi", "latency", 0.2 * slow),
            ]);
            runs.push(run(round, "mpich", "latency", 0.9 * slow));
        }
        let row = only_row(&runs, "latency");
        assert!((row.ratio.unwrap() - 0.5).abs() < 1e-9 && row.holds(), "{:?}", row.ratio);
        assert_eq!(
            (row.ours, row.peers),
            (Some(1.0), vec![Peer::Reached(9.0), Peer::NotTried, Peer::Reached(2.0)])
        );
    }

    #[test]
    fn more_is_better_where_the_figure_defines_it() {
        let runs = [
            run(1, "verbena", "mbw_mr", 14.0),
            run(1, "impi", "mbw_mr", 10.0),
            run(1, "ompi", "mbw_mr", 9.0),
        ];
        let row = only_row(&runs, "mbw_mr");
        assert!((row.ratio.unwrap() - 1.4).abs() < 1e-9);
        assert!(!row.holds() && row.promise().1 == "MISSED", "1.4 is less than the 1.5 promised");
    }

    #[test]
    fn a_failure_of_ours_stands_first_and_one_of_a_peer_does_not_hide_the_rest() {
        let mut failed = run(1, "verbena", "bw", 0.0);
        failed.rows = Err("exit code 1".into());
        let mut peer = run(1, "mpich", "latency", 0.0);
        peer.rows = Err("time-out".into());
        let runs =
            [failed, peer, run(1, "verbena", "latency", 0.5), run(1, "ompi", "latency", 0.1)];
        let runs: Vec<&Run> = runs.iter().collect();
        let rows = rows(&ON_A_HOST, &Numbers::of(&runs, &CacheStates { border: 0.1 }), &runs);
        assert_eq!((rows[0].figure.name, rows[0].promise().1), ("bw", ""));
        assert_eq!((rows[1].figure.name, rows[1].promise().1), ("latency", "MISSED"));
    }

    #[test]
    fn each_state_of_the_machine_has_a_row_of_its_own() {
        let at = |round, library, value, line| Run {
            crossing: Some(line),
            ..run(round, library, "latency", value)
        };
        let (fast, slow) = ((0.05, 0.05), (0.2, 0.2));
        let runs = [
            at(1, "verbena", 0.1, fast),
            at(1, "ompi", 0.2, fast),
            at(2, "verbena", 0.4, slow),
            at(2, "ompi", 0.4, slow),
            Run { figure: "bw".to_owned(), ..at(2, "ompi", 0.4, slow) },
            Run { figure: "bw".to_owned(), ..at(2, "verbena", 0.4, fast) },
            at(3, "verbena", 9.0, (0.05, 0.2)),
            at(3, "ompi", 0.4, slow),
        ];
        let runs: Vec<&Run> = runs.iter().collect();
        let rows = rows(&ON_A_HOST, &Numbers::of(&runs, &CacheStates { border: 0.1 }), &runs);
        let rows_of = |figure: &str| -> Vec<_> {
            let rows = rows.iter().filter(|row| row.figure.name == figure);
            rows.map(|row| (row.lines, row.ours, row.promise().1)).collect()
        };
        assert_eq!(
            rows_of("latency"),
            [(CacheState::Slow, Some(0.4), "MISSED"), (CacheState::Fast, Some(0.1), "holds")]
        );
        assert_eq!(
            rows_of("bw"),
            [(CacheState::Fast, Some(0.4), "")],
            "we were not measured while lines crossed slowly"
        );
    }

    #[test]
    fn where_the_device_leaves_no_room_its_limit_is_the_promise() {
        let of = |device: f64| {
            let runs = [
                run(1, "verbena", "latency", 100.0),
                run(1, "mpich", "latency", 98.0),
                run(1, "verbena", "latency-polling", 100.0),
                run(1, PERFTEST, "latency-polling", device),
            ];
            let runs: Vec<&Run> = runs.iter().collect();
            let rows = rows(&OVER_VERBS, &Numbers::of(&runs, &CacheStates { border: 0.1 }), &runs);
            rows.iter().find(|row| row.figure.name == "latency").unwrap().promise().1
        };
        assert_eq!([95.0, 80.0].map(of), ["holds", "MISSED"]);
    }

    #[test]
    fn own_figures_and_limits_need_no_peer() {
        let runs = [
            run(1, "verbena", "threads-1", 8.0),
            run(1, "verbena", "threads-2", 7.0),
            run(1, "verbena", "memory", 3.0),
        ];
        assert_eq!(only_row(&runs, "threads-2").promise().1, "MISSED");
        assert_eq!(only_row(&runs, "memory").promise().1, "holds");
        assert_eq!(only_row(&runs, "threads-1").promise().1, "");
    }

    #[test]
    fn sizes_of_a_figure_have_a_geometric_mean() {
        let of = |library, values: [f64; 2]| {
            let rows = Ok(vec![(8, values[0]), (1 << 20, values[1])]);
            Run { rows, ..run(1, library, "bcast", 0.0) }
        };
        let runs = [of("verbena", [1.0, 8.0]), of("ompi", [4.0, 4.0])];
        let runs: Vec<&Run> = runs.iter().collect();
        let rows = rows(&ON_A_HOST, &Numbers::of(&runs, &CacheStates { border: 0.1 }), &runs);
        let mut text = String::new();
        write_means(&rows, &mut text).expect("a string takes everything");
        assert!(text.contains("mean 0.71, worst 2.00 of 2 sizes"), "{text}");
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [16923596.8, 8123.4, 12.34, 1.234, 0.1234].map(shown),
            ["16.92M", "8123", "12.3", "1.23", "0.123"]
        );
        assert_eq!([0, 8, 4096, 4 << 20].map(bytes), ["", "8", "4K", "4M"]);
    }
}
