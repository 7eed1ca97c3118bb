//! A plot of a series of simulations: time over bytes or ranks, beside the lower bound.

use std::path::Path;

use plotters::prelude::*;

/// One point: the number on the axis, the time and the bound in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Bytes or ranks.
    pub at: f64,
    /// Simulated time in microseconds.
    pub time: f64,
    /// The lower bound in microseconds.
    pub bound: f64,
}

const SIZE: (u32, u32) = (760, 460);
const TIME: RGBColor = RGBColor(31, 97, 141);
const BOUND: RGBColor = RGBColor(176, 58, 46);

/// Draws both curves over logarithmic axes into an SVG file. The error is a text.
pub fn draw(path: &Path, title: &str, axis: &str, points: &[Point]) -> Result<(), String> {
    draw_on(SVGBackend::new(path, SIZE).into_drawing_area(), title, axis, points)
        .map_err(|error| format!("cannot write {}: {error}", path.display()))
}

fn draw_on<B: DrawingBackend>(
    area: DrawingArea<B, plotters::coord::Shift>,
    title: &str,
    axis: &str,
    points: &[Point],
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    // A logarithmic axis has no zero.
    let points = || points.iter().map(|point| (point.at.max(1.0), point));
    let values = || points().flat_map(|(_, point)| [point.time, point.bound]).filter(|v| *v > 0.0);
    let low = values().fold(f64::INFINITY, f64::min).min(1e6);
    let high = values().fold(0.0, f64::max).max(low);
    let first = points().map(|(at, _)| at).fold(f64::INFINITY, f64::min).min(1e9);
    let last = points().map(|(at, _)| at).fold(1.0, f64::max);
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(42)
        .y_label_area_size(64)
        .build_cartesian_2d(
            (first..last.max(first * 2.0)).log_scale(),
            (low * 0.7..high * 1.4).log_scale(),
        )?;
    chart
        .configure_mesh()
        .x_desc(axis)
        .y_desc("microseconds")
        .label_style(("sans-serif", 13))
        .x_label_formatter(&|value| format!("{value:.0}"))
        .y_label_formatter(&|value| format!("{value}"))
        .light_line_style(WHITE)
        .draw()?;
    let time = points().map(|(at, point)| (at, point.time));
    let bound = points().filter(|(_, point)| point.bound > 0.0).map(|(at, p)| (at, p.bound));
    chart
        .draw_series(LineSeries::new(time, TIME.stroke_width(2)).point_size(3))?
        .label("simulated")
        .legend(|(x, y)| PathElement::new([(x, y), (x + 18, y)], TIME.stroke_width(2)));
    chart
        .draw_series(LineSeries::new(bound, BOUND.stroke_width(2)))?
        .label("lower bound")
        .legend(|(x, y)| PathElement::new([(x, y), (x + 18, y)], BOUND.stroke_width(2)));
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .label_font(("sans-serif", 13))
        .draw()?;
    area.present()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_curves_are_in_the_picture() {
        let mut text = String::new();
        let points = [(0.0, 2.0, 1.0), (8.0, 3.0, 1.5), (1e6, 200.0, 90.0)];
        let points = points.map(|(at, time, bound)| Point { at, time, bound });
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        draw_on(area, "allreduce", "bytes", &points).unwrap();
        assert!(text.contains("allreduce") && text.contains("lower bound"), "{text}");
        let curve = |colour: &str| {
            let is_curve = |line: &&str| {
                let has_points = line.matches(',').count() == points.len();
                line.starts_with("<polyline") && line.contains(colour) && has_points
            };
            text.lines().filter(is_curve).count()
        };
        assert_eq!((curve("#1F618D"), curve("#B03A2E")), (1, 1), "{text}");
    }
}
