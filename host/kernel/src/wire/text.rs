//! JSON representation of values. Floats are written as integers with the same bits, which
//! preserves them exactly.

/// Serialises an f32 as a 32-bit integer with the same bits.
pub(super) mod float {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(in crate::wire) fn serialize<S: Serializer>(value: &f32, to: S) -> Result<S::Ok, S::Error> {
        value.to_bits().serialize(to)
    }

    pub(in crate::wire) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f32, D::Error> {
        Ok(f32::from_bits(u32::deserialize(from)?))
    }
}

/// Serialises a function of a vertex kernel by its name, for instance `"forward"`.
pub(super) mod kind {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::call::Kind;

    pub(in crate::wire) fn serialize<S: Serializer>(kind: &Kind, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(kind.name())
    }

    pub(in crate::wire) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Kind, D::Error> {
        let name = std::borrow::Cow::<'de, str>::deserialize(from)?;
        let all = [Kind::Forward, Kind::Backward, Kind::Loss];
        all.into_iter()
            .find(|k| k.name() == name)
            .ok_or_else(|| D::Error::unknown_variant(&name, &["forward", "backward", "loss"]))
    }
}

/// Serialises a function of an edge kernel by its name, for instance `"backward-targets"`.
pub(super) mod edge_kind {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::call::EdgeKind;

    pub(in crate::wire) fn serialize<S: Serializer>(kind: &EdgeKind, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(kind.name())
    }

    pub(in crate::wire) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<EdgeKind, D::Error> {
        let name = std::borrow::Cow::<'de, str>::deserialize(from)?;
        let all = [EdgeKind::Forward, EdgeKind::Targets, EdgeKind::Sources];
        all.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
            D::Error::unknown_variant(&name, &["forward", "backward-targets", "backward-sources"])
        })
    }
}

/// Serialises attributes with the types of their values. Floats are written as integers with the
/// same bits.
pub(super) mod attributes {
    use eciton_types::signature::{Attribute, Value};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Named {
        name: String,
        value: Tagged,
    }

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Tagged {
        Integer(i64),
        NumberBits(u64),
        Text(String),
        Flag(bool),
    }

    pub(in crate::wire) fn serialize<S: Serializer>(all: &[Attribute], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(all.iter().map(|a| {
            let value = match &a.value {
                Value::Integer(v) => Tagged::Integer(*v),
                Value::Number(v) => Tagged::NumberBits(v.to_bits()),
                Value::Text(v) => Tagged::Text(v.clone()),
                Value::Flag(v) => Tagged::Flag(*v),
            };
            Named { name: a.name.clone(), value }
        }))
    }

    pub(in crate::wire) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<Attribute>, D::Error> {
        let all = Vec::<Named>::deserialize(from)?;
        let plain = |named: Named| {
            let value = match named.value {
                Tagged::Integer(v) => Value::Integer(v),
                Tagged::NumberBits(v) => Value::Number(f64::from_bits(v)),
                Tagged::Text(v) => Value::Text(v),
                Tagged::Flag(v) => Value::Flag(v),
            };
            Attribute { name: named.name, value }
        };
        Ok(all.into_iter().map(plain).collect())
    }
}
