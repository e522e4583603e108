//! The edges of a table, and which ids there are where nothing but edges and labels says so.

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

/// Why the edges of a table are not those between numbers of 32 bits.
enum Other {
    /// An id is a word.
    Words,
    /// An id does not fit 32 bits. Such ids would take 16 bytes an edge: the table is read twice instead.
    Wide,
}

/// The edges of a table.
pub(super) struct Edges {
    /// In the order of the table.
    pub(super) pairs: Grown<(u32, u32)>,
    pub(super) columns: Columns,
}

impl Edges {
    /// Edges between known vertices.
    pub(super) fn between(table: &Table, ids: &Ids, expected: Option<&Expected>) -> Result<Self> {
        let first = table.first(2)?;
        let unknown = |field| ids.position(first.get(field)).is_none() && number(first.get(field)).is_none();
        table.set_header(unknown(0) && unknown(1));
        if !table.is_settled() && table.header.get() && ids.are_words() && !is_header(first.get(0)) {
            table.note(true, "neither of its ids is one of the data set's");
        }
        let find = |row: &Row| {
            let end = |field: usize| ids.find(table, row.line(), row.get(field));
            Ok(Ok((end(0)?, end(1)?)))
        };
        let made =
            Self::read(table, expected, find, |_| ())?.unwrap_or_else(|never: Infallible| match never {});
        made.checked(table)
    }

    /// Reads the edges in blocks on all cores. `find` returns the ends of an edge, or why the table has to be read
    /// otherwise; `see` sees those of a block.
    fn read<O: Send>(
        table: &Table,
        expected: Option<&Expected>,
        find: impl Fn(&Row) -> Result<std::result::Result<(u32, u32), O>> + Sync,
        see: impl Fn(&[(u32, u32)]) + Sync,
    ) -> Result<std::result::Result<Self, O>> {
        let columns = Columns::of(table, expected)?;
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

    /// Edges between ids that are all numbers, those of `labels` too; none if one is a word.
    ///
    /// Ids stand in the place of vertices until all are known, so they are read once.
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

    /// [`Edges::numbered`] in two readings, for ids that do not fit 32 bits.
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

    /// Edges between ids that are words, in order of first appearance: those of `labels` first.
    pub(super) fn worded(
        table: &Table,
        labels: Option<&Table>,
        expected: Option<&Expected>,
    ) -> Result<(Ids, Self)> {
        table.find_header(2)?;
        labels.map_or(Ok(false), |labels| labels.find_header(2))?;
        let (ids, edges) = Self::words(table, labels, expected)?;
        // Where the first row might be a header, all else has been read now.
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
        let columns = Columns::of(table, expected)?;
        let (mut pairs, mut values) = (Grown::new(&table.file), Grown::new(&table.file));
        table.each(2, |row| {
            pairs.push((ids.add(row.id(table, 0)?)?, ids.add(row.id(table, 1)?)?))?;
            columns.read(row, values.room(columns.count())?)
        })?;
        let made = Self { pairs, columns: columns.with(values) };
        made.checked(table).map(|edges| (ids.finish(), edges))
    }

    /// Refuses a table of no edge, unless it says so with a header of known words.
    pub(super) fn checked(self, table: &Table) -> Result<Self> {
        match self.pairs.is_empty() && !is_header(table.first(2)?.get(0)) {
            true => Err(table.empty("one edge at least: source, target")),
            false => Ok(self),
        }
    }
}

/// Takes a first row of words for a header, as it is if all other ids are numbers; whether that is in
/// doubt. None where the first id is a number of another spelling (`007`): ids are words then.
fn doubtful_header(table: &Table) -> Result<Option<bool>> {
    let first = table.first(2)?;
    let word = first.get(0);
    // A number of another kind (1.5, -1) is an id of words, not a header.
    table.set_header(word.is_empty() || number(word).is_none());
    if table.is_settled() && table.header.get() {
        return Ok(Some(false));
    }
    match canonical(word).is_none() && !table.header.get() {
        true => Ok(None),
        false => Ok(Some(table.header.get() && !is_header(word))),
    }
}

/// Whether the first row of labels is a header, where ids are words: its id is in no edge, and its label
/// stands nowhere else.
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

/// Whether the first row of edges is a header, where ids are words: neither of them occurs again, while
/// others do.
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
    // Where every id stands alone, this row is like the others.
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

/// Returns a table of edges whose first two columns are source and target, as `data.toml` says or as the header
/// does. Columns that `data.toml` ignores are left out.
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
