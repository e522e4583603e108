//! Draws grids as text and as pictures. Each lane is a line, and time runs to the right.

use std::fmt::Write as _;

use super::{Cell, Grid};

/// Maximum number of columns of a text drawing.
const COLUMNS: usize = 160;
/// Height of a lane's line, width of the labels on the left, and total width of a picture, in
/// pixels.
const LINE: f64 = 22.0;
const LABELS: f64 = 64.0;
const WIDTH: f64 = 960.0;
/// Colours of rounds as (forward, backward). After the last pair, the first one follows.
const COLOURS: [(&str, &str); 3] = [("#9ecae9", "#4c78a8"), ("#b8e0b8", "#54a24b"), ("#ffd8a8", "#e6883a")];

impl Grid {
    /// Returns the grid as text, with one line for each lane. A line has the interval's number in
    /// each unit of time, followed by a prime in backward steps, and dots where the lane is idle. A
    /// unit is the shortest step. It is longer if a line would have more than 160 characters.
    #[must_use]
    pub fn text(&self) -> String {
        let digits = self.cells.iter().map(|cell| cell.interval).max().unwrap_or(0).to_string().len();
        let cell_width = digits + 2;
        let shortest = self.cells.iter().map(length).filter(|&took| took > 0.0).fold(f64::INFINITY, f64::min);
        let least = self.span() * cell_width as f64 / COLUMNS as f64;
        let unit = shortest.max(least);
        if !unit.is_finite() || unit <= 0.0 {
            return String::new();
        }
        let mut text = String::new();
        let label = (self.lanes.saturating_sub(1)).to_string().len();
        for lane in 0..self.lanes {
            let columns = (self.span() / unit).ceil() as usize;
            let mut line = vec![format!("{:>width$} ", ".", width = digits); columns];
            for cell in self.cells.iter().filter(|cell| cell.lane == lane) {
                let (from, to) =
                    ((cell.time.0 / unit).round() as usize, (cell.time.1 / unit).round() as usize);
                let mark = if cell.back { '\'' } else { ' ' };
                for place in line.iter_mut().take(to.max(from + 1)).skip(from) {
                    *place = format!("{:>digits$}{mark}", cell.interval);
                }
            }
            let _ = writeln!(text, "lane {lane:>label$} | {}", line.join(" ").trim_end_matches([' ', '.']));
        }
        text
    }

    /// Returns the grid as an SVG picture. Forward steps are light, backward steps are dark, and
    /// each round has its own colour.
    #[must_use]
    pub fn svg(&self) -> String {
        let height = LINE * f64::from(self.lanes) + 8.0;
        let scale = (WIDTH - LABELS - 8.0) / self.span().max(f64::MIN_POSITIVE);
        let mut text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
             viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"11\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        );
        for lane in 0..self.lanes {
            let y = 4.0 + LINE * f64::from(lane);
            let _ = writeln!(text, "<text x=\"6\" y=\"{:.1}\">lane {lane}</text>", y + 15.0);
            let _ = writeln!(
                text,
                "<rect x=\"{LABELS}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"#f2f2f2\"/>",
                WIDTH - LABELS - 8.0,
                LINE - 3.0
            );
        }
        for cell in &self.cells {
            let (light, dark) = COLOURS[cell.round as usize % COLOURS.len()];
            let (x, wide) = (LABELS + cell.time.0 * scale, length(cell) * scale);
            let y = 4.0 + LINE * f64::from(cell.lane);
            let (fill, ink) = if cell.back { (dark, "white") } else { (light, "black") };
            let _ = writeln!(
                text,
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{fill}\" stroke=\"white\" \
                 stroke-width=\"0.5\"><title>{}</title></rect>",
                wide.max(0.5),
                LINE - 3.0,
                description(cell)
            );
            if wide >= 14.0 {
                let (x, y, of) = (x + wide / 2.0, y + 14.0, cell.interval);
                let _ = writeln!(
                    text,
                    "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\" fill=\"{ink}\">{of}</text>"
                );
            }
        }
        text + "</svg>\n"
    }
}

fn length(cell: &Cell) -> f64 {
    cell.time.1 - cell.time.0
}

/// Returns the description of a cell for the picture's tooltip.
fn description(cell: &Cell) -> String {
    let way = if cell.back { "backward" } else { "forward" };
    format!("round {}, micro-batch {}, {way}, stage {}", cell.round, cell.interval, cell.stage)
}
