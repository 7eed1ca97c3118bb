//! The numbers in the output of a benchmark program.
//!
//! The programs print tables as the OSU micro-benchmarks do: lines of numbers between lines that
//! begin with `#`. Other lines (warnings of libraries) are skipped. An output without a number is
//! an error.

use anyhow::{Result, bail, ensure};

use super::figures::Reading;

/// Returns pairs of size and number, in the order printed. `elapsed` is the job's time in ms.
pub(super) fn read(output: &str, reading: Reading, elapsed: f64) -> Result<Vec<(u64, f64)>> {
    let rows: Vec<(u64, f64)> = match reading {
        Reading::Job => vec![(0, elapsed)],
        Reading::After(text) => {
            output.lines().filter_map(|line| behind(line, text)).map(|value| (0, value)).collect()
        }
        Reading::Single => {
            numbers(output).filter(|row| row.len() == 1).map(|row| (0, row[0])).collect()
        }
        Reading::Column(column) => sized(numbers(output), column),
        Reading::Ratio(column) => {
            let ratios = output.lines().filter_map(|line| line.strip_prefix("ratio"));
            ratios
                .filter_map(row)
                .filter_map(|row| row.get(column - 1).map(|value| (0, *value)))
                .collect()
        }
    };
    ensure!(!rows.is_empty(), "it printed no figure");
    if let Some((size, value)) = rows.iter().find(|(_, value)| !value.is_finite() || *value <= 0.0)
    {
        bail!("it printed {value} for {size}");
    }
    Ok(rows)
}

fn sized(rows: impl Iterator<Item = Vec<f64>>, column: usize) -> Vec<(u64, f64)> {
    rows.filter(|row| row[0].fract() == 0.0)
        .filter_map(|row| Some((row[0] as u64, *row.get(column)?)))
        .collect()
}

/// Returns the rows of numbers, without a word after them ("Pass").
fn numbers(output: &str) -> impl Iterator<Item = Vec<f64>> {
    output.lines().filter_map(row)
}

fn row(line: &str) -> Option<Vec<f64>> {
    let numbers: Vec<f64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
    let words = line.split_whitespace().count();
    (!numbers.is_empty() && words - numbers.len() <= 1).then_some(numbers)
}

fn behind(line: &str, text: &str) -> Option<f64> {
    line.split_once(text)?.1.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATENCY: &str = "[x] warning: 8 things\n# Verbena benchmarks: latency\n# Size     Avg Latency(us)\n\
                           8                      0.110              Pass\n16                     0.120\n";

    #[test]
    fn a_table_is_read_by_column() {
        assert_eq!(read(LATENCY, Reading::Column(1), 0.0).unwrap(), [(8, 0.11), (16, 0.12)]);
        let rate = "# [ pairs: 1 ] [ window size: 64 ]\n8    135.3   16923596.84\n";
        assert_eq!(read(rate, Reading::Column(2), 0.0).unwrap(), [(8, 16923596.84)]);
    }

    #[test]
    fn single_numbers_sentences_and_ratios_are_read() {
        assert_eq!(
            read("# Avg Latency(us)\n        0.25\n", Reading::Single, 0.0).unwrap(),
            [(0, 0.25)]
        );
        let init = "nprocs: 2, min: 0.1 ms, max: 0.3 ms, avg: 0.2 ms\n";
        assert_eq!(read(init, Reading::After("max: "), 0.0).unwrap(), [(0, 0.3)]);
        assert_eq!(
            read("1000  1.0  2.0\nratio  3.5  1.5\n", Reading::Ratio(2), 0.0).unwrap(),
            [(0, 1.5)]
        );
        assert_eq!(read("", Reading::Job, 12.5).unwrap(), [(0, 12.5)]);
    }

    #[test]
    fn output_without_figures_is_an_error() {
        assert!(read("mpiexec: no such program\n", Reading::Column(1), 0.0).is_err());
        assert!(read("8  nan\n", Reading::Column(1), 0.0).is_err());
        assert!(read("8  0.0\n", Reading::Column(1), 0.0).is_err());
    }
}
