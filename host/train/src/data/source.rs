//! Loading of data sets by name or path, fitting to the schema of a trained model, and preparation
//! for a run.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use eciton_fetch::cache::{Cache, Found};
use eciton_fetch::catalogue;
use eciton_formats::{Request, sequence};
use eciton_graph::checksum;
use eciton_graph::dataset::{Dataset, EdgeFeatures, Features, Held, Labels, Moments, Scaling};
use eciton_graph::edge_rule;
use eciton_graph::error::Place;
use eciton_graph::scaling::Rounded;
use eciton_graph::store::{self, Outline};
use eciton_input::notes;
use eciton_recipe::{Config, Data, NormaliseFeatures, SelfLoops, TaskType, Tokens};
use eciton_runs::schema::{Columns, Purpose, Schema};
use eciton_runs::task_type::task;
use eciton_tensor::Matrix;

use super::bucket::{self, InBucket};
use super::{Division, Inputs};
use crate::error::{Error, Result};
use crate::hosts::{Cut, Hosts};
use crate::initial_weights;

/// Value of `data.source` for a data set that the caller passed in memory. No data set has this
/// name or path.
pub const IN_MEMORY: &str = "(in memory)";

/// Loads a data set and [prepares](prepare) it. `data.source` is a built-in name, the name of a
/// published data set in the user's cache, or a path that `eciton_formats` can read.
pub fn load(data: &Data) -> Result<Dataset> {
    prepare(data, read(data, (None, None))?)
}

/// Host that reads only its rows of a data set, if it can.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    config: &'a Config,
    hosts: &'a Hosts,
}

/// Returns true if the settings let each of several hosts read only its rows.
fn are_rows_enough(config: &Config) -> bool {
    let data = &config.data;
    // Facts about the values in a store are those of its own labels and split.
    let as_stored = data.task.is_none() && data.label.is_none() && data.split.is_none();
    // Columns are matched to those of initial weights, and means in a store are in its own order.
    let own_columns = config.run.init.is_none();
    as_stored
        && own_columns
        && data.self_loops.is_none()
        && data.edge_label.is_none()
        && !config.batch.is_on()
}

/// Returns true if each of several hosts would read only its rows of this data set, which was read
/// whole for a plan.
pub(crate) fn may_read_own(config: &Config, inputs: &Inputs) -> bool {
    let dense = matches!(inputs.features, Matrix::Dense(_));
    let dataset = &inputs.dataset;
    let plain = dense && dataset.edge_features.is_none() && inputs.readout.is_none();
    plain && !dataset.parts.is_empty() && are_rows_enough(config)
}

impl<'a> Reader<'a> {
    /// Returns the reader for a run on `hosts`. Returns `None` on one host, and with settings for
    /// which the whole data set must be read.
    fn new(config: &'a Config, hosts: Option<&'a Hosts>) -> Option<Self> {
        hosts.filter(|_| are_rows_enough(config)).map(|hosts| Self { config, hosts })
    }

    /// Opens the rows of this host from the store at `source`. Returns `None` if the store must be
    /// opened whole.
    fn open(self, source: &(impl store::Source + ?Sized)) -> Result<Option<Dataset>> {
        let Self { config, hosts } = self;
        let choose = |outline: &Outline<'_>| {
            let rows = outline.offsets.len().saturating_sub(1) as u64;
            let sizes = (outline.offsets, rows * u64::from(outline.columns));
            let division =
                Division::new(sizes, (&config.run, config.data.group(), hosts.least_intervals())).ok()?;
            let starts = division.starts();
            let own = Cut::new(&starts, outline.parts, hosts.count).ok()?.of(hosts.me);
            Some(starts[own.start as usize][1]..starts[own.end as usize][1])
        };
        let opened = store::open_rows(source, &choose)?;
        if let Some(opened) = &opened {
            eciton_graph::label_report::report(&opened.labels);
        }
        if let Some(Held { rows, read_bytes, .. }) = opened.as_ref().and_then(|opened| opened.held.as_ref()) {
            tracing::info!(?rows, bytes = read_bytes, "rows of this host read");
        }
        Ok(opened)
    }
}

/// Reads a data set for training. Warns if class labels look like numbers, because the user may
/// want regression.
fn read(data: &Data, (schema, reader): (Option<&Schema>, Option<Reader<'_>>)) -> Result<Dataset> {
    let begun = std::time::Instant::now();
    let read = open_by(data, (schema, reader))?;
    tracing::info!(
        source = data.source,
        vertices = read.vertices(),
        edges = read.edges(),
        seconds = begun.elapsed().as_secs_f64(),
        "data set read"
    );
    if data.task.is_none() {
        let named = !read.names.labels.is_empty();
        let regression = format!("use `eciton train {} --task regression`", data.source);
        eciton_graph::label_report::doubt(&read.labels, named, &regression);
    }
    Ok(read)
}

/// Reads the data set of a configuration, and prepares it for training with [`to_train`]. Each of
/// several `hosts` reads only its rows, if it can.
pub(crate) fn load_to_train(config: &Config, hosts: Option<&Hosts>) -> Result<Dataset> {
    to_train(config, read_to_train(config, hosts)?, initial_weights::schema(config)?.as_ref())
}

/// Reads the data set of a configuration for training, without preparing it. With initial weights
/// (`run.init`), columns are matched to their schema, unless `run.init_fresh` includes the first
/// layer. Each of several `hosts` reads only its rows, if it can.
pub(crate) fn read_to_train(config: &Config, hosts: Option<&Hosts>) -> Result<Dataset> {
    let known = initial_weights::schema(config)?;
    let known = known.as_ref().filter(|_| !config.run.init_fresh.contains(&0));
    read(&config.data, (known, Reader::new(config, hosts)))
}

/// [Prepares](prepare) a data set for training. `known` is the schema of the initial weights
/// (`run.init`), whose column order the features get. The order is ignored if `run.init_fresh`
/// includes the first layer.
///
/// # Errors
/// Returns the errors of [`Schema::fit_columns`] if the columns do not match, and those of
/// [`prepare`].
pub(crate) fn to_train(config: &Config, mut dataset: Dataset, known: Option<&Schema>) -> Result<Dataset> {
    if let Some(known) = known.filter(|_| !config.run.init_fresh.contains(&0)) {
        known.fit_columns(&mut dataset)?;
    }
    prepare(&config.data, dataset)
}

/// Validates a data set that the caller passed in memory, and prepares it for training with
/// [`to_train`].
pub(crate) fn checked(config: &Config, dataset: Dataset) -> Result<Dataset> {
    dataset.validate()?;
    to_train(config, dataset, initial_weights::schema(config)?.as_ref())
}

/// Reads the data set of a run with `schema` that goes on, and prepares it with [`fitted`]. Each of
/// several `hosts` reads only its rows, if it can.
pub(crate) fn load_to_resume(config: &Config, schema: &Schema, hosts: Option<&Hosts>) -> Result<Dataset> {
    let dataset = open_by(&config.data, (Some(schema), Reader::new(config, hosts)))?;
    fitted(&config.data, dataset, schema, Purpose::Resume)
}

/// Reads a data set for a trained model with `schema`, and prepares it with [`fitted`].
pub(crate) fn load_fitted(data: &Data, schema: &Schema, purpose: Purpose) -> Result<Dataset> {
    let dataset = open_as(data, Some(schema))?;
    fitted(data, dataset, schema, purpose)
}

/// Fits a data set to the schema of a trained model, and [prepares](prepare) it with the feature
/// scaling of that model.
///
/// # Errors
/// Returns the errors of [`Schema::fit`] if the data set does not match, and those of [`prepare`].
pub(crate) fn fitted(data: &Data, dataset: Dataset, schema: &Schema, purpose: Purpose) -> Result<Dataset> {
    let dataset = schema.fit(dataset, purpose)?;
    // A resumed run computes the moments again, because its data must be unchanged.
    let moments = |columns: &Columns| columns.moments().filter(|_| purpose != Purpose::Resume).map(Arc::new);
    prepare_with(data, dataset, [moments(&schema.features), moments(&schema.edge_features)])
}

/// Reads a data set from any source that [`load`] accepts, without preparing it.
///
/// # Errors
/// Returns an error if there is no data set of this name or path, or if it cannot be read. Returns
/// [`Error::WasInMemory`] for [`IN_MEMORY`].
pub fn open(data: &Data) -> Result<Dataset> {
    open_as(data, None)
}

/// Reads a data set like [`open`]. If `schema` is given, columns and tokens are matched to this
/// schema of a trained model.
pub(crate) fn open_as(data: &Data, schema: Option<&Schema>) -> Result<Dataset> {
    open_by(data, (schema, None))
}

/// Reads a data set like [`open_as`]. A host of several reads only its rows, if it can.
fn open_by(data: &Data, (schema, reader): (Option<&Schema>, Option<Reader<'_>>)) -> Result<Dataset> {
    let expected = schema.filter(|schema| !schema.is_older()).map(Schema::expected);
    let read = |path: &Path, name: Option<&str>| -> Result<Dataset> {
        if let Some(reader) = reader.filter(|_| name.is_none() && path.join(store::DESCRIPTION).is_file())
            && let Some(dataset) = reader.open(path)?
        {
            return Ok(dataset);
        }
        let request = Request {
            expected: expected.as_ref(),
            label: data.label.as_deref(),
            links: data.task == Some(TaskType::LinkPrediction) || data.edge_label.is_some(),
            edge_label: data.edge_label.as_deref(),
            self_loops: loops(data),
        };
        Ok(eciton_formats::open_with(path, name, request)?)
    };
    if data.source == IN_MEMORY {
        return Err(Error::WasInMemory);
    }
    let read_bucket =
        |source: &InBucket| match reader.map(|reader| reader.open(source)).transpose()?.flatten() {
            Some(dataset) => Ok(dataset),
            None => {
                let whole = store::open_from(source)?;
                eciton_graph::label_report::report(&whole.labels);
                Ok(eciton_formats::settled_store(whole, loops(data))?)
            }
        };
    let dataset = opened(data, schema, &read, &read_bucket)?;
    match &data.label {
        Some(label)
            if schema.is_none()
                && !dataset.names.target.iter().any(|name| name.eq_ignore_ascii_case(label)) =>
        {
            Err(eciton_graph::error::Error::Malformed {
                place: Place::whole(&dataset.name),
                expected: format!("a table with the label column {label:.40?} (data.label)"),
                found: "labels that are not in this column".to_owned(),
                remedy: "remove --label (data.label)",
            }
            .into())
        }
        _ => Ok(dataset),
    }
}

/// Reads the data set that `data.source` refers to, which is a built-in data set, a text, a path or
/// a published data set. `read` is called for a path, and `read_bucket` for a store in a bucket.
fn opened(
    data: &Data,
    schema: Option<&Schema>,
    read: &dyn Fn(&Path, Option<&str>) -> Result<Dataset>,
    read_bucket: &dyn Fn(&InBucket) -> Result<Dataset>,
) -> Result<Dataset> {
    let path = Path::new(&data.source);
    let lower = data.source.to_ascii_lowercase();
    let named = eciton_formats::builtins().iter().find(|b| b.name == lower);
    Ok(match named {
        Some(builtin) => match &data.name {
            None => eciton_formats::builtin(builtin.name)?,
            Some(name) => {
                let path = Path::new(builtin.name).to_owned();
                return Err(eciton_graph::error::Error::NameNotUsed { path, name: name.clone() }.into());
            }
        },
        None if is_text(data, path) => {
            let known = schema.and_then(|schema| schema.tokens.as_ref()?.vocabulary());
            sequence::open(path, unit(data.tokens), data.group(), known.as_ref())?
        }
        None if data.source.starts_with(bucket::SCHEME) => match &data.name {
            None => read_bucket(&InBucket::open(&data.source)?)?,
            Some(name) => {
                let (path, name) = (path.to_owned(), name.clone());
                return Err(eciton_graph::error::Error::NameNotUsed { path, name }.into());
            }
        },
        None if path.exists() => read(path, data.name.as_deref())?,
        None => {
            let found = published(&data.source)?;
            // A name other than that of the published set is passed on. The reader refuses it if it
            // cannot choose by name.
            let name = data.name.as_deref().filter(|name| found.name != Some(name)).or(found.name);
            read(&found.path, name)?
        }
    })
}

/// Converts the setting `data.self_loops` to the type that the readers of edges take.
fn loops(data: &Data) -> Option<edge_rule::SelfLoops> {
    data.self_loops.map(|decision| match decision {
        SelfLoops::Drop => edge_rule::SelfLoops::Drop,
        SelfLoops::Keep => edge_rule::SelfLoops::Keep,
    })
}

/// Prepares a data set for a run as `data` specifies: converts the labels to the task, applies the
/// split, and scales the features. A prepared data set is returned unchanged.
///
/// # Errors
/// Returns an error if the labels do not suit `data.task` or `data.split`, or if memory is
/// insufficient.
pub fn prepare(data: &Data, dataset: Dataset) -> Result<Dataset> {
    prepare_with(data, dataset, [None, None])
}

/// Converts the labels of a data set to the task of `data.task`, and applies the split of
/// `data.split`. Refuses a data set without labels of edges if `data.edge_label` is set.
pub(crate) fn with_labels(data: &Data, mut dataset: Dataset) -> Result<Dataset> {
    if let Some(label) = data.edge_label.as_ref().filter(|_| dataset.labelled_edges.is_none()) {
        return Err(eciton_graph::error::Error::Malformed {
            place: Place::whole(&dataset.name),
            expected: format!("a table of edges with the label column {label:.40?} (data.edge_label)"),
            found: "data whose edges are not in such a table".to_owned(),
            remedy: "give edges.csv or another table of edges, or remove --edge-label (data.edge_label)",
        }
        .into());
    }
    let unlike = |&wanted: &TaskType| wanted != TaskType::LinkPrediction && wanted != task(&dataset.labels);
    if let Some(wanted) = data.task.filter(unlike) {
        let place = format!("{} labels", dataset.name);
        let labels = std::mem::replace(&mut dataset.labels, Labels::none(0));
        dataset.set_labels(match wanted {
            TaskType::Classification => labels.into_classes(&place)?,
            TaskType::MultiLabel => labels.into_flags(&place)?,
            TaskType::Regression => labels.into_numbers(),
            TaskType::LinkPrediction => labels,
        });
        dataset.validate()?;
    }
    crate::split::apply(data, &mut dataset)?;
    Ok(dataset)
}

/// Prepares a data set like [`prepare`]. If moments of the features or of the labelled edges are
/// given, columns are scaled with these means and deviations instead of the data set's own.
fn prepare_with(
    data: &Data,
    dataset: Dataset,
    [moments, of_edges]: [Option<Arc<Moments>>; 2],
) -> Result<Dataset> {
    let mut dataset = with_labels(data, dataset)?;
    let train = &dataset.split.train;
    if let Some(edges) = dataset.labelled_edges.as_mut().filter(|edges| edges.scaling == Scaling::None)
        && let Some(features) = edges.features.take()
    {
        let rows = || if train.is_empty() { (0..edges.ends.len() as u32).collect() } else { train.clone() };
        let moments = of_edges.unwrap_or_else(|| Arc::new(Moments::from_rows(&features, &rows())));
        edges.features = Some(features.standardise(&moments)?);
        edges.scaling = Scaling::Columns(moments);
    }
    if dataset.scaling == Scaling::None {
        encode(&mut dataset)?;
        if let Some(rows) = &dataset.edge_features {
            warn_of_rounded_edges(rows, &dataset.names.edge_features);
        }
        let features = std::mem::replace(&mut dataset.features, Features::identity(0));
        if scale(data, &dataset, &features) != NormaliseFeatures::None {
            dataset.unscaled = Some(checksum::for_features(&features, dataset.held.as_ref()));
        }
        (dataset.features, dataset.scaling) = match scale(data, &dataset, &features) {
            NormaliseFeatures::None => {
                warn_of_rounded(&features, &dataset.names.features, NormaliseFeatures::None);
                (features, Scaling::None)
            }
            NormaliseFeatures::Rows => {
                warn_of_rounded(&features, &dataset.names.features, NormaliseFeatures::Rows);
                (features.normalise_rows()?, Scaling::Rows)
            }
            NormaliseFeatures::Columns => {
                let moments = match (&moments, &dataset.held) {
                    (Some(moments), _) => moments.clone(),
                    (None, Some(held)) => held.moments.clone(),
                    (None, None) => {
                        let rows = dataset.training_rows(features.rows());
                        Arc::new(Moments::from_rows(&features, &rows))
                    }
                };
                (features.standardise(&moments)?, Scaling::Columns(moments))
            }
        };
        if dataset.scaling != Scaling::None {
            dataset.validate()?;
        }
    }
    Ok(dataset)
}

/// Largest number up to which f32 represents every integer exactly, 2^24.
const WHOLE_IN_F32: f32 = (1 << 24) as f32;

/// Warns about each feature column with integers that f32 cannot represent exactly. `scale` is the
/// scaling of the features, for the text of the warning.
fn warn_of_rounded(features: &Features, names: &[String], scale: NormaliseFeatures) {
    for Rounded { row, column, exact, stored } in features.rounded_whole_numbers() {
        let how = match scale {
            NormaliseFeatures::Rows => "divided by the sums of their rows",
            NormaliseFeatures::None | NormaliseFeatures::Columns => "not scaled",
        };
        notes::warn(format!(
            "feature {}: {exact} (row {row}) is stored as {stored}, because f32 cannot represent all whole \
             numbers above 2^24; the features are {how}; to scale each column before it is rounded, use \
             --set data.normalise_features=columns",
            column_name(names, column),
        ));
    }
}

/// Warns about each column of edge features with integers above 2^24, which f32 cannot represent
/// exactly.
fn warn_of_rounded_edges(rows: &EdgeFeatures, names: &[String]) {
    let width = rows.columns() as usize;
    let mut columns = vec![(true, 0.0f32); width];
    for row in rows.values().chunks_exact(width) {
        for ((whole, most), value) in columns.iter_mut().zip(row) {
            *whole &= value.fract() == 0.0;
            *most = most.max(value.abs());
        }
    }
    for (column, (whole, most)) in (0..).zip(columns) {
        if whole && most > WHOLE_IN_F32 {
            notes::warn(format!(
                "edge feature {}: it has whole numbers up to {most}, but f32 cannot represent all whole \
                 numbers above 2^24, so values that differ in the file may become equal; in the file, \
                 subtract a common offset from the column or divide it",
                column_name(names, column),
            ));
        }
    }
}

/// Returns the name of a feature column for a message. If it has no name, returns for instance
/// `column 3`, counted from 0.
fn column_name(names: &[String], column: u32) -> String {
    match names.get(column as usize) {
        Some(name) => format!("{name:.60?}"),
        None => format!("column {column}"),
    }
}

/// Encodes table columns again if the reader fitted the encoders to other rows than the split's
/// training rows.
fn encode(dataset: &mut Dataset) -> Result<()> {
    let Some(encoded) = &dataset.encoded else { return Ok(()) };
    let rows = dataset.training_rows(dataset.features.rows());
    if let Some((encoded, features, names)) = encoded.refitted(&rows)? {
        (dataset.features, dataset.names.features, dataset.encoded) = (features, names, Some(encoded));
        dataset.validate()?;
    }
    if let Some(encoded) = &dataset.encoded {
        encoded.report();
    }
    Ok(())
}

/// Returns the path of a data set's files, and the name of the data set if the path contains
/// several. Returns `None` for a built-in data set, which has no files.
///
/// # Errors
/// Returns an error if no data set has this path or name.
pub(crate) fn located(data: &Data) -> Result<Option<(PathBuf, Option<String>)>> {
    let path = Path::new(&data.source);
    if eciton_formats::builtins().iter().any(|builtin| builtin.name.eq_ignore_ascii_case(&data.source)) {
        return Ok(None);
    }
    if data.source.starts_with(bucket::SCHEME) {
        return Err(Error::Job(format!(
            "{}: a whole run in a function reads a data set of this machine; copy the store to a folder, or train \
             with --hosts",
            data.source
        )));
    }
    if path.exists() {
        return Ok(Some((path.to_owned(), data.name.clone())));
    }
    let found = published(&data.source)?;
    let name = data.name.as_deref().filter(|name| found.name != Some(name)).or(found.name);
    Ok(Some((found.path, name.map(str::to_owned))))
}

/// Returns true if the file `path` is read as a text or token list. This is the case if
/// `data.sequence` is set and the file format does not consist of rows.
pub(crate) fn is_text(data: &Data, path: &Path) -> bool {
    data.sequence.is_some() && path.is_file() && !eciton_formats::is_rows(path)
}

/// Maximum number of distinct token ids that a schema records.
const MAX_RECORDED_IDS: usize = 1 << 20;

/// Returns the vocabulary of the text or token list that a run trains on. Returns `None` for other
/// data, and for more than [`MAX_RECORDED_IDS`] distinct token ids.
pub(crate) fn vocabulary(config: &Config) -> Result<Option<sequence::Vocabulary>> {
    let path = Path::new(&config.data.source);
    if !is_text(&config.data, path) {
        return Ok(None);
    }
    // Initial weights keep the numbering of the tokens that they were trained with.
    if let Some(known) = initial_weights::schema(config)?.and_then(|known| known.tokens?.vocabulary()) {
        return Ok(Some(known));
    }
    let found = sequence::vocabulary(path, unit(config.data.tokens))?;
    let recorded = found.unit != sequence::Unit::Numbers || found.symbols.len() <= MAX_RECORDED_IDS;
    Ok(recorded.then_some(found))
}

/// Converts the setting `data.tokens` to the unit of a token: characters or bytes.
pub(crate) fn unit(tokens: Tokens) -> sequence::Unit {
    match tokens {
        Tokens::Characters => sequence::Unit::Characters,
        Tokens::Bytes => sequence::Unit::Bytes,
    }
}

/// Returns the feature scaling of `data.normalise_features`. If it is not set, returns a default
/// that depends on the features.
fn scale(data: &Data, dataset: &Dataset, features: &Features) -> NormaliseFeatures {
    // Rows without a graph are measurements and not word counts, so their sums have no meaning.
    let rows = dataset.edges() == 0 && dataset.graphs.is_none();
    let counts = || !rows && features.are_counts();
    data.normalise_features.unwrap_or_else(|| match dataset.encoded.is_some() {
        // Dates are days since 1970, and flags are 0 or 1, so each column needs its own scale.
        true => NormaliseFeatures::Columns,
        false if counts() => NormaliseFeatures::Rows,
        false => NormaliseFeatures::None,
    })
}

/// Returns the location of a published data set in the user's cache. Fails if there is no such data
/// set, or if it was not fetched yet.
fn published(name: &str) -> Result<Found> {
    let Ok(set) = catalogue::find(name) else {
        let builtin = || eciton_formats::builtins().iter().map(|b| b.name);
        let names = builtin().chain(catalogue::sets().iter().map(|set| set.name));
        let lower = name.to_ascii_lowercase();
        let near = names.map(|n| (strsim::damerau_levenshtein(n, &lower), n)).min();
        return Err(Error::UnknownData {
            name: name.to_owned(),
            nearest: near.filter(|(d, _)| *d <= 3).map(|(_, n)| n.to_owned()),
            known: builtin().collect::<Vec<_>>().join(", "),
        });
    };
    let cache = Cache::of_user()?;
    let folder = cache.folder().to_owned();
    cache.open(set)?.ok_or(Error::NotFetched { name: set.name, folder })
}
