//! Image of the line task, with outlines, strokes and the lines that are proposed for it.
//!
//! Lengths are in pixels, and the centre of pixel (x, y) is at (x, y). No function is called whose
//! bits depend on the machine. For this reason directions use a rational parametrisation of the
//! circle.

use super::super::keyed::{fill_normal, unit};
use crate::random::SplitMix64;

/// Width and height of an image, in pixels.
pub const SIDE: usize = 64;
/// Height of a crop perpendicular to its line, in pixels.
pub const ACROSS: usize = 8;
/// Number of samples of a crop along its line.
pub const ALONG: usize = 32;
/// Number of lines that are proposed for each image.
pub const PROPOSALS: usize = 40;
/// Maximum distance between ends of two lines that an edge joins, in pixels.
const NEAR: f64 = 3.0;
/// Maximum displacement of a proposed line's end along each axis, in pixels.
const DISPLACED: f64 = 1.0;
/// Minimum distance between two corners, and between a corner and the image border, in pixels.
const APART: f64 = 6.0;
/// Maximum number of attempts to draw a figure. If all of them fail, the figure is left out.
const TRIES: u32 = 60;

/// Position in an image, as the coordinates x and y.
pub type Point = [f64; 2];

/// Line that is proposed for an image, with its correct class.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Proposal {
    /// Ends of the line. The end with the smaller x is the first.
    pub ends: [Point; 2],
    /// True if the line is a side of an outline, which is what a model has to predict.
    pub is_side: bool,
}

/// Image of the line task with the lines that are proposed for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Scene {
    /// Grey values of the pixels, row by row. The background is 0.
    pub pixels: Vec<f32>,
    /// Proposed lines in random order. Their number is [`PROPOSALS`].
    pub proposals: Vec<Proposal>,
}

/// Figures that have been drawn so far, as corners and pairs of corners that a line joins.
#[derive(Debug, Default)]
struct Drawing {
    corners: Vec<Point>,
    /// Lines, each with the indices of two corners, and true if it is a side of an outline.
    lines: Vec<([usize; 2], bool)>,
}

impl Scene {
    /// Draws an image with two or three outlines and six to nine strokes. `numbers` determines the
    /// figures, and `noise` the pixel noise with the standard deviation `deviation`.
    pub(super) fn draw(numbers: &mut SplitMix64, noise: SplitMix64, deviation: f32) -> Self {
        let mut pixels = vec![0.0; SIDE * SIDE];
        let mut drawing = Drawing::default();
        for figure in 0..2 + numbers.below(2) {
            drawing.add(numbers, &mut pixels, figure == 0, true);
        }
        for _ in 0..6 + numbers.below(4) {
            drawing.add(numbers, &mut pixels, false, false);
        }
        let mut own = vec![0.0; SIDE * SIDE];
        fill_normal(noise, &mut own);
        pixels.iter_mut().zip(own).for_each(|(pixel, noise)| *pixel += deviation * noise);
        Self { pixels, proposals: drawing.proposals(numbers) }
    }

    /// Appends the crop of a line to `values`. The crop has [`ACROSS`] rows of [`ALONG`] bilinear
    /// samples of the image, and the line runs along its middle. An eighth of the line at each end,
    /// where other lines begin, is left out.
    pub fn crop(&self, line: &Proposal, values: &mut Vec<f32>) {
        let [[x, y], [to_x, to_y]] = line.ends;
        let (along_x, along_y) = (to_x - x, to_y - y);
        let length = (along_x * along_x + along_y * along_y).sqrt().max(f64::MIN_POSITIVE);
        let normal = [-along_y / length, along_x / length];
        for row in 0..ACROSS {
            let off = row as f64 - (ACROSS as f64 - 1.0) / 2.0;
            for column in 0..ALONG {
                let share = 0.125 + 0.75 * (column as f64 + 0.5) / ALONG as f64;
                let at = [x + along_x * share + normal[0] * off, y + along_y * share + normal[1] * off];
                values.push(self.sample(at));
            }
        }
    }

    /// Returns the bilinear interpolation of the image at a point. Points beyond the border have
    /// the value of the nearest pixels.
    fn sample(&self, at: Point) -> f32 {
        let [x, y] = at.map(|c| c.clamp(0.0, SIDE as f64 - 1.001));
        let (left, top) = (x as usize, y as usize);
        let (right, below) = ((x - x.floor()) as f32, (y - y.floor()) as f32);
        let pixel = |x: usize, y: usize| self.pixels[y * SIDE + x];
        let row = |y: usize| pixel(left, y) * (1.0 - right) + pixel(left + 1, y) * right;
        row(top) * (1.0 - below) + row(top + 1) * below
    }

    /// Returns all pairs of proposed lines that have ends within three pixels of each other.
    pub fn neighbours(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let all = self.proposals.iter().enumerate();
        all.flat_map(move |(one, line)| {
            let later = self.proposals.iter().enumerate().skip(one + 1);
            later.filter(|(_, other)| are_near(line, other)).map(move |(other, _)| (one, other))
        })
    }
}

fn are_near(line: &Proposal, other: &Proposal) -> bool {
    let near = |a: Point, b: Point| distance(a, b) <= NEAR;
    line.ends.iter().any(|&a| other.ends.iter().any(|&b| near(a, b)))
}

fn distance(a: Point, b: Point) -> f64 {
    let [x, y] = [a[0] - b[0], a[1] - b[1]];
    (x * x + y * y).sqrt()
}

/// Returns a random number that is at least `least` and below `most`.
fn between(numbers: &mut SplitMix64, least: f64, most: f64) -> f64 {
    least + (most - least) * unit(numbers.next_u64())
}

/// Returns the product of two directions as complex numbers, which adds their angles.
fn turned(a: Point, b: Point) -> Point {
    [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]
}

/// Returns the unit vector with the angle 2 arctan t.
fn direction(t: f64) -> Point {
    let square = t * t;
    [(1.0 - square) / (1.0 + square), 2.0 * t / (1.0 + square)]
}

/// Returns a random unit vector. Its angle is the sum of a random angle within an eighth turn and a
/// multiple of an eighth turn.
fn any_direction(numbers: &mut SplitMix64) -> Point {
    let within = direction(between(numbers, 0.0, 0.414_213_562_373_095_1));
    let quarter = [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]][numbers.below(4) as usize];
    let eighth = [[1.0, 0.0], [std::f64::consts::FRAC_1_SQRT_2; 2]][numbers.below(2) as usize];
    turned(turned(within, quarter), eighth)
}

/// Returns the corners of a random outline. It is a rectangle with probability 1/2, and otherwise a
/// polygon with three to five corners.
fn outline(numbers: &mut SplitMix64) -> Vec<Point> {
    let radius = between(numbers, 12.0, 24.0);
    let most = SIDE as f64 - 1.0 - APART - radius;
    let middle = [between(numbers, APART + radius, most), between(numbers, APART + radius, most)];
    let turn = any_direction(numbers);
    let corners: Vec<Point> = match numbers.below(2) {
        0 => {
            // Half of the angle between the diagonals is 30 to 60 degrees.
            let diagonal = direction(between(numbers, 0.27, 0.57));
            [[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]]
                .map(|sign| [sign[0] * diagonal[0], sign[1] * diagonal[1]])
                .to_vec()
        }
        _ => {
            // Rotation by one step around a regular polygon.
            let step = [
                [-0.5, 0.866_025_403_784_438_6],
                [0.0, 1.0],
                [0.309_016_994_374_947_4, 0.951_056_516_295_153_6],
            ][numbers.below(3) as usize];
            let (mut corners, mut at) = (Vec::new(), [1.0, 0.0]);
            while corners.is_empty() || distance(at, [1.0, 0.0]) > 1e-6 {
                let off = turned(at, direction(between(numbers, -0.12, 0.12)));
                let share = between(numbers, 0.8, 1.0);
                corners.push(off.map(|c| c * share));
                at = turned(at, step);
            }
            corners
        }
    };
    let place = |corner| {
        let [x, y] = turned(corner, turn);
        [middle[0] + radius * x, middle[1] + radius * y]
    };
    corners.into_iter().map(place).collect()
}

/// Returns the two ends of a random stroke, which is about as long as the sides of outlines.
fn stroke(numbers: &mut SplitMix64) -> Vec<Point> {
    let most = SIDE as f64 - 1.0 - APART;
    let from = [between(numbers, APART, most), between(numbers, APART, most)];
    let (toward, length) = (any_direction(numbers), between(numbers, 12.0, 40.0));
    vec![from, [from[0] + length * toward[0], from[1] + length * toward[1]]]
}

impl Drawing {
    /// Draws a figure whose corners keep the minimum distance from all other corners. `first` is
    /// true for the first figure, which has no other corners. `closed` is true for an outline.
    fn add(&mut self, numbers: &mut SplitMix64, pixels: &mut [f32], first: bool, closed: bool) {
        for _ in 0..TRIES {
            let corners = if closed { outline(numbers) } else { stroke(numbers) };
            let inside = |c: &Point| c.iter().all(|v| (APART..=SIDE as f64 - 1.0 - APART).contains(v));
            let apart = |c: &Point| self.corners.iter().all(|&other| distance(*c, other) >= APART);
            if first || corners.iter().all(|c| inside(c) && apart(c)) {
                self.put(numbers, pixels, &corners, closed);
                return;
            }
        }
    }

    fn put(&mut self, numbers: &mut SplitMix64, pixels: &mut [f32], corners: &[Point], closed: bool) {
        let contrast = between(numbers, 0.5, 1.0);
        let contrast = if numbers.below(2) == 0 { contrast } else { -contrast };
        let from = self.corners.len();
        self.corners.extend(corners);
        for at in 0..corners.len() - usize::from(!closed) {
            let pair = [from + at, from + (at + 1) % corners.len()];
            self.lines.push((pair, closed));
            ink(pixels, pair.map(|end| self.corners[end]), contrast as f32);
        }
    }

    /// Returns every line that was drawn, and random pairs of corners that no line joins. The total
    /// number is [`PROPOSALS`].
    fn proposals(&self, numbers: &mut SplitMix64) -> Vec<Proposal> {
        let count = self.corners.len();
        let joined =
            |pair: [usize; 2]| self.lines.iter().any(|&(line, _)| line == pair || line == [pair[1], pair[0]]);
        let pairs = (0..count).flat_map(|a| (a + 1..count).map(move |b| [a, b]));
        let mut others: Vec<([usize; 2], bool)> = pairs.filter(|&p| !joined(p)).map(|p| (p, false)).collect();
        numbers.shuffle(&mut others);
        // There are at most 15 sides and 9 strokes. If there are few corners, pairs are repeated
        // with another displacement.
        let again = others.iter().cycle();
        let mut chosen: Vec<_> = self.lines.iter().chain(again).copied().take(PROPOSALS).collect();
        numbers.shuffle(&mut chosen);
        let mut displaced =
            |corner: usize| self.corners[corner].map(|c| c + between(numbers, -DISPLACED, DISPLACED));
        let proposal = |([a, b], is_side): ([usize; 2], bool)| {
            let (one, two) = (displaced(a), displaced(b));
            Proposal { ends: if one[0] <= two[0] { [one, two] } else { [two, one] }, is_side }
        };
        chosen.into_iter().map(proposal).collect()
    }
}

/// Draws a line that is about two pixels wide. It has the full contrast within half a pixel of the
/// line, and none beyond one and a half.
fn ink(pixels: &mut [f32], ends: [Point; 2], contrast: f32) {
    let [[x, y], [to_x, to_y]] = ends;
    let (along_x, along_y) = (to_x - x, to_y - y);
    let square = (along_x * along_x + along_y * along_y).max(f64::MIN_POSITIVE);
    for (row, line) in pixels.chunks_exact_mut(SIDE).enumerate() {
        for (column, pixel) in line.iter_mut().enumerate() {
            let at = [column as f64, row as f64];
            let share = ((at[0] - x) * along_x + (at[1] - y) * along_y) / square;
            let share = share.clamp(0.0, 1.0);
            let off = distance(at, [x + along_x * share, y + along_y * share]);
            let value = contrast * (1.5 - off).clamp(0.0, 1.0) as f32;
            if value.abs() > pixel.abs() {
                *pixel = value;
            }
        }
    }
}
