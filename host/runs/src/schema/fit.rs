//! Fitting of a data set to the schema of a trained model.

use eciton_graph::dataset::{Dataset, EdgeFeatures, Features, Labels, NO_LABEL, Split, Values};
use eciton_input::notes;
use eciton_input::text::{cut, listed};
use eciton_recipe::TaskType;

use super::{Columns, Schema, Source, is_identity, vertex_digest};

/// Result type of fitting a data set to a schema.
type Result<T> = std::result::Result<T, FitError>;

/// Error of fitting a data set to the schema of a model.
#[derive(Debug, thiserror::Error)]
pub enum FitError {
    /// The data does not fit the schema of a trained model.
    #[error("{dataset} does not fit the model: {problem}; {remedy}")]
    Schema {
        /// Name of the data set.
        dataset: String,
        /// Description of the misfit, with the names that are missing or unknown.
        problem: String,
        /// Advice to the user, as text.
        remedy: &'static str,
    },
    /// Error of the data set itself.
    #[error(transparent)]
    Data(#[from] eciton_graph::error::Error),
}

/// Maximum number of characters of a name in an error message.
const MAX_NAME: usize = 40;

/// Purpose for which a data set is fitted to a model. It determines how strictly labels are
/// matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The model is evaluated on the labels. Classes that the model does not know are an error.
    Evaluate,
    /// The model is applied to the data. Labels are optional, and labels that the model does not
    /// know are dropped.
    Predict,
    /// The training is resumed. The data must be the same as before.
    Resume,
}

impl Schema {
    /// Converts `dataset` to the columns, classes and names that the model was trained on.
    ///
    /// Columns and classes are matched by name if the schema and the data set have names, and by
    /// position otherwise. Columns that the model does not know are dropped with a note.
    ///
    /// # Errors
    /// Returns [`FitError::Schema`] if columns are missing, or if the number of unnamed columns
    /// differs. Unless the purpose is [`Purpose::Predict`], it is also returned for unknown classes
    /// and for labels of another task.
    pub fn fit(&self, mut dataset: Dataset, purpose: Purpose) -> Result<Dataset> {
        self.fit_columns(&mut dataset)?;
        if self.task != TaskType::LinkPrediction {
            let refuse = Refusal { dataset: dataset.name.clone() };
            self.fit_labels(&mut dataset, purpose, &refuse)?;
            if !self.is_older() {
                dataset.names.labels.clone_from(&self.outputs.names);
                dataset.names.target.clone_from(&self.outputs.columns);
            }
        }
        dataset.validate()?;
        Ok(dataset)
    }

    /// Selects and reorders the features and edge features of `dataset`, so that they have the
    /// columns that the model was trained on.
    ///
    /// # Errors
    /// Returns [`FitError::Schema`] if columns are missing, or if the number of unnamed columns
    /// differs.
    pub fn fit_columns(&self, dataset: &mut Dataset) -> Result<()> {
        let refuse = Refusal { dataset: dataset.name.clone() };
        self.fit_features(dataset, &refuse)?;
        self.fit_edge_features(dataset, &refuse)?;
        if !self.is_older() {
            dataset.names.features = self.features.names();
            if dataset.edge_features.is_some() && !self.edge_features.is_absent() {
                dataset.names.edge_features = self.edge_features.names();
            }
        }
        Ok(())
    }

    fn fit_features(&self, dataset: &mut Dataset, refuse: &Refusal) -> Result<()> {
        let found = dataset.features.columns();
        if self.features.source == Source::OneColumnPerVertex {
            let same = is_identity(&dataset.features)
                && self.features.vertices.as_ref().is_none_or(|digest| *digest == vertex_digest(dataset));
            return match same {
                true => Ok(()),
                false => refuse.with(
                    "the model was trained without feature columns: each vertex had a column of its own, so \
                     the model knows only the vertices of its training data"
                        .to_owned(),
                    "train on data with features to predict for other vertices",
                ),
            };
        }
        let expected = self.features.count.unwrap_or(found);
        if is_identity(&dataset.features) && expected != found {
            return refuse.with(
                format!(
                    "the data has no features, but the model reads {expected} columns{}",
                    self.features.listed()
                ),
                "give the data the columns that the model was trained on",
            );
        }
        if let Some(order) = order("feature", (&self.features, found), &dataset.names.features, refuse)? {
            let all = std::mem::replace(&mut dataset.features, Features::identity(0));
            dataset.features = all.select_columns(&order)?;
        }
        Ok(())
    }

    fn fit_edge_features(&self, dataset: &mut Dataset, refuse: &Refusal) -> Result<()> {
        // A model that needs absent edge features fails when its layers are opened.
        let Some(rows) = &dataset.edge_features else { return Ok(()) };
        if self.is_older() || self.edge_features.is_absent() {
            return Ok(());
        }
        let names = &dataset.names.edge_features;
        if let Some(order) = order("edge feature", (&self.edge_features, rows.columns()), names, refuse)? {
            dataset.edge_features = Some(EdgeFeatures::select_columns(rows, &order)?);
            if let Some(edges) = &mut dataset.labelled_edges {
                edges.features = edges.features.take().map(|all| all.select_columns(&order)).transpose()?;
            }
        }
        Ok(())
    }

    fn fit_labels(&self, dataset: &mut Dataset, purpose: Purpose, refuse: &Refusal) -> Result<()> {
        let found = std::mem::replace(&mut dataset.labels, Labels::none(0));
        let rows = found.rows();
        let count = self.outputs.count.unwrap_or_else(|| found.width());
        let labelled = (0..rows).any(|row| found.known(row));
        let fitted = match labelled {
            false => Ok(None),
            true => self.labels_of(found, &dataset.names.labels, (count, purpose), refuse).map(Some),
        };
        dataset.labels = match fitted {
            Ok(Some(labels)) => labels,
            Ok(None) => unlabelled(self.task, rows, count)?,
            Err(error) if purpose == Purpose::Predict => {
                notes::add(format!("{error}; the labels are not used"));
                unlabelled(self.task, rows, count)?
            }
            Err(error) => return Err(error),
        };
        // A row that lost its label cannot be in any part of the split.
        let Split { train, validation, test } = &mut dataset.split;
        for part in [train, validation, test] {
            part.retain(|&row| dataset.labels.known(row as usize));
        }
        Ok(())
    }

    /// Converts the labels `found`, some of which are known, to the classes or label columns of the
    /// model. `names` are the names of the classes or label columns in the data set.
    fn labels_of(
        &self,
        found: Labels,
        names: &[String],
        (count, purpose): (u32, Purpose),
        refuse: &Refusal,
    ) -> Result<Labels> {
        let place = format!("{} labels", refuse.dataset);
        let is = crate::task_type::task(&found);
        if is != self.task && !convertible(&found, self.task) {
            return refuse.with(
                format!(
                    "its labels are for {}, but the model was trained for {}",
                    is.name(),
                    self.task.name()
                ),
                "give labels of the model's task",
            );
        }
        match self.task {
            TaskType::Classification => match found.into_classes(&place)? {
                Labels::Classes { of, count: width } => {
                    self.classes_of(of, (width, names), (count, purpose), refuse)
                }
                other => Ok(other),
            },
            TaskType::MultiLabel => self.columns_of(found.into_flags(&place)?, names, count, refuse),
            TaskType::Regression => self.columns_of(found.into_numbers(), names, count, refuse),
            TaskType::LinkPrediction => Ok(found),
        }
    }

    /// Converts classes of the data set to class numbers of the model. `names` are the names of the
    /// classes in the data set.
    fn classes_of(
        &self,
        mut of: Vec<u32>,
        (width, names): (u32, &[String]),
        (count, purpose): (u32, Purpose),
        refuse: &Refusal,
    ) -> Result<Labels> {
        let own = &self.outputs.names;
        let number = |class: u32| {
            let name = names.get(class as usize);
            match name {
                Some(name) if own.is_empty() && !self.is_older() => {
                    name.parse().ok().filter(|&at| at < count)
                }
                Some(name) if !own.is_empty() => {
                    own.iter().position(|known| known == name).map(|at| at as u32)
                }
                _ => Some(class).filter(|&class| class < count),
            }
        };
        let numbers: Vec<Option<u32>> = (0..width).map(number).collect();
        let mut unknown = vec![0u64; width as usize];
        for class in of.iter_mut().filter(|class| **class != NO_LABEL) {
            match numbers.get(*class as usize).copied().flatten() {
                Some(number) => *class = number,
                None => {
                    if let Some(rows) = unknown.get_mut(*class as usize) {
                        *rows += 1;
                    }
                    *class = NO_LABEL;
                }
            }
        }
        let shown =
            |class: usize| names.get(class).map_or_else(|| class.to_string(), |name| cut(name, MAX_NAME));
        let strangers: Vec<String> = unknown
            .iter()
            .enumerate()
            .filter(|(_, rows)| **rows > 0)
            .map(|(class, rows)| format!("`{}` ({rows} rows)", shown(class)))
            .collect();
        if !strangers.is_empty() {
            let known = match own.is_empty() {
                true => format!("0 to {}", count.saturating_sub(1)),
                false => listed(own),
            };
            let problem = format!(
                "the model was not trained on {} {}; its classes are {known}",
                if strangers.len() == 1 { "class" } else { "classes" },
                listed(&strangers)
            );
            if purpose != Purpose::Predict {
                let remedy = "correct the names, or remove these labels";
                return refuse.with(problem, remedy);
            }
            notes::add(format!("{}: {problem}; these rows count as unlabelled", refuse.dataset));
        }
        Ok(Labels::classes(of, count))
    }

    /// Reorders label columns or regression targets to the order of the model. Columns that the
    /// data set lacks are filled with unknown values.
    fn columns_of(&self, found: Labels, names: &[String], count: u32, refuse: &Refusal) -> Result<Labels> {
        let flags = matches!(found, Labels::Flags(_));
        let (Labels::Flags(values) | Labels::Numbers(values)) = found else { return Ok(found) };
        let own = &self.outputs.names;
        let columns: Vec<Option<usize>> = match !own.is_empty() && !names.is_empty() {
            true => own.iter().map(|name| names.iter().position(|known| known == name)).collect(),
            false if values.columns() == count => (0..count as usize).map(Some).collect(),
            false => {
                let problem =
                    format!("it has {} label columns, but the model predicts {count}", values.columns());
                let remedy = "give the label columns of the model, with their names if the model has names";
                return refuse.with(problem, remedy);
            }
        };
        if columns.iter().all(Option::is_none) {
            let problem = format!(
                "none of its label columns ({}) is one of the model's ({})",
                listed(names),
                listed(own)
            );
            return refuse.with(problem, "give at least one of the model's label columns");
        }
        let missing: Vec<String> =
            own.iter().zip(&columns).filter(|(_, at)| at.is_none()).map(|(name, _)| name.clone()).collect();
        if !missing.is_empty() {
            notes::add(format!(
                "{}: there is no label column {}, so its values count as unknown",
                refuse.dataset,
                listed(&missing)
            ));
        }
        let row = |row: usize| {
            let row = values.row(row);
            columns.iter().map(move |at| at.and_then(|at| row.get(at).copied()).unwrap_or(f32::NAN))
        };
        let all = (0..values.rows()).flat_map(row).collect();
        let values = Values::new(count, all)?;
        Ok(if flags { Labels::Flags(values) } else { Labels::Numbers(values) })
    }
}

/// Returns true if labels of this form can be converted to labels of `task`. The setting
/// `data.task` makes the same conversion.
fn convertible(found: &Labels, task: TaskType) -> bool {
    match (found, task) {
        (_, TaskType::Regression) => true,
        (Labels::Classes { count, .. }, TaskType::MultiLabel) => *count <= 2,
        (Labels::Numbers(values) | Labels::Flags(values), TaskType::Classification) => values.columns() == 1,
        _ => false,
    }
}

/// Returns labels for `rows` rows of which none is known. `count` is the number of classes or label
/// columns.
fn unlabelled(task: TaskType, rows: usize, count: u32) -> Result<Labels> {
    let unknown = || Values::new(count, vec![f32::NAN; rows.saturating_mul(count as usize)]);
    Ok(match task {
        TaskType::MultiLabel => Labels::Flags(unknown()?),
        TaskType::Regression => Labels::Numbers(unknown()?),
        TaskType::Classification | TaskType::LinkPrediction => Labels::classes(vec![NO_LABEL; rows], count),
    })
}

/// Returns the index of each of the model's columns `own` among the `found` columns of the data
/// set, which are called `names`. Returns `None` if both have the same columns in the same order.
fn order(
    what: &str,
    (own, found): (&Columns, u32),
    names: &[String],
    refuse: &Refusal,
) -> Result<Option<Vec<u32>>> {
    let wanted = own.names();
    let count = own.count.unwrap_or(found);
    if wanted.is_empty() || names.is_empty() {
        if found == count {
            return Ok(None);
        }
        let problem = format!("it has {found} {what} columns, but the model reads {count}{}", own.listed());
        return refuse.with(problem, "give the columns that the model was trained on, in their order");
    }
    if wanted == names {
        return Ok(None);
    }
    let position = |name: &String| names.iter().position(|known| known == name);
    let missing: Vec<String> = wanted.iter().filter(|name| position(name).is_none()).cloned().collect();
    let extra: Vec<String> = names.iter().filter(|name| !wanted.contains(name)).cloned().collect();
    if !missing.is_empty() {
        let (s, more) = match extra.is_empty() {
            true => (if missing.len() == 1 { "" } else { "s" }, String::new()),
            false => (
                if missing.len() == 1 { "" } else { "s" },
                format!("; the model was not trained on {}", listed(&extra)),
            ),
        };
        let problem = format!(
            "the {what} column{s} {} of the model {} missing{more}",
            listed(&missing),
            if missing.len() == 1 { "is" } else { "are" }
        );
        return refuse.with(problem, "name the columns as in the training data");
    }
    if !extra.is_empty() {
        notes::add(format!(
            "{}: {what} columns that the model was not trained on are not used: {}",
            refuse.dataset,
            listed(&extra)
        ));
    }
    Ok(Some(wanted.iter().filter_map(position).map(|at| at as u32).collect()))
}

impl Columns {
    /// Returns the names of the columns in parentheses, for an error message. Returns an empty
    /// string if the columns have no names.
    fn listed(&self) -> String {
        let names = self.names();
        if names.is_empty() { String::new() } else { format!(" ({})", listed(&names)) }
    }
}

/// Constructor of the errors about one data set.
struct Refusal {
    dataset: String,
}

impl Refusal {
    fn with<T>(&self, problem: String, remedy: &'static str) -> Result<T> {
        Err(FitError::Schema { dataset: self.dataset.clone(), problem, remedy })
    }
}
