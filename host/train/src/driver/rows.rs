//! The row store, which has the rows of activations and gradients. A slot is a matrix that one
//! stage writes, and an interval is a contiguous range of rows that is scheduled as one unit.
//!
//! The rows of a slot are in one buffer. If rounds overlap, a ring has one buffer for each round
//! that is stored ([`Pipeline::row_versions`]). A buffer that only lanes use has regions for as
//! many intervals as the lanes process at once ([`Buffers::places`]). An interval gets a region
//! with its first rows, and releases it after the last step that uses the buffer.
//!
//! Leases prevent steps from reading rows while another step writes them. Tags prevent steps from
//! reading rows of another slot or round. Each interval of a buffer has a tag with the slot and
//! round of its rows. A write clears the tag, and a commit sets it.

mod in_file;
mod passing;
mod stored;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use eciton_planner::policy;
use eciton_program::{Buffers, Domain, Program};
use eciton_recipe::{Lanes, Pipeline, RowFormat};
use eciton_tensor::{Buffer, Matrix};
use eciton_types::{DomainId, IntervalId, Round, SlotId, StageId, Step};

use self::in_file::InFile;
use self::passing::Passing;
use self::stored::Stored;
pub(crate) use self::stored::{Lease, WriteLease};
use crate::error::{Error, Result, at};

/// Tag of an interval's region in a buffer. It has the slot and the round of the rows in the
/// region. Round 0 means that the region has no valid rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tag {
    slot: SlotId,
    round: Round,
}

/// Tag of a region that has no valid rows.
const NONE: Tag = Tag { slot: SlotId(0), round: Round(0) };

/// Ring of equal buffers that a group of slots uses. Each buffer has the rows of one round.
#[derive(Debug)]
struct Ring {
    versions: Vec<Stored>,
    /// Tags of all regions, by buffer of the ring and then by interval.
    tags: RefCell<Vec<Tag>>,
    domain: DomainId,
    places: Option<Places>,
    /// First stored row. Rows of other hosts that no gather reads are not stored.
    first: usize,
}

/// Regions of a buffer that has fewer regions than there are intervals. An interval occupies a
/// region only while its rows are needed.
#[derive(Debug)]
struct Places {
    /// Number of rows per region.
    each: usize,
    count: usize,
    /// Last stage that uses the buffer. An interval releases its region after this stage.
    last: StageId,
    /// Index of the region that each interval occupies.
    of: RefCell<BTreeMap<IntervalId, usize>>,
}

impl Places {
    /// Returns the first row of an interval's region. If the interval has no region and `write` is
    /// true, it gets a free one. Returns `None` if there is none.
    fn first(&self, interval: IntervalId, write: bool) -> Option<usize> {
        let mut of = self.of.borrow_mut();
        if let Some(place) = of.get(&interval) {
            return Some(place * self.each);
        }
        let free = (0..self.count).find(|place| write && !of.values().any(|taken| taken == place))?;
        of.insert(interval, free);
        Some(free * self.each)
    }
}

/// Store of the rows that the stages of one program read and write.
#[derive(Debug)]
pub(crate) struct RowStore {
    rings: Vec<Ring>,
    /// Buffers of the slot whose rows are stored only until [`RowStore::take`]. All other slots are
    /// in `rings`.
    passing: Option<Passing>,
    /// Index in `rings` of each slot. `None` if the slot has no buffer.
    of: Vec<Option<usize>>,
    /// Row range of each interval, by domain (vertices or graphs).
    intervals: Vec<Vec<Range<usize>>>,
    /// Number format in which activations and gradients are stored.
    pub(crate) format: RowFormat,
}

impl RowStore {
    /// Creates the buffers for the slots of a program. Slots that are not needed at the same time
    /// share a buffer. `others` are stores of programs that run at other times, so that their
    /// buffers are reused. `own` are the rows whose steps run here, in a run on several hosts. If
    /// `folder` is given, f32 rows of all vertices are in files of this folder.
    pub(crate) fn new(
        program: &Program,
        intervals: Vec<Vec<Range<usize>>>,
        (pipeline, lanes): (&Pipeline, &Lanes),
        format: RowFormat,
        (others, own, folder): (&[&Self], Option<Range<usize>>, Option<&Path>),
    ) -> Result<Self> {
        let each = intervals.first().map_or(0, Vec::len);
        let count = u32::try_from(each).unwrap_or(u32::MAX);
        let assigned = Buffers::assign(program, count, pipeline, format);
        let mut known: Vec<Stored> = Vec::new();
        for buffer in others.iter().flat_map(|store| &store.rings).flat_map(|ring| &ring.versions) {
            if !known.iter().any(|k| k.is_same(buffer)) {
                known.push(buffer.clone());
            }
        }
        let longest = intervals.first().into_iter().flatten().map(Range::len).max().unwrap_or(0);
        let places = |buffer: usize, kept: u32, (places, last): (u32, StageId)| {
            let (places, of) = (places as usize, RefCell::default());
            let fewer =
                places < each && kept == 1 && assigned.domains().get(buffer) == Some(&Domain::VERTICES);
            fewer.then_some(Places { each: longest, count: places, last, of })
        };
        let mut one = |rows: usize, width: u32, format: RowFormat| {
            let width = width as usize;
            match known.iter().position(|k| k.is_like(rows, width, format)) {
                Some(found) => Ok(known.swap_remove(found)),
                None => Stored::zeroed(rows, width, format),
            }
        };
        let gathered = assigned.gathered(program);
        let all = assigned.widths().iter().zip(assigned.versions()).zip(assigned.formats());
        let all = all
            .zip(assigned.domains())
            .zip(assigned.places(program, policy::at_once(program, lanes, count)))
            .enumerate();
        let rings = all.map(|(buffer, ((((&width, &kept), &format), &domain), at_once))| {
            let places = places(buffer, kept, at_once);
            let only = own.as_ref().filter(|_| !gathered.get(buffer).is_some_and(|gathered| *gathered));
            let whole = only.map_or(program.rows(domain) as usize, Range::len);
            let rows = places.as_ref().map_or(whole, |places| places.each * places.count);
            let first = only.filter(|_| places.is_none()).map_or(0, |own| own.start);
            let in_file = folder
                .filter(|_| places.is_none() && domain == Domain::VERTICES && format != RowFormat::Bf16);
            let version = |_| match in_file {
                Some(folder) => InFile::zeroed(folder, (rows, width as usize)).map(Stored::File),
                None => one(rows, width, format),
            };
            let versions = (0..kept).map(version).collect::<Result<Vec<_>>>()?;
            let tags = RefCell::new(vec![NONE; versions.len() * each]);
            Ok(Ring { versions, tags, domain, places, first })
        });
        let rings = rings.collect::<Result<_>>()?;
        let of = |slot: usize| Some(assigned.buffer(SlotId(u16::try_from(slot).ok()?))?.index());
        let of = (0..program.slots.len()).map(of).collect();
        Ok(Self { rings, passing: None, of, intervals, format })
    }

    /// Creates a store for a single slot, whose rows are stored only until they are
    /// [taken](Self::take).
    pub(crate) fn passing(
        slot: SlotId,
        width: u32,
        intervals: Vec<Vec<Range<usize>>>,
        format: RowFormat,
    ) -> Self {
        let longest = intervals.iter().flatten().map(Range::len).max().unwrap_or(0);
        let passing = Some(Passing::new(slot, width, longest));
        Self { rings: Vec::new(), passing, of: Vec::new(), intervals, format }
    }

    /// Removes the buffer with an interval's rows from a store that [`RowStore::passing`] created.
    /// The interval's rows are at the start of the buffer.
    pub(crate) fn take(&self, interval: IntervalId) -> Result<Buffer> {
        let passing = self.passing.as_ref();
        passing.ok_or_else(|| Error::Internal("the rows are not passed on".to_owned()))?.take(interval)
    }

    /// Returns a buffer from [`RowStore::take`] to the store, so that other intervals can use it.
    pub(crate) fn give_back(&self, place: Buffer) {
        self.passing.iter().for_each(|passing| passing.give_back(place.clone()));
    }

    /// Returns the buffers of `slot` if its rows are stored only until they are taken. Otherwise
    /// returns `None`.
    fn passes(&self, slot: SlotId) -> Option<&Passing> {
        self.passing.as_ref().filter(|passing| passing.slot == slot)
    }

    /// Returns the ring of buffers that a slot uses.
    fn ring(&self, slot: SlotId) -> Result<&Ring> {
        let found = self.of.get(slot.index()).copied().flatten().and_then(|ring| self.rings.get(ring));
        found.ok_or_else(|| Error::Internal(format!("slot {slot} has no buffer")))
    }

    /// Leases for reading all rows of a slot, whose ring must have a single buffer.
    pub(crate) fn all(&self, slot: SlotId) -> Result<Matrix> {
        let ring = self.ring(slot)?;
        let first = ring.versions.first();
        let first = first.ok_or_else(|| Error::Internal(format!("slot {slot} has no rows")))?;
        let rows = self.cut(ring).last().map_or(0, |last| last.end);
        Ok(first.read(0..rows).map_err(at("rows of all intervals"))?.into())
    }

    /// Returns true if the rows of a slot are stored as bfloat16.
    pub(crate) fn is_half(&self, slot: SlotId) -> bool {
        self.ring(slot).is_ok_and(|ring| ring.versions.iter().any(|stored| matches!(stored, Stored::Bf16(_))))
    }

    /// Returns the row range of each interval, by domain (vertices or graphs).
    pub(crate) fn intervals(&self) -> &[Vec<Range<usize>>] {
        &self.intervals
    }

    /// Returns the row range of each interval in the domain of `ring`.
    fn cut(&self, ring: &Ring) -> &[Range<usize>] {
        self.intervals.get(ring.domain.index()).map_or(&[], |cut| cut)
    }

    /// Returns the row range of an interval in a buffer of `ring`, cut to `first` rows if this is
    /// set. If `write` is true, an interval without a region gets one.
    fn rows(
        &self,
        ring: &Ring,
        interval: IntervalId,
        (first, write): (Option<usize>, bool),
    ) -> Result<Range<usize>> {
        let rows = self.cut(ring).get(interval.index()).cloned();
        let mut rows = rows.ok_or_else(|| Error::Internal(format!("there is no interval {interval}")))?;
        if let Some(places) = &ring.places {
            let start = places.first(interval, write);
            let none = || Error::Internal(format!("interval {interval} has no row buffer"));
            let start = start.ok_or_else(none)?;
            rows = start..start + rows.len();
        }
        let rows = match (rows.start.checked_sub(ring.first), rows.end.checked_sub(ring.first)) {
            (Some(start), Some(end)) => start..end,
            _ => return Err(Error::Internal(format!("interval {interval} is stored at another host"))),
        };
        match first {
            None => Ok(rows),
            Some(count) if count <= rows.len() => Ok(rows.start..rows.start + count),
            Some(count) => {
                Err(Error::Internal(format!("{count} rows of interval {interval}, which has {}", rows.len())))
            }
        }
    }

    /// Returns the ring and the buffer that have a slot's rows in `round`, and the index of the
    /// interval's tag.
    fn place(&self, slot: SlotId, round: Round, interval: IntervalId) -> Result<(&Ring, &Stored, usize)> {
        let ring = self.ring(slot)?;
        let version = round.index() % ring.versions.len().max(1);
        let buffer = ring.versions.get(version);
        let buffer = buffer.ok_or_else(|| Error::Internal(format!("slot {slot} has no rows")))?;
        Ok((ring, buffer, version * self.cut(ring).len() + interval.index()))
    }

    /// Invalidates all rows. Called at the start of a pass, which is one run of the engine.
    pub(crate) fn forget(&self) {
        for ring in &self.rings {
            ring.tags.borrow_mut().fill(NONE);
            ring.versions.iter().for_each(Stored::forget);
            ring.places.iter().for_each(|places| places.of.borrow_mut().clear());
        }
        self.passing.iter().for_each(Passing::forget);
    }

    /// Releases the step's interval from all buffers that no later stage uses, so that other
    /// intervals can use its regions.
    pub(crate) fn over(&self, step: Step) {
        for ring in &self.rings {
            let Some(places) = ring.places.as_ref().filter(|places| places.last == step.stage) else {
                continue;
            };
            places.of.borrow_mut().remove(&step.interval);
            if let Some(tag) = ring.tags.borrow_mut().get_mut(step.interval.index()) {
                *tag = NONE;
            }
        }
    }

    /// Leases for writing the rows of an interval in `round`, or the first `first` of them. The
    /// rows cannot be read until [`RowStore::publish`].
    pub(crate) fn write(
        &self,
        slot: SlotId,
        round: Round,
        interval: IntervalId,
        first: Option<usize>,
    ) -> Result<WriteLease> {
        if let Some(passing) = self.passes(slot) {
            let rows = self.intervals.first().and_then(|cut| cut.get(interval.index())).map_or(0, Range::len);
            return passing.write(interval, first.unwrap_or(rows).min(rows)).map(WriteLease::F32);
        }
        let (ring, buffer, tag) = self.place(slot, round, interval)?;
        let rows = buffer.write(self.rows(ring, interval, (first, true))?).map_err(at("rows to write"))?;
        if let Some(tag) = ring.tags.borrow_mut().get_mut(tag) {
            *tag = NONE;
        }
        Ok(rows)
    }

    /// Sets a range of an interval's rows to zero. `rows` is counted from the start of the
    /// interval. Called before the step's other rows are written.
    pub(crate) fn clear(
        &self,
        slot: SlotId,
        round: Round,
        interval: IntervalId,
        rows: Range<usize>,
    ) -> Result<()> {
        let (ring, buffer, _) = self.place(slot, round, interval)?;
        let all = self.rows(ring, interval, (Some(rows.end), true))?;
        let rows = all.start + rows.start..all.end;
        match buffer.write(rows.clone()).map_err(at("rows to clear"))? {
            WriteLease::F32(mut lease) => {
                let mut view = lease.view_mut();
                (0..rows.len()).for_each(|row| view.row_mut(row).fill(0.0));
            }
            WriteLease::Bf16(mut lease) => {
                let mut view = lease.view_mut();
                (0..rows.len()).for_each(|row| view.row_mut(row).fill(0));
            }
        }
        Ok(())
    }

    /// Tags the rows of an interval with their slot and round, so that steps may read them.
    pub(crate) fn publish(&self, slot: SlotId, round: Round, interval: IntervalId) -> Result<()> {
        if self.passes(slot).is_some() {
            return Ok(());
        }
        let (ring, buffer, tag) = self.place(slot, round, interval)?;
        if let Stored::File(file) = buffer {
            file.publish(&self.rows(ring, interval, (None, false))?)?;
        }
        if let Some(tag) = ring.tags.borrow_mut().get_mut(tag) {
            *tag = Tag { slot, round };
        }
        Ok(())
    }

    /// Checks that the rows of an interval were published for this slot and round. Returns the ring
    /// and the buffer that have them.
    fn check(&self, slot: SlotId, round: Round, interval: IntervalId) -> Result<(&Ring, &Stored)> {
        let (ring, buffer, at) = self.place(slot, round, interval)?;
        let tag = ring.tags.borrow().get(at).copied();
        if tag == Some(Tag { slot, round }) {
            return Ok((ring, buffer));
        }
        let found = match tag {
            Some(tag) if tag != NONE => format!("slot {} of round {}", tag.slot, tag.round),
            _ => "no published rows".to_owned(),
        };
        Err(Error::Internal(format!(
            "the buffer of slot {slot}, round {round}, interval {interval} has {found}"
        )))
    }

    /// Leases for reading the rows of an interval, or the first `first` of them. Fails if the rows
    /// were not published for this slot and round.
    pub(crate) fn lease(
        &self,
        slot: SlotId,
        round: Round,
        interval: IntervalId,
        first: Option<usize>,
    ) -> Result<Lease> {
        let (ring, buffer) = self.check(slot, round, interval)?;
        buffer.read(self.rows(ring, interval, (first, false))?).map_err(at("rows to read"))
    }

    /// Leases for reading the rows of all intervals of a slot. `ages` is the age in rounds of each
    /// interval's rows, relative to `round`. If `None`, all rows are of `round`. The result has one
    /// lease per contiguous range of rows in the same buffer.
    pub(crate) fn read_all(
        &self,
        slot: SlotId,
        round: Round,
        ages: Option<&[u8]>,
    ) -> Result<Vec<(Range<usize>, Lease)>> {
        let mut pieces: Vec<(Range<usize>, &Stored)> = Vec::new();
        let ring = self.ring(slot)?;
        for (interval, rows) in (0..).map(IntervalId).zip(self.cut(ring)).filter(|(_, rows)| !rows.is_empty())
        {
            let age = ages.map_or(0, |ages| ages.get(interval.index()).copied().unwrap_or(0));
            let of = Round(round.0.saturating_sub(u32::from(age)));
            let (_, buffer) = self.check(slot, of, interval)?;
            match pieces.last_mut() {
                Some((before, same)) if same.is_same(buffer) => before.end = rows.end,
                _ => pieces.push((rows.clone(), buffer)),
            }
        }
        let read = |(rows, buffer): (Range<usize>, &Stored)| {
            Ok((rows.clone(), buffer.read(rows).map_err(at("rows to gather"))?))
        };
        pieces.into_iter().map(read).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use eciton_gather::Rows;

    use super::*;
    use eciton_program::{DataShape, Rewrites, Stage};
    use eciton_recipe::Model;
    use eciton_types::Signature;

    fn program() -> Program {
        let model = Model::gcn(2, 4, 0.5, 9, 3).unwrap();
        let shape = DataShape { rows: 10, features: 9, classes: 3, edge_features: 0, read_out: 0, group: 1 };
        Program::build(&model, shape, Rewrites::default(), &|kernel, inputs, attributes| {
            let out = attributes.iter().find_map(|a| match a.value {
                eciton_types::Value::Integer(out) => u32::try_from(out).ok(),
                _ => None,
            });
            let rows = |width| vec![eciton_types::RowsSpec { name: "rows".into(), extents: vec![width] }];
            Ok::<_, String>(Signature {
                inputs: rows(inputs[0][0]),
                outputs: rows(out.unwrap_or(inputs[0][0])),
                loss: (kernel == "head").then_some(eciton_types::signature::TargetKind::Classes),
                ..Signature::default()
            })
        })
        .unwrap()
    }

    fn gathered(program: &Program) -> SlotId {
        program.stages.iter().flat_map(Stage::all).next().unwrap()
    }

    #[test]
    fn rows_are_read_under_the_tag_they_were_published_under() {
        for format in [RowFormat::F32, RowFormat::Bf16] {
            tags_hold(format);
        }
    }

    fn tags_hold(format: RowFormat) {
        let (program, s) = (program(), 1);
        let slot = gathered(&program);
        let intervals = vec![0..4, 4..7, 7..10];
        let pipeline = (&Pipeline::asynchronous(s), &Lanes::default());
        let store =
            RowStore::new(&program, vec![intervals.clone()], pipeline, format, (&[], None, None)).unwrap();
        let put = |round: u32, interval: u32| {
            let id = IntervalId(interval);
            let (rows, value) = (intervals[interval as usize].len(), (round * 10 + interval) as f32);
            match store.write(slot, Round(round), id, None).unwrap() {
                WriteLease::F32(mut to) => (0..rows).for_each(|row| to.view_mut().row_mut(row).fill(value)),
                WriteLease::Bf16(mut to) => {
                    let half = eciton_tensor::half::round(value);
                    (0..rows).for_each(|row| to.view_mut().row_mut(row).fill(half));
                }
            }
            assert!(store.lease(slot, Round(round), id, None).is_err(), "not published yet");
            store.publish(slot, Round(round), id).unwrap();
        };
        for (round, interval) in [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (3, 1)] {
            put(round, interval);
        }
        // Interval 0 in round 2 reads itself, 1 of round 2 and 2 of round 1.
        let pieces = store.read_all(slot, Round(2), Some(&[0, 0, 1])).unwrap();
        let spans: Vec<_> = pieces.iter().map(|(rows, _)| rows.clone()).collect();
        assert_eq!(spans, [0..7, 7..10]);
        let firsts = pieces.iter().map(|(_, lease)| match lease.rows() {
            Rows::F32(view) => view.row(0)[0],
            Rows::Bf16(view) => eciton_tensor::half::widen(view.row(0)[0]),
        });
        let firsts: Vec<f32> = firsts.collect();
        assert_eq!(firsts, [20.0, 12.0]);
        let missing = store.read_all(slot, Round(2), None).unwrap_err().to_string();
        assert!(missing.contains("round 2, interval 2 has"), "{missing}");
        // Three rounds are stored: the fourth overwrites the first, which is being read.
        assert!(store.write(slot, Round(4), IntervalId(2), None).is_err());
        drop(pieces);
        put(4, 2);
        assert!(
            store.lease(slot, Round(1), IntervalId(2), None).unwrap_err().to_string().contains("round 4")
        );
        store.forget();
        assert!(store.lease(slot, Round(4), IntervalId(2), None).is_err());
    }
}
