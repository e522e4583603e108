//! Data sets of images with lines, some of which are sides of outlines. The task needs both pixels
//! and a graph (Meng et al. 2020, "LGNN: a context-aware line segment detector").
//!
//! A row is a proposed line: its crop of the image, and the coordinates of its ends. An image has
//! closed outlines, and single strokes that are drawn in the same way. A crop alone hardly
//! distinguishes a side from a stroke, but sides meet sides. Proposals are all lines that were
//! drawn, and random segments between corners. Edges join proposals of an image whose ends are
//! close together. Every image comes from its own random streams.

pub mod scene;

use scene::{ACROSS, ALONG, PROPOSALS, SIDE, Scene};

use super::keyed::{Purpose, stream};
use super::{real, whole};
use crate::adjacency::{Graph, Options};
use crate::dataset::Dataset;
use crate::error::Result;
use crate::features::Features;
use crate::labels::Labels;
use crate::split::Split;

/// Maximum number of images of a data set. Their rows take 4.2 GB.
const MAX_IMAGES: u64 = 100_000;
/// Number of values per row, which are the pixels of the crop and x and y of both ends.
const COLUMNS: usize = ACROSS * ALONG + 4;

/// Specification of a data set of images with lines.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lines {
    /// Number of images, each with 40 rows. 60 % of the images are for training, 20 % for
    /// validation and 20 % for test.
    pub images: u64,
    /// Standard deviation of the pixel noise. The contrasts of lines are 0.5 to 1.
    pub noise: f64,
    /// True if edges join proposed lines that are close together.
    pub edges: bool,
    /// Random seed of all images.
    pub seed: u64,
}

impl Default for Lines {
    /// Returns a specification of 400 images with noise 0.35 and edges.
    fn default() -> Self {
        Self { images: 400, noise: 0.35, edges: true, seed: 0 }
    }
}

impl Lines {
    fn check(&self) -> Result<()> {
        whole("images", self.images, 5, MAX_IMAGES)?;
        real("noise", self.noise, 0.0, 100.0)
    }

    /// Draws the image with the index `image` and its proposed lines.
    #[must_use]
    pub fn scene(&self, image: u64) -> Scene {
        let noise = stream(self.seed, Purpose::Noise, image);
        Scene::draw(&mut stream(self.seed, Purpose::Lines, image), noise, self.noise as f32)
    }

    /// Generates the data set. Each row has [`ACROSS`] x [`ALONG`] pixels and 4 coordinates between
    /// -1 and 1. Class 1 means that the line is a side of an outline.
    ///
    /// # Errors
    /// Returns [`crate::error::Error::Parameter`] if a parameter is outside its limits.
    pub fn dataset(&self, name: &str) -> Result<Dataset> {
        self.check()?;
        let rows = self.images * PROPOSALS as u64;
        let mut values = Vec::with_capacity(rows as usize * COLUMNS);
        let (mut labels, mut edges) = (Vec::with_capacity(rows as usize), Vec::new());
        for image in 0..self.images {
            let scene = self.scene(image);
            let first = labels.len() as u32;
            if self.edges {
                edges.extend(scene.neighbours().map(|(one, two)| (first + one as u32, first + two as u32)));
            }
            for line in &scene.proposals {
                scene.crop(line, &mut values);
                values
                    .extend(line.ends.as_flattened().iter().map(|c| (c / (SIDE as f64 / 2.0) - 1.0) as f32));
                labels.push(u32::from(line.is_side));
            }
        }
        let at = |fifths: u64| (self.images * fifths / 5) as u32 * PROPOSALS as u32;
        let (train, validation, all) = (at(3), at(4), at(5));
        Dataset::new(
            name.to_owned(),
            Graph::from_edges(rows, edges.into_iter(), Options::default())?,
            Features::dense(COLUMNS as u32, &values)?,
            Labels::classes(labels, 2),
            Split {
                train: (0..train).collect(),
                validation: (train..validation).collect(),
                test: (validation..all).collect(),
            },
        )
        .checked()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn plain() -> Lines {
        Lines { images: 40, noise: 0.0, ..Lines::default() }
    }

    #[test]
    fn images_have_their_lines_and_are_the_same_again() {
        let made = plain();
        for image in 0..200 {
            let scene = made.scene(image);
            assert_eq!(scene, made.scene(image));
            assert_eq!((scene.proposals.len(), scene.pixels.len()), (PROPOSALS, SIDE * SIDE));
            let sides = scene.proposals.iter().filter(|line| line.is_side).count();
            assert!((3..=15).contains(&sides), "{image}: {sides}");
            for line in &scene.proposals {
                let [one, two] = line.ends;
                assert!(one[0] <= two[0] && line.ends.as_flattened().iter().all(|c| (0.0..63.0).contains(c)));
                let mut crop = Vec::new();
                scene.crop(line, &mut crop);
                assert_eq!(crop.len(), ACROSS * ALONG);
                // The middle of a side has ink nearly all along, for its ends are displaced.
                let ink = |at: usize| crop[3 * ALONG + at].abs().max(crop[4 * ALONG + at].abs());
                let inked = (0..ALONG).filter(|&at| ink(at) > 0.2).count();
                assert!(!line.is_side || inked >= 3 * ALONG / 4, "{image}: {inked}");
            }
        }
        assert_ne!(made.scene(0), made.scene(1));
        assert_ne!(made.scene(0), Lines { seed: 1, ..made }.scene(0));
    }

    #[test]
    fn sides_meet_sides_at_both_ends() {
        let made = plain();
        for image in 0..200 {
            let scene = made.scene(image);
            let mut met = [0; PROPOSALS];
            for (one, two) in scene.neighbours() {
                if scene.proposals[one].is_side && scene.proposals[two].is_side {
                    met[one] += 1;
                    met[two] += 1;
                }
            }
            for (line, met) in scene.proposals.iter().zip(met) {
                assert!(!line.is_side || met == 2, "{image}: {met}");
            }
        }
    }

    #[test]
    fn sets_split_by_image_and_edges_stay_within_one() {
        let data = plain().dataset("a").unwrap();
        assert_eq!((data.vertices(), data.features.columns()), (1600, 260));
        assert_eq!(
            [&data.split.train, &data.split.validation, &data.split.test].map(Vec::len),
            [960, 320, 320]
        );
        for row in 0..data.vertices() {
            assert!(data.graph.in_neighbours(row).iter().all(|other| other / 40 == row / 40));
        }
        let apart = Lines { edges: false, ..plain() }.dataset("a").unwrap();
        assert_eq!(apart.graph.edges(), 0);
        assert!(data.graph.edges() > 5 * 1600, "{}", data.graph.edges());
        assert!(apart.labels == data.labels);
        let (mut one, mut two) = ([0.0; 260], [0.0; 260]);
        for row in 0..1600 {
            data.features.copy_row(row, &mut one);
            apart.features.copy_row(row, &mut two);
            assert_eq!(one, two);
        }
        let wrong = [Lines { images: 4, ..plain() }, Lines { noise: -1.0, ..plain() }];
        assert!(wrong.iter().all(|made| made.dataset("a").is_err()));
        assert!(Lines { noise: f64::NAN, ..plain() }.dataset("a").is_err());
    }
}
