//! The command `eciton recipes`, and the recommended settings by data set and model, from
//! `docs/recipes`.

use eciton_recipe::Config;
use serde_json::json;

use crate::failure::Failure;
use crate::output::Output;
use crate::text;

/// A recipe file that is embedded in the program.
#[derive(Debug)]
pub(crate) struct Recipe {
    /// Name of the data set, as in `eciton data fetch`, or `any` for a recipe for no particular
    /// data set.
    set: &'static str,
    /// Name of the model, for instance `gcn`, or another name such as `links`.
    model: &'static str,
    /// Content of the recipe file, in TOML.
    text: &'static str,
}

macro_rules! recipes {
    ($($set:literal: $($model:literal)+;)+) => {
        &[$($(Recipe {
            set: $set,
            model: $model,
            text: include_str!(concat!("../../../docs/recipes/", $set, "/", $model, ".toml")),
        }),+),+]
    };
}

/// All embedded recipes, grouped by data set.
const ALL: &[Recipe] = recipes! {
    "cora": "appnp" "binary" "gat" "gatv2" "gcn" "gin" "links" "mlp" "sage" "sgc";
    "citeseer": "appnp" "binary" "gat" "gatv2" "gcn" "gin" "links" "mlp" "sage" "sgc";
    "pubmed": "appnp" "binary" "gat" "gatv2" "gcn" "gin" "links" "mlp" "sage" "sgc";
    "amazon-photo": "appnp" "gat" "gatv2" "gcn" "gin" "mlp" "sage" "sgc";
    "coauthor-cs": "appnp" "gat" "gatv2" "gcn" "gin" "mlp" "sage" "sgc";
    "facebook": "appnp" "gat" "gatv2" "gcn" "gin" "mlp" "sage" "sgc";
    "digits": "cnn" "mlp" "spiking" "spiking-population";
    "any": "branches" "char-lm" "cnn-graph" "ipa" "ipa-gru" "ipa-lines" "lines" "two-tower";
};

/// Returns the texts of all recipes.
#[cfg(test)]
pub(crate) fn texts() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|recipe| recipe.text)
}

/// Name in place of the data set in recipes for no particular data set.
const ANY: &str = "any";

/// Arguments of `eciton recipes`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Recipe to print [default: list all recipes]
    #[arg(value_name = "DATASET/MODEL")]
    which: Option<String>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

/// Prints the list of all recipes, or the text of one recipe.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    if let Some(which) = &arguments.which {
        let (set, model) = which.split_once('/').unwrap_or((which, ""));
        let recipe = find(set, model)?;
        match arguments.json {
            true => output.json(&json!({"dataset": recipe.set, "recipe": recipe.model, "text": recipe.text})),
            false => output.line(recipe.text.trim_end()),
        }
        return Ok(());
    }
    if arguments.json {
        for recipe in ALL {
            output.json(&json!({"dataset": recipe.set, "recipe": recipe.model}));
        }
        return Ok(());
    }
    for group in ALL.chunk_by(|a, b| a.set == b.set) {
        let models: Vec<&str> = group.iter().map(|recipe| recipe.model).collect();
        output.line(format_args!("{:<14}{}", group[0].set, models.join("  ")));
    }
    let any: Vec<&str> = BY_KIND.iter().map(|(name, _)| *name).collect();
    output.line(format_args!(
        "For any data set, use `eciton train DATA --recipe MODEL` with {}, or a recipe of `any`.",
        any.join(", ")
    ));
    output.line(
        "To train with a recipe: eciton train pubmed --recipe gat. To print it: eciton recipes pubmed/gat",
    );
    Ok(())
}

/// Recipes that can be applied to any data set, as pairs of the recipe's name and the data set that
/// it was written for.
const BY_KIND: [(&str, &str); 10] = [
    ("appnp", "cora"),
    ("gat", "cora"),
    ("gatv2", "cora"),
    ("gcn", "cora"),
    ("gin", "cora"),
    ("links", "cora"),
    ("sage", "cora"),
    ("sgc", "cora"),
    ("mlp", "digits"),
    ("cnn", "digits"),
];

/// Returns the configuration of the recipe `model` for the data set `set`. If there is none, the
/// general recipe of that name is used, and settings that it does not specify are chosen to suit
/// the data.
///
/// # Errors
/// Returns [`Failure::Usage`] if no recipe has this name. The message lists the available recipes.
pub(crate) fn config(set: &str, model: &str) -> Result<Config, Failure> {
    let named = |recipe: &Recipe| format!("recipe {}/{}", recipe.set, recipe.model);
    let error = match find(set, model).or_else(|error| find(ANY, model).map_err(|_| error)) {
        Ok(recipe) => return Ok(Config::parse(recipe.text, &named(recipe))?),
        Err(error) => error,
    };
    let Some((name, origin)) = BY_KIND.iter().find(|(name, _)| model.eq_ignore_ascii_case(name)) else {
        let any = ALL.iter().filter(|recipe| recipe.set == ANY).map(|recipe| recipe.model);
        let known: Vec<&str> = BY_KIND.iter().map(|(name, _)| *name).chain(any).collect();
        return Err(match is_known(set) {
            true => error,
            false => Failure::Usage(format!("no general recipe `{model}`; available: {}", known.join(", "))),
        });
    };
    let path = std::path::Path::new(set);
    let origin = if *name == "mlp" && !eciton_formats::is_rows(path) { "cora" } else { *origin };
    let recipe = find(origin, name)?;
    let text = match *name {
        "cnn" if eciton_formats::image_shape(path).is_none() => {
            let reason = "has no images; expected an .npz file with an array x of shape [images, height, width] or \
                          [images, height, width, channels]";
            return Err(Failure::Usage(format!("--recipe cnn: {set} {reason}")));
        }
        // The size of the images decides the layers.
        "cnn" => without_model(recipe.text)?,
        _ => recipe.text.to_owned(),
    };
    let mut config = Config::parse_asked(&text, &named(recipe))?;
    config.choices.open = true;
    Ok(config)
}

/// Returns the text of a recipe without its `[model]` section.
fn without_model(text: &str) -> Result<String, Failure> {
    let mut table: toml::Table =
        text.parse().map_err(|error| Failure::Failed(format!("a recipe: {error}")))?;
    table.remove("model");
    Ok(table.to_string())
}

/// Returns true if there are recipes for the data set `set`.
fn is_known(set: &str) -> bool {
    let wanted = set.to_lowercase().replace('_', "-");
    ALL.iter().any(|recipe| recipe.set == wanted)
}

/// Returns the recipe of the given data set and model.
///
/// # Errors
/// Returns [`Failure::Usage`] if there is no such recipe. The message lists the available names.
fn find(set: &str, model: &str) -> Result<&'static Recipe, Failure> {
    let wanted = set.to_lowercase().replace('_', "-");
    let of_set: Vec<&Recipe> = ALL.iter().filter(|recipe| recipe.set == wanted).collect();
    let refuse = |what: String, given: &str, known: Vec<&'static str>| {
        let advice = text::nearest(given, known.iter().copied())
            .map_or(String::new(), |k| format!(" (did you mean `{k}`?)"));
        Failure::Usage(format!("{what}{advice}; available: {}", known.join(", ")))
    };
    if of_set.is_empty() {
        let sets = ALL.chunk_by(|a, b| a.set == b.set).map(|group| group[0].set).collect();
        return Err(refuse(format!("no recipe for data set `{set}`"), &wanted, sets));
    }
    of_set.iter().find(|recipe| recipe.model.eq_ignore_ascii_case(model)).copied().ok_or_else(|| {
        let models = of_set.iter().map(|recipe| recipe.model).collect();
        let what = match model {
            "" => format!("expected {wanted}/MODEL"),
            _ => format!("{wanted} has no recipe `{model}`"),
        };
        refuse(what, model, models)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use eciton_recipe::ModelKind;

    #[test]
    fn the_binary_contains_every_recipe_under_its_name() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/recipes");
        let mut files = 0;
        for set in std::fs::read_dir(folder).unwrap() {
            files += std::fs::read_dir(set.unwrap().path()).unwrap().count();
        }
        assert_eq!(files, ALL.len());
        for group in
            ALL.chunk_by(|a, b| a.set == b.set).filter(|group| !["digits", ANY].contains(&group[0].set))
        {
            for (kind, _) in ModelKind::ALL {
                assert!(group.iter().any(|recipe| recipe.model == kind), "{} lacks {kind}", group[0].set);
            }
        }
        for recipe in ALL {
            let config = config(recipe.set, recipe.model).unwrap();
            config.check().unwrap();
            assert!(config.data.source == recipe.set || recipe.set == ANY, "{recipe:?}");
            assert_eq!(config.predicts_links(), recipe.model == "links", "{recipe:?}");
            assert!(recipe.text.starts_with("# "), "{recipe:?} does not say what it is");
        }
    }

    #[test]
    fn unknown_recipes_are_refused_with_the_available_ones() {
        let message = |set, model| match find(set, model) {
            Err(Failure::Usage(text)) => text,
            other => format!("{other:?}"),
        };
        assert!(message("pubmet", "gat").contains("did you mean `pubmed`?"));
        assert!(
            message("amazon_photo", "gatv").contains("amazon-photo has no recipe `gatv` (did you mean `gat")
        );
        assert!(message("cora", "").contains("expected cora/MODEL; available: appnp"));
    }
}
