//! Reader for edge tables. If no other file defines the vertices, they are the ids in the edges and
//! labels.

use std::convert::Infallible;

use eciton_graph::adjacency::check_vertices;
use eciton_graph::encoding::Kind;
use eciton_graph::error::{Place, Result};
use eciton_graph::expected::Expected;

use super::ids::{Ids, Words};
use super::roles::{self, Roles};
use crate::dictionary::Collector;
use crate::edge_rows::Columns;
use crate::file::Grown;
use crate::missing::is_missing;
use crate::numbers::{canonical, number};
use crate::settings::Use;
use crate::table::{Records, Row, Table, is_header, is_unnamed};

/// Reason why the ids of an edge table cannot be stored as 32-bit numbers.
enum Other {
    /// An id is a word.
    Words,
    /// An id exceeds 32 bits. Storing such ids would take 16 bytes per edge, so the table is read
    /// twice instead.
    Wide,
}

/// Edges of a table, with their values.
pub(super) struct Edges {
    /// Source and target of each edge, in the order of the table.
    pub(super) pairs: Grown<(u32, u32)>,
    pub(super) columns: Columns,
}

impl Edges {
    /// Reads the edges between vertices whose ids are already known.
    pub(super) fn between(table: &Table, ids: &Ids, expected: Option<&Expected>) -> Result<Self> {
        let first = table.first(2)?;
        let unknown = |field| ids.position(first.get(field)).is_none() && number(first.get(field)).is_none();
        table.set_header(unknown(0) && unknown(1));
        if !table.is_settled() && table.header.get() && ids.are_words() && !is_header(first.get(0)) {
            table.note(true, "neither of its ids is an id of the data set");
        }
        let find = |row: &Row| {
            let end = |field: usize| ids.find(table, row.line(), row.get(field));
            Ok(Ok((end(0)?, end(1)?)))
        };
        let made =
            Self::read(table, expected, find, |_| ())?.unwrap_or_else(|never: Infallible| match never {});
        made.checked(table)
    }

    /// Reads the edges in blocks on all processors. `find` returns the two ends of an edge, or the
    /// reason why the table must be read in another way. `see` is called with the edges of each
    /// block.
    fn read<O: Send>(
        table: &Table,
        expected: Option<&Expected>,
        find: impl Fn(&Row) -> Result<std::result::Result<(u32, u32), O>> + Sync,
        see: impl Fn(&[(u32, u32)]) + Sync,
    ) -> Result<std::result::Result<Self, O>> {
        let columns = Columns::select(table, expected)?;
        let (mut pairs, mut values) = (Grown::new(&table.file), Grown::new(&table.file));
        let block = |rows: &mut Records<'_>| {
            let (mut pairs, mut values) = (Vec::new(), Vec::new());
            while let Some(row) = rows.next()? {
                match find(row)? {
                    Ok(pair) => pairs.push(pair),
                    Err(other) => return Ok(Err(other)),
                }
                columns.read(row, &mut values)?;
            }
            see(&pairs);
            Ok(Ok((pairs, values)))
        };
        let mut other = None;
        table.blocks(2, block, |block| {
            match block {
                Ok((of, values_of)) => {
                    pairs.room(of.len())?.extend(of);
                    values.room(values_of.len())?.extend(values_of);
                }
                Err(found) => other = Some(found),
            }
            Ok(other.is_none())
        })?;
        Ok(match other {
            None => Ok(Self { pairs, columns: columns.with(values) }),
            Some(other) => Err(other),
        })
    }

    /// Reads edges whose ids are all numbers, including the ids of `labels`. Returns `None` if an
    /// id is a word.
    ///
    /// The table is read only once, because edges store ids until all ids are known.
    pub(super) fn numbered(
        table: &Table,
        labels: Option<&Table>,
        expected: Option<&Expected>,
    ) -> Result<Option<(Ids, Self)>> {
        let mut ids = Collector::new(table.bytes()?);
        if let Some(labels) = labels {
            let Some(doubtful) = doubtful_header(labels)? else { return Ok(None) };
            let mut rows = labels.rows(2)?;
            let mut others = false;
            while let Some(row) = rows.next()? {
                let Some(id) = canonical(row.get(0)) else { return Ok(None) };
                ids.add([id].into_iter());
                others = true;
            }
            if doubtful && !others {
                return Ok(None);
            }
        }
        let Some(doubtful) = doubtful_header(table)? else { return Ok(None) };
        let find = |row: &Row| {
            Ok(match canonical(row.get(0)).zip(canonical(row.get(1))) {
                None => Err(Other::Words),
                Some((source, target)) => match (u32::try_from(source), u32::try_from(target)) {
                    (Ok(source), Ok(target)) => Ok((source, target)),
                    _ => Err(Other::Wide),
                },
            })
        };
        let see = |pairs: &[(u32, u32)]| {
            ids.share(pairs.iter().flat_map(|&(source, target)| [source.into(), target.into()]));
        };
        let mut made = match Self::read(table, expected, find, see)? {
            Ok(made) => made,
            Err(Other::Words) => return Ok(None),
            Err(Other::Wide) => return Self::wide(table, labels, expected),
        };
        if doubtful && made.pairs.is_empty() {
            return Ok(None);
        }
        let dictionary = ids.finish();
        check_vertices(dictionary.len(), || Place::whole(&table.file))?;
        if !dictionary.dense() {
            for (source, target) in made.pairs.iter_mut() {
                for end in [source, target] {
                    *end = dictionary.find((*end).into()).unwrap_or_default();
                }
            }
        }
        let found = Ids::numbers(dictionary);
        made.checked(table).map(|edges| Some((found, edges)))
    }

    /// Reads edges like [`Edges::numbered`], but in two passes, for ids that exceed 32 bits.
    fn wide(
        table: &Table,
        labels: Option<&Table>,
        expected: Option<&Expected>,
    ) -> Result<Option<(Ids, Self)>> {
        let mut ids = Collector::new(table.bytes()?);
        let parts = labels.map(|labels| (labels, &[0][..])).into_iter().chain([(table, &[0, 1][..])]);
        for (table, fields) in parts {
            let mut rows = table.rows(2)?;
            while let Some(row) = rows.next()? {
                for &field in fields {
                    let Some(id) = canonical(row.get(field)) else { return Ok(None) };
                    ids.add([id].into_iter());
                }
            }
        }
        let dictionary = ids.finish();
        check_vertices(dictionary.len(), || Place::whole(&table.file))?;
        let ids = Ids::numbers(dictionary);
        let edges = Self::between(table, &ids, expected)?;
        Ok(Some((ids, edges)))
    }

    /// Reads edges whose ids are words. Vertices are numbered by first appearance, with the ids of
    /// `labels` first.
    pub(super) fn worded(
        table: &Table,
        labels: Option<&Table>,
        expected: Option<&Expected>,
    ) -> Result<(Ids, Self)> {
        table.find_header(2)?;
        labels.map_or(Ok(false), |labels| labels.find_header(2))?;
        let (ids, edges) = Self::words(table, labels, expected)?;
        // If the first row may be a header, all other rows have been read by now.
        let mut changed = false;
        if let Some(labels) = labels.filter(|labels| !labels.header.get() && !labels.is_settled()) {
            changed |= label_header(labels, &ids, &edges)?;
        }
        if !table.header.get() && !table.is_settled() && edges.pairs.len() > 1 {
            changed |= edge_header(table, &ids, &edges, labels)?;
        }
        if changed { Self::words(table, labels, expected) } else { Ok((ids, edges)) }
    }

    pub(super) fn words(
        table: &Table,
        labels: Option<&Table>,
        expected: Option<&Expected>,
    ) -> Result<(Ids, Self)> {
        let mut ids = Words::new(&table.file);
        if let Some(labels) = labels {
            labels.each(2, |row| ids.add(row.id(labels, 0)?).map(drop))?;
        }
        let columns = Columns::select(table, expected)?;
        let (mut pairs, mut values) = (Grown::new(&table.file), Grown::new(&table.file));
        table.each(2, |row| {
            pairs.push((ids.add(row.id(table, 0)?)?, ids.add(row.id(table, 1)?)?))?;
            columns.read(row, values.room(columns.count())?)
        })?;
        let made = Self { pairs, columns: columns.with(values) };
        made.checked(table).map(|edges| (ids.finish(), edges))
    }

    /// Returns an error if the table has no edge, unless it has a header of known words.
    pub(super) fn checked(self, table: &Table) -> Result<Self> {
        match self.pairs.is_empty() && !is_header(table.first(2)?.get(0)) {
            true => Err(table.empty("at least one edge: source, target")),
            false => Ok(self),
        }
    }
}

/// Decides whether a first row of words is a header, given that all other ids must be numbers.
/// Returns whether the decision is doubtful. Returns `None` if the first id is a number in another
/// spelling, for instance `007`, because ids are then words.
fn doubtful_header(table: &Table) -> Result<Option<bool>> {
    let first = table.first(2)?;
    let word = first.get(0);
    // A number of another form (1.5, -1) is an id of words, not a header.
    table.set_header(word.is_empty() || number(word).is_none());
    if table.is_settled() && table.header.get() {
        return Ok(Some(false));
    }
    match canonical(word).is_none() && !table.header.get() {
        true => Ok(None),
        false => Ok(Some(table.header.get() && !is_header(word))),
    }
}

/// Decides whether the first row of a label table is a header, if ids are words. It is one if its
/// id occurs in no edge and its label in no other row.
pub(super) fn label_header(labels: &Table, ids: &Ids, edges: &Edges) -> Result<bool> {
    let first = labels.first(2)?;
    let Some(id) = ids.position(first.get(0)) else { return Ok(false) };
    if edges.pairs.iter().any(|&(source, target)| source == id || target == id) {
        return Ok(false);
    }
    let (label, mut again, mut rows) = (first.get(1).to_owned(), 0, 0);
    labels.each(2, |row| {
        rows += 1;
        again += u64::from(row.get(1) == label);
        Ok(())
    })?;
    let header = again == 1 && rows > 1 && number(&label).is_none() && !is_missing(&label);
    labels.header.set(header);
    if header {
        labels.note(true, "its id is in no edge, and its label in no other line");
    }
    Ok(header)
}

/// Decides whether the first row of an edge table is a header, if ids are words. It is one if
/// neither of its ids occurs again, although other ids do.
pub(super) fn edge_header(table: &Table, ids: &Ids, edges: &Edges, labels: Option<&Table>) -> Result<bool> {
    let Some((&(a, b), rest)) = edges.pairs.split_first() else { return Ok(false) };
    let occurs = |vertex: u32| rest.iter().any(|&(source, target)| source == vertex || target == vertex);
    if a == b || occurs(a) || occurs(b) {
        return Ok(false);
    }
    let first = table.first(2)?;
    let mut labelled = false;
    if let Some(labels) = labels {
        labels.each(2, |row| {
            labelled |= [0, 1].iter().any(|&field| row.get(0) == first.get(field));
            Ok(())
        })?;
    }
    if labelled {
        return Ok(false);
    }
    // If no id occurs twice, this row is like all others.
    let header = ids.len() < 2 * edges.pairs.len() as u64;
    table.header.set(header);
    let why = if header {
        "neither id occurs again"
    } else {
        "no id occurs twice; a header would be source,target"
    };
    table.note(header, why);
    Ok(header)
}

/// Returns a view of an edge table whose first two columns are source and target. `data.toml` or
/// the header determines these columns. Columns that `data.toml` ignores are omitted.
pub(super) fn ordered(table: Table, roles: &Roles) -> Result<Table> {
    table.set_edges();
    table.refuse_index()?;
    let settings = &roles.settings.edges;
    let names = crate::kinds::names_of_header(&table)?;
    settings.check(&names, &table.file)?;
    let ends = [Use::Source, Use::Target].map(|how| settings.position(how, &names, &table.file));
    let [source, target] = ends;
    let lower: Vec<String> = names.iter().map(|name| name.to_ascii_lowercase()).collect();
    let ends = match (source?, target?) {
        (Some(source), Some(target)) => Some([source, target]),
        _ => roles::ends_of(&lower).filter(|ends| *ends != [0, 1]),
    };
    let ignored = |at: &usize| settings.kind(&names[*at]) == Some(Kind::Ignored);
    if ends.is_none() && !(0..names.len()).any(|at| ignored(&at)) {
        if !settings.columns.is_empty() {
            table.settle(true);
        }
        return Ok(table);
    }
    let ends = ends.unwrap_or([0, 1]);
    table.settle(true);
    let is_id = |at: &usize| lower[*at] == "id" || is_unnamed(&names[*at]);
    let others = (0..names.len()).filter(|at| !ends.contains(at) && !ignored(at) && !is_id(at));
    let select: Vec<usize> = ends.into_iter().chain(others).collect();
    Ok(table.view(&select))
}
