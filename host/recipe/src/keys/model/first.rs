//! The key `init` of a model and of its layers, which determines the initial weights.

use crate::document::{Field, Fields, Found};
use crate::error::{Error, Result};
use crate::model::{First, FirstKind, Init};

pub(super) const FORM: &str = "a table, as { kind = \"normal\", std = 0.02 }; kinds: normal (std), uniform (bound), orthogonal \
                    (gain), zeros, constant (value); with `scaled_by_depth = true` where it is, and by name in \
                    `parameters`, as { parameters = { \"qkv.bias\" = { kind = \"zeros\" } } }";
/// Maximum number of parameters that the key `init` may name.
const MAX_NAMED: usize = 256;

/// Returns the distributions of initial values, one for all weights and others for named
/// parameters.
pub(super) fn init(field: &Field) -> Result<Init> {
    let Found::Table(Fields(fields)) = &field.value else { return Err(field.refuse(FORM)) };
    let (named, rest): (Vec<&Field>, Vec<&Field>) =
        fields.iter().partition(|field| field.name == "parameters");
    let mut init = Init::default();
    if !rest.is_empty() {
        init.all = Some(first(field, &rest)?);
    }
    for field in named {
        match &field.value {
            Found::Table(Fields(fields)) if (1..=MAX_NAMED).contains(&fields.len()) => {
                for field in fields {
                    let Found::Table(Fields(inner)) = &field.value else { return Err(field.refuse(FORM)) };
                    let inner: Vec<&Field> = inner.iter().collect();
                    init.parameters.insert(field.name.clone(), first(field, &inner)?);
                }
            }
            _ => return Err(field.refuse(format!("a table of 1 to {MAX_NAMED} names"))),
        }
    }
    if init.all.is_none() && init.parameters.is_empty() {
        return Err(field.refuse(FORM));
    }
    Ok(init)
}

/// Returns the distribution that the fields of an `init` table describe.
fn first(table: &Field, fields: &[&Field]) -> Result<First> {
    let Some(kind) = fields.iter().find(|field| field.name == "kind") else {
        return Err(table.refuse(FORM));
    };
    let kind: FirstKind = kind.choice(&FirstKind::ALL)?;
    let key = kind.size();
    let (mut size, mut by_depth) = (key.and_then(|(_, size)| size), false);
    for field in fields {
        match &field.name[..] {
            "kind" => {}
            "scaled_by_depth" => by_depth = field.flag()?,
            name if key.is_some_and(|(known, _)| known == name) => {
                let allowed =
                    if kind == FirstKind::Constant { "a finite number" } else { "a number of 0 or more" };
                let fits: fn(f32) -> bool = match kind {
                    FirstKind::Constant => f32::is_finite,
                    _ => |value| value >= 0.0 && value.is_finite(),
                };
                size = Some(field.number(allowed, fits)?);
            }
            _ => {
                let own = key.map_or_else(String::new, |(name, _)| format!("`{name}` and "));
                return Err(Error::Value {
                    key: field.path.clone(),
                    found: field.value.to_string(),
                    allowed: format!("left out: this kind has {own}`scaled_by_depth`"),
                    place: field.position.place(),
                });
            }
        }
    }
    match (size, key) {
        (Some(size), _) => Ok(First { kind, size, by_depth }),
        (None, None) => Ok(First { kind, size: 0.0, by_depth }),
        (None, Some((name, _))) => Err(table.refuse(format!("a table with `{name}` as well: a number"))),
    }
}
