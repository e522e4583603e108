//! Similarity of names, for errors about an unknown name.

/// The most similar of `known`, if it is similar at all.
pub(crate) fn nearest(name: &str, known: &[String]) -> Option<String> {
    let likeness = |k: &String| strsim::jaro_winkler(&name.to_lowercase(), &k.to_lowercase());
    let best = known.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    (likeness(best) > 0.6).then(|| best.clone())
}
