//! Role of a function, which determines the objects that it may read and write, like an IAM role on
//! AWS.
//!
//! A role never permits listing or deletion. As in S3, a caller that may not list gets
//! `AccessDenied` for an object that does not exist, just as for a forbidden object.

use crate::settings::{Function, Settings};
use std::collections::BTreeMap;

/// Key prefixes of the objects that a function may read and write, in every bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Role {
    /// Key prefixes of the objects that the function may read (`s3:GetObject`).
    pub read: Vec<String>,
    /// Key prefixes of the objects that the function may write (`s3:PutObject`,
    /// `s3:AbortMultipartUpload`).
    pub write: Vec<String>,
}

impl Role {
    /// Returns true if the role allows an S3 operation such as `GetObject` on the object `key`.
    fn allows(&self, operation: &str, key: Option<&str>) -> bool {
        let within = |prefixes: &[String]| key.is_some_and(|key| prefixes.iter().any(|p| key.starts_with(p)));
        match operation {
            "GetObject" | "HeadObject" => within(&self.read),
            "PutObject"
            | "CreateMultipartUpload"
            | "UploadPart"
            | "CompleteMultipartUpload"
            | "AbortMultipartUpload" => within(&self.write),
            _ => false,
        }
    }
}

/// Returns the access key with which a function signs requests. A function with a role has its own
/// access key, and other functions use that of the account.
pub(crate) fn access_key(settings: &Settings, function: &Function) -> String {
    match function.role {
        Some(_) => format!("{}.{}", settings.access_key, function.name),
        None => settings.access_key.clone(),
    }
}

/// Roles of all functions, by the access key with which a function signs.
pub(crate) struct Roles(BTreeMap<String, Role>);

impl Roles {
    pub(crate) fn from_settings(settings: &Settings) -> Self {
        let own = |function: &Function| Some((access_key(settings, function), function.role.clone()?));
        Self(settings.functions.iter().filter_map(own).collect())
    }

    pub(crate) fn access_keys(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }

    /// Returns true if the request of a function with `access_key` must be refused. Calls
    /// `is_there` to find out whether the object of a read exists.
    pub(crate) fn refuse(
        &self,
        access_key: &str,
        (operation, key): (&str, Option<&str>),
        is_there: impl FnOnce() -> bool,
    ) -> bool {
        let reads = matches!(operation, "GetObject" | "HeadObject");
        self.0.get(access_key).is_some_and(|role| !role.allows(operation, key) || (reads && !is_there()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_allows_its_prefixes_and_no_listing() {
        let role = Role { read: vec!["a/".into(), "b/".into()], write: vec!["b/".into()] };
        for (operation, key, allowed) in [
            ("GetObject", Some("a/x"), true),
            ("HeadObject", Some("b/x"), true),
            ("GetObject", Some("ab/x"), false),
            ("PutObject", Some("a/x"), false),
            ("UploadPart", Some("b/x"), true),
            ("DeleteObject", Some("b/x"), false),
            ("ListObjectsV2", None, false),
            ("HeadBucket", None, false),
        ] {
            assert_eq!(role.allows(operation, key), allowed, "{operation} {key:?}");
        }
    }

    #[test]
    fn an_absent_object_looks_like_a_forbidden_one_to_a_role() {
        let mut function = Function::new("f", "/bin/true");
        function.role = Some(Role { read: vec!["a/".into()], ..Role::default() });
        let settings = Settings { functions: vec![function], ..Settings::default() };
        let roles = Roles::from_settings(&settings);
        let get = ("GetObject", Some("a/x"));
        assert!(roles.refuse("emulator.f", get, || false) && !roles.refuse("emulator.f", get, || true));
        assert!(!roles.refuse("emulator", get, || false), "the account may list");
    }
}
