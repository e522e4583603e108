//! Configuration of a run. It results from the defaults, a recipe, flags and `--set`, which are
//! applied in this order.
//!
//! All values are parsed by the declarations of the recipe keys. As a result, flags, recipes and
//! `--set` accept the same values and have the same error messages.

use std::path::{Path, PathBuf};

use eciton_recipe::{Cluster, Config, Error, Layers, ModelKind, ModelSettings, TextPlace};

use crate::failure::Failure;
use crate::{recipes, text};

/// Maximum number of bytes that are read from a recipe or model file. It is one more than the
/// parser accepts, so that the parser refuses a longer file.
const MAX_BYTES: u64 = (1 << 20) + 1;

/// Request for a training run, from a command line or from Python. It names the data, recipe, model
/// and settings.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Name or path of a data set, or path of a recipe. If `None`, the default data set is used.
    pub data: Option<String>,
    /// Name of the data set within a folder that holds several.
    pub name: Option<String>,
    /// Name of the model whose recommended settings for the data set are used (`--recipe`).
    pub recipe: Option<String>,
    /// Name of a model, or path of a model file (`--model`).
    pub model: Option<String>,
    /// Components that replace built-in kernels, as pairs of kernel name and component path.
    pub kernels: Vec<(String, String)>,
    /// True if workers execute the tasks, unless a setting names another executor.
    pub runs_on_workers: bool,
    /// Settings in the order of their application. A later setting overrides an earlier one.
    pub settings: Vec<Setting>,
    /// True if the run writes the activations of the last hidden layer to `predictions.npz`.
    pub embeddings: bool,
}

impl Request {
    /// Returns a request whose settings are given as `section.key=value`, the form of `--set`.
    pub(crate) fn with(
        data: Option<String>,
        recipe: Option<String>,
        set: impl IntoIterator<Item = String>,
    ) -> Result<Self, Failure> {
        let settings = set.into_iter().map(|argument| Setting::parse(&argument)).collect::<Result<_, _>>()?;
        Ok(Self { data, recipe, settings, ..Self::default() })
    }
}

/// A recipe key with its value. The value is TOML, or text without quotes.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Key with its section, for instance `run.epochs`.
    pub key: String,
    /// Unparsed text of the value.
    pub value: String,
    /// Origin of the setting for error messages, for instance `--lr 0.1`.
    pub shown: String,
}

impl Setting {
    /// Parses the argument of `--set`, which has the form `section.key=value`. The key and the
    /// value are checked later.
    ///
    /// # Errors
    /// Returns [`Failure::Usage`] if the argument contains no `=`.
    pub(crate) fn parse(argument: &str) -> Result<Self, Failure> {
        // The key's own parser refuses an argument without `=`.
        let (key, value) = argument.split_once('=').ok_or_else(|| {
            Failure::usage(&Error::Override {
                argument: argument.chars().take(TextPlace::MAX_LINE).collect(),
            })
        })?;
        let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
        Ok(Self { key, value, shown: format!("--set {argument}") })
    }

    fn assignment(&self) -> String {
        format!("{}={}", self.key, self.value)
    }
}

/// Returns the configuration that results from a request. Recipe files and model files are read,
/// but no data set.
///
/// # Errors
/// Returns [`Failure::Usage`] if a setting is invalid or would have no effect, and
/// [`Failure::Failed`] if a file cannot be read.
pub(crate) fn configure(request: &Request) -> Result<Config, Failure> {
    let mut config = start(request)?;
    if let Some(name) = &request.name {
        config.data.name = Some(name.clone());
    }
    usual_model(&mut config);
    if let Some(model) = &request.model {
        choose_model(&mut config, model)?;
    }
    read_model(&mut config)?;
    if request.runs_on_workers {
        config.choices.ask("workers.count");
        config.run_on_workers();
    }
    config.kernels.extend(request.kernels.iter().cloned());
    for setting in &request.settings {
        set(&mut config, &setting.assignment(), &setting.shown)?;
        read_model(&mut config)?;
    }
    read_cluster(&mut config)?;
    check_kernels(&config)?;
    if request.embeddings && config.predicts_links() {
        let reason = "link prediction always writes embeddings to predictions.npz; omit the flag";
        return Err(Failure::Usage(format!("--embeddings: {reason}")));
    }
    check_read(&config, &request.settings)?;
    config.choices.deprecated.iter().for_each(|old| eciton_input::notes::warn(old.to_string()));
    config.check().map_err(|error| Failure::usage(&error))?;
    make_absolute(&mut config);
    Ok(config)
}

/// Returns the configuration of the recipe that a request names, or the default configuration if it
/// names none.
fn start(request: &Request) -> Result<Config, Failure> {
    match (request.data.as_deref(), &request.recipe) {
        (Some(path), None) if is_recipe(path) => read(Path::new(path)),
        (Some(path), Some(model)) if is_recipe(path) => {
            let reason = format!("{path} is a recipe, expected a data set");
            Err(Failure::Usage(format!("--recipe {model}: {reason}")))
        }
        (source, model) => {
            let source = source.map_or_else(|| Config::default().data.source, str::to_owned);
            let mut config = match model {
                Some(model) => recipes::config(request.name.as_deref().unwrap_or(&source), model)?,
                None => {
                    let mut config = Config::default();
                    config.choices.open = true;
                    config
                }
            };
            config.data.source = source;
            Ok(config)
        }
    }
}

/// Selects the model `mlp` if the data set is a built-in table and no setting names a model. A
/// table has no graph, so the default model could not gather neighbours.
pub fn usual_model(config: &mut Config) {
    let is_asked =
        ["kind", "file", "layers"].iter().any(|key| config.choices.is_asked(&format!("model.{key}")));
    let is_table = builtin(&config.data.source).is_some_and(|builtin| builtin.rows);
    if config.choices.open && !is_asked && is_table {
        config.model.kind = ModelKind::Mlp;
    }
}

/// Applies `assignments` (of the form `section.key=value`) to a configuration, and checks the
/// result. Error messages name `origin` as the source of the settings.
///
/// # Errors
/// Returns [`Failure::Usage`] if a setting is invalid, and [`Failure::Failed`] if a model file
/// cannot be read.
pub(crate) fn settle(
    mut config: Config,
    assignments: impl Iterator<Item = String>,
    origin: &str,
) -> Result<Config, Failure> {
    for assignment in assignments {
        set(&mut config, &assignment, origin)?;
        read_model(&mut config)?;
    }
    read_cluster(&mut config)?;
    check_kernels(&config)?;
    config.check().map_err(|error| Failure::Usage(format!("{origin}: {}", Failure::text(&error))))?;
    make_absolute(&mut config);
    Ok(config)
}

/// Makes the paths in a configuration absolute, so that commands can use the run folder from any
/// working directory. Paths that do not exist are not changed, and cause an error when they are
/// opened.
fn make_absolute(config: &mut Config) {
    if builtin(&config.data.source).is_none() {
        absolute(&mut config.data.source);
    }
    config.paths_mut().for_each(absolute);
}

/// Replaces a path by its canonical form. A path that does not exist is not changed.
fn absolute(path: &mut String) {
    if let Ok(whole) = Path::new(path).canonicalize()
        && let Some(whole) = whole.to_str()
    {
        *path = whole.to_owned();
    }
}

/// Returns the built-in data set with this name, or `None` if there is none. Case is ignored.
fn builtin(source: &str) -> Option<&'static eciton_formats::Builtin> {
    eciton_formats::builtins().iter().find(|builtin| builtin.name.eq_ignore_ascii_case(source))
}

/// Replaces the path of a model file in a configuration by the content of that file. As a result,
/// the configuration of a run is self-contained.
fn read_model(config: &mut Config) -> Result<(), Failure> {
    let Some(file) = config.model.file.take() else { return Ok(()) };
    let text = read_text(Path::new(&file), "model file")?;
    config.model = ModelSettings::parse(&text, &file)?;
    // A model file has all keys of the model.
    eciton_recipe::keys()
        .iter()
        .filter(|info| info.key.starts_with("model."))
        .for_each(|info| config.choices.ask(&info.key));
    let folder = Path::new(&file).parent().unwrap_or(Path::new(""));
    config.model.own_kernels_mut().for_each(|kernel| rebase(kernel, folder));
    Ok(())
}

/// Reads the description of a cluster from its file. As a result, the configuration of a run is
/// self-contained.
fn read_cluster(config: &mut Config) -> Result<(), Failure> {
    let Some(file) = config.cluster.file.take() else { return Ok(()) };
    config.cluster.complete(cluster(Path::new(&file))?);
    Ok(())
}

/// Reads a file with the section `[cluster]`.
pub(crate) fn cluster(path: &Path) -> Result<Cluster, Failure> {
    let text = read_text(path, "description of a cluster")?;
    Cluster::parse(&text, &path.display().to_string()).map_err(|error| Failure::usage(&error))
}

/// Returns true if the path has the extension `.toml`, which recipe and model files have.
fn is_recipe(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"))
}

/// Applies `argument`, which has the form `section.key=value`, to a configuration. Error messages
/// name `typed` as the source of the value.
fn set(config: &mut Config, argument: &str, typed: &str) -> Result<(), Failure> {
    config.set(argument).map_err(|mut error| {
        if let Error::Value { place, .. } | Error::UnknownKey { place, .. } = &mut error {
            place.origin = typed.to_owned();
        }
        Failure::usage(&error)
    })
}

/// Sets the model of a configuration to a model kind or to the path of a model file.
fn choose_model(config: &mut Config, model: &str) -> Result<(), Failure> {
    if is_recipe(model) {
        config.model.file = Some(model.to_owned());
        config.choices.ask("model.file");
    } else if let Some((_, kind)) = ModelKind::ALL.iter().find(|(name, _)| model.eq_ignore_ascii_case(name)) {
        if config.model.kind != *kind && matches!(config.model.layers, Layers::List(_)) {
            // The layers are those of another model.
            config.model.layers = ModelSettings::default().layers;
        }
        (config.model.file, config.model.kind) = (None, *kind);
        config.choices.ask("model.kind");
    } else {
        let names = ModelKind::ALL.map(|(name, _)| name);
        let advice = text::nearest(model, names).map_or(String::new(), |m| format!(" (did you mean `{m}`?)"));
        let known = names.join(", ");
        return Err(Failure::Usage(format!(
            "unknown model `{model}`{advice}; expected one of {known}, or the path of a model file (.toml)"
        )));
    }
    Ok(())
}

/// Checks that no setting is without effect. For instance, a setting for functions has no effect if
/// the run uses no functions.
///
/// # Errors
/// Returns [`Failure::Usage`] for the first setting without effect, even if its value is the
/// default.
fn check_read(config: &Config, settings: &[Setting]) -> Result<(), Failure> {
    for Setting { key, value, shown } in settings.iter().filter(|setting| !setting.key.starts_with("run.")) {
        config.check_read(key, value).map_err(|error| Failure::Usage(format!("{shown}: {error}")))?;
    }
    Ok(())
}

/// Checks that each kernel that the configuration replaces is a built-in kernel.
///
/// # Errors
/// Returns [`Failure::Usage`] for a name that is not a built-in kernel, because the run would
/// ignore the component.
fn check_kernels(config: &Config) -> Result<(), Failure> {
    let known = || eciton_author::BUILTIN.iter().map(|kernel| kernel.name);
    let Some(name) = config.kernels.keys().find(|name| !known().any(|known| known == *name)) else {
        return Ok(());
    };
    let advice = text::nearest(name, known()).map_or(String::new(), |k| format!(" (did you mean `{k}`?)"));
    let all = known().collect::<Vec<_>>().join(", ");
    Err(Failure::Usage(format!("unknown kernel `{name}`{advice}; expected one of {all}")))
}

/// Reads the recipe file at `path`. Relative paths in a recipe are relative to the folder of that
/// file.
fn read(path: &Path) -> Result<Config, Failure> {
    let text = read_text(path, "recipe")?;
    let mut config = Config::parse(&text, &path.display().to_string())?;
    let folder = path.parent().unwrap_or(Path::new(""));
    if names_path(&config.data.source, folder) {
        rebase(&mut config.data.source, folder);
    }
    let files = config.model.file.iter_mut().chain(&mut config.run.init);
    let files = files.chain(&mut config.lanes.profile).chain(&mut config.cluster.file);
    files.for_each(|file| rebase(file, folder));
    config.kernels.values_mut().for_each(|file| rebase(file, folder));
    config.model.own_kernels_mut().for_each(|kernel| rebase(kernel, folder));
    Ok(config)
}

/// Returns the text of a TOML file. Error messages use `kind`, for instance `recipe`, to name the
/// expected content.
fn read_text(path: &Path, kind: &str) -> Result<String, Failure> {
    let refuse =
        |found: String| Failure::Failed(format!("{}: the {kind} cannot be read: {found}", path.display()));
    eciton_input::file::read_text(path, MAX_BYTES).map_err(|error| match error.kind() {
        std::io::ErrorKind::InvalidData => refuse(format!("{error}; expected TOML")),
        _ => refuse(format!("{error}; check the path")),
    })
}

/// Returns true if the data source of a recipe is a path, and false if it is the name of a data
/// set. `folder` is the folder of the recipe.
fn names_path(source: &str, folder: &Path) -> bool {
    let looks = source.contains(['/', '.']) || source.contains(std::path::MAIN_SEPARATOR);
    builtin(source).is_none() && (looks || folder.join(source).exists())
}

/// Resolves a relative path against `folder` instead of the working directory.
fn rebase(path: &mut String, folder: &Path) {
    let joined: PathBuf = folder.join(&*path);
    *path = joined.to_string_lossy().into_owned();
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use clap::Parser as _;

    fn configured(line: &[&str]) -> Result<Config, Failure> {
        let typed = ["eciton", "train"].iter().chain(line);
        match crate::arguments::Arguments::try_parse_from(typed).unwrap().command {
            crate::arguments::Command::Train(arguments) => configure(&arguments.request()?),
            other => panic!("{other:?}"),
        }
    }

    fn refused(line: &[&str]) -> String {
        match configured(line) {
            Err(Failure::Usage(text)) => text,
            other => panic!("{line:?}: {other:?}"),
        }
    }

    #[test]
    fn later_settings_take_precedence() {
        let dir = tempfile::tempdir().unwrap();
        let recipe = dir.path().join("r.toml");
        std::fs::write(&recipe, "[run]\nepochs = 3\nseed = 4\n[optimiser]\nlr = 0.5\n").unwrap();
        let recipe = recipe.to_str().unwrap();
        let config =
            configured(&[recipe, "--epochs", "5", "--lr", "0.1", "--set", "optimiser.lr=0.2"]).unwrap();
        assert_eq!((config.run.epochs, config.run.seed, config.optimiser.lr), (5, 4, 0.2));
        assert_eq!(configured(&[]).unwrap(), Config::default());
        let config = configured(&["pubmed", "--recipe", "GAT", "--lr", "0.5"]).unwrap();
        assert_eq!((&config.data.source[..], config.optimiser.lr), ("pubmed", 0.5));
        assert!(matches!(config.model.layers, Layers::List(_)), "two layers of eight heads");
        let config = configured(&["a/folder", "--name", "amazon_photo", "--recipe", "sgc"]).unwrap();
        assert_eq!((&config.data.source[..], config.model.kind), ("a/folder", ModelKind::Sgc));
        assert!(refused(&[recipe, "--recipe", "gcn"]).contains("is a recipe, expected a data set"));
        // The recipe is the general one of this model. The data do not decide the keys that it
        // sets.
        let config = configured(&["a/folder", "--recipe", "gcn"]).unwrap();
        assert!(config.choices.open && config.choices.is_asked("optimiser.lr"));
        assert!(refused(&["a/folder", "--recipe", "gc"]).contains("available: appnp, gat"));
        assert_eq!(configured(&["x/y", "--name", "7"]).unwrap().data.name.as_deref(), Some("7"));
    }

    #[test]
    fn a_recipes_paths_are_relative_to_it() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("recipes");
        std::fs::create_dir_all(folder.join("mine")).unwrap();
        let source = |text: &str| {
            let path = folder.join("r.toml");
            std::fs::write(&path, format!("[data]\nsource = \"{text}\"\n[kernels]\nlinear = \"k.wasm\"\n"))
                .unwrap();
            let config = configured(&[path.to_str().unwrap()]).unwrap();
            assert_eq!(config.kernels["linear"], folder.join("k.wasm").to_str().unwrap());
            config.data.source
        };
        assert_eq!(source("Cora"), "Cora");
        assert_eq!(source("citesear"), "citesear");
        assert_eq!(source("mine"), folder.join("mine").to_str().unwrap());
        assert_eq!(source("../x"), folder.join("../x").to_str().unwrap());
        assert_eq!(source("/x"), "/x");
    }

    #[test]
    fn model_files_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m.toml");
        std::fs::write(&path, "hidden = 7\nlayers = 3\n").unwrap();
        let path = path.to_str().unwrap();
        let config = configured(&["--model", path, "--hidden", "8"]).unwrap();
        assert_eq!((config.model.file, config.model.hidden), (None, 8));
        assert_eq!(config.model.layers, eciton_recipe::Layers::Count(3));
        let config = configured(&["--hidden", "8", "--set", &format!("model.file={path}")]).unwrap();
        assert_eq!((config.model.file, config.model.hidden), (None, 7));
        let recipe = dir.path().join("r.toml");
        std::fs::write(&recipe, "[model]\nfile = \"m.toml\"\n").unwrap();
        assert_eq!(configured(&[recipe.to_str().unwrap()]).unwrap().model.hidden, 7);
        assert_eq!(configured(&[recipe.to_str().unwrap(), "--model", "gcn"]).unwrap().model.hidden, 16);
    }

    #[test]
    fn paths_that_exist_become_absolute() {
        let config = configured(&["src", "--kernel", "linear=Cargo.toml"]).unwrap();
        assert!(Path::new(&config.data.source).is_absolute());
        assert!(Path::new(&config.kernels["linear"]).is_absolute());
        assert_eq!(configured(&["no such"]).unwrap().data.source, "no such");
    }

    #[test]
    fn error_messages_name_the_typed_text() {
        let cases: [(&[&str], &[&str]); 18] = [
            (
                &["--functions", "3"],
                &[
                    "--functions 3: ",
                    "the local executor does not read",
                    "executor.kind = \"emulated\" or \"lambda\"",
                ],
            ),
            // A value that equals the default is ignored as well, so it is refused.
            (&["--functions", "16"], &["--functions 16: `executor.functions` is 16"]),
            (&["--worker", "w", "--executor", "lambda"], &["--worker w: ", "executor.kind = \"emulated\""]),
            (&["--set", "emulator.crash = 0"], &["--set emulator.crash = 0: `emulator.crash` is 0"]),
            (&["--patience", "0"], &["`run.patience` is 0", "in --patience 0"]),
            (&["--patience", "5", "--eval-every", "0"], &["`run.patience` is 5", "`run.eval_every` is 0"]),
            (&["--set", "optimiser.gamma=0.5"], &["belongs to step and exponential", "schedule is constant"]),
            (&["--epochs", "0"], &["`run.epochs` is 0", "in --epochs 0"]),
            (&["--epochs", "-3"], &["in --epochs -3"]),
            (&["--lr", "much"], &["\"much\"", "in --lr much"]),
            (&["--order", "rabit"], &["\"natural\", \"degree\", \"rcm\", \"rabbit\"", "in --order rabit"]),
            (&["--mode", "asink"], &["\"sync\", \"pipe\", \"async\"", "in --mode asink"]),
            (&["--set", "run.epoch=3"], &["did you mean `run.epochs`?", "in --set run.epoch=3"]),
            (&["--set", "epochs"], &["section.key=value"]),
            (&["--model", "gnc"], &["did you mean `gcn`?"]),
            (&["--kernel", "linear"], &["NAME=PATH"]),
            (&["--kernel", "liner=x"], &["did you mean `linear`?"]),
            (
                &["--set", "kernels.softmax=x"],
                &[
                    "unknown kernel `softmax`",
                    "activate, attention, binary, concat, conv2d, embedding, gatv2, head, ipa, linear, maximum",
                ],
            ),
        ];
        for (line, words) in cases {
            let text = refused(line);
            for word in words {
                assert!(text.contains(word), "{line:?}: {text}");
            }
        }
    }

    #[test]
    fn unreadable_recipes_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.toml");
        let text = || match configured(&[path.to_str().unwrap()]) {
            Err(Failure::Failed(text)) => text,
            other => panic!("{other:?}"),
        };
        assert!(text().contains("r.toml: the recipe cannot be read"), "{}", text());
        std::fs::write(&path, b"[run]\n\xff").unwrap();
        assert!(text().contains("byte 6 is not UTF-8"), "{}", text());
        std::fs::write(&path, "[run]\nepoch = 3").unwrap();
        assert!(text().contains("r.toml:2:1") && text().contains("2 | epoch = 3"), "{}", text());
        std::fs::write(&path, " ".repeat(2 << 20)).unwrap();
        assert!(text().contains("1048577"), "{}", text());
    }
}
