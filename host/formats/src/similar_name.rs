//! Similarity of names, for suggestions in error messages about unknown names.

/// Returns the name in `known` that is most similar to `name`, or `None` if no name is similar.
pub(crate) fn nearest(name: &str, known: &[String]) -> Option<String> {
    let likeness = |k: &String| strsim::jaro_winkler(&name.to_lowercase(), &k.to_lowercase());
    let best = known.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    (likeness(best) > 0.6).then(|| best.clone())
}
