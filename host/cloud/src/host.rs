//! Location of a run's host relative to the functions, which determines the price of data transfer.
//!
//! The setting `executor.host` sets the location. Otherwise it is read from the metadata of EC2 or
//! ECS, or is assumed. Outputs with costs also show the location and its origin.

#[cfg(feature = "aws")]
mod interruption;
#[cfg(feature = "aws")]
mod metadata;

use eciton_recipe::HostPlace;
use serde::{Deserialize, Serialize};

/// Location of the host relative to the functions, and the origin of this information.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// The location: in the functions' zone, in their region, or elsewhere.
    pub place: HostPlace,
    /// Origin of the location, as a text for the user.
    pub because: String,
}

/// Location in bills of older versions, which assumed that the host was outside the cloud.
impl Default for Host {
    fn default() -> Self {
        Self::assumed("because the location was not recorded")
    }
}

impl std::fmt::Display for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let place = match self.place {
            HostPlace::Home => "outside AWS",
            HostPlace::Region => "in the functions' region",
            HostPlace::Zone => "in the functions' zone",
        };
        write!(f, "{place}: {}", self.because)
    }
}

/// Region and zone of this machine according to a metadata service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// Name of the metadata service, `EC2` or `ECS`.
    pub(crate) service: &'static str,
    pub(crate) region: String,
    pub(crate) zone: Option<String>,
}

impl Host {
    /// Returns a location that a setting or an option of the user sets.
    #[must_use]
    pub fn set(place: HostPlace) -> Self {
        Self { place, because: "as configured".to_owned() }
    }

    /// Returns the location outside the cloud, which is assumed if the location is not known. `why`
    /// is the reason, as a text for the user.
    #[must_use]
    pub fn assumed(why: &str) -> Self {
        Self { place: HostPlace::Home, because: format!("assumed, {why}") }
    }

    /// Returns the location for emulated functions. It is `set`, or else assumed to be outside the
    /// cloud.
    #[must_use]
    pub fn of_emulated(set: Option<HostPlace>) -> Self {
        set.map_or_else(
            || Self::assumed("because functions are emulated (set executor.host to change it)"),
            Self::set,
        )
    }

    /// Returns the location of a machine with the metadata `found` relative to functions in
    /// `region`. `zone` is the availability zone of the functions, if they are all in one.
    #[cfg_attr(not(feature = "aws"), allow(dead_code))]
    pub(crate) fn seen(found: &Found, region: &str, zone: Option<&str>) -> Self {
        let Found { service, region: own, zone: own_zone } = found;
        let at = own_zone.as_ref().unwrap_or(own);
        let reported = format!("the {service} metadata service reports {at}");
        let (place, because) = if own != region {
            (
                HostPlace::Home,
                format!(
                    "{reported}, but the functions are in {region}; data that leaves a region is priced like data \
                     to the internet"
                ),
            )
        } else if own_zone.is_some() && own_zone.as_deref() == zone {
            (HostPlace::Zone, reported)
        } else {
            (HostPlace::Region, reported)
        };
        Self { place, because }
    }

    /// Returns the location `set`, or else the location according to this machine's metadata.
    /// Reading the metadata takes at most two seconds.
    ///
    /// `region` and `zone` are those of the functions. `zone` is `None` unless all functions are in
    /// one zone.
    #[must_use]
    pub fn find(set: Option<HostPlace>, region: Option<&str>, zone: Option<&str>) -> Self {
        match (set, region) {
            (Some(place), _) => Self::set(place),
            (None, None) => Self::assumed("because the region of the functions is unknown"),
            (None, Some(region)) => Self::ask(region, zone),
        }
    }

    #[cfg(feature = "aws")]
    fn ask(region: &str, zone: Option<&str>) -> Self {
        match crate::runtime::runtime(1) {
            Ok(runtime) => {
                runtime.block_on(metadata::ask(&metadata::Sources::of_environment(), region, zone))
            }
            Err(_) => Self::assumed("because the metadata services cannot be queried"),
        }
    }

    #[cfg(not(feature = "aws"))]
    fn ask(_: &str, _: Option<&str>) -> Self {
        Self::assumed("because this build does not query metadata services")
    }
}

/// Calls `told` on another thread once EC2 announces that it will interrupt or terminate this
/// machine. The argument is a text for the user.
///
/// Nothing happens on a machine without the metadata service of EC2, if `AWS_EC2_METADATA_DISABLED`
/// is `true`, and in a build without the feature `aws`.
#[cfg_attr(not(feature = "aws"), allow(unused_variables))]
pub fn on_interruption(told: impl FnOnce(&str) + Send + 'static) {
    #[cfg(feature = "aws")]
    if !metadata::Sources::of_environment().instance_off {
        interruption::watch(told);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(own: &str, own_zone: Option<&str>, zone: Option<&str>) -> (HostPlace, String) {
        let found = Found { service: "EC2", region: own.to_owned(), zone: own_zone.map(str::to_owned) };
        let host = Host::seen(&found, "us-east-1", zone);
        (host.place, host.to_string())
    }

    #[test]
    fn a_place_follows_from_what_metadata_says() {
        let (place, said) = seen("us-east-1", Some("us-east-1a"), None);
        assert_eq!(place, HostPlace::Region);
        assert_eq!(said, "in the functions' region: the EC2 metadata service reports us-east-1a");
        assert_eq!(seen("us-east-1", Some("us-east-1a"), Some("us-east-1b")).0, HostPlace::Region);
        assert_eq!(seen("us-east-1", Some("us-east-1a"), Some("us-east-1a")).0, HostPlace::Zone);
        assert_eq!(seen("us-east-1", None, None).0, HostPlace::Region, "a zone that nobody knows");
        let (place, said) = seen("eu-west-1", Some("eu-west-1a"), Some("us-east-1a"));
        assert_eq!(place, HostPlace::Home);
        assert!(said.contains("eu-west-1a, but the functions are in us-east-1"), "{said}");
    }

    #[test]
    fn what_is_set_is_not_asked_for() {
        for (_, place) in HostPlace::ALL {
            assert_eq!(Host::find(Some(place), Some("us-east-1"), None), Host::set(place));
            assert_eq!(Host::of_emulated(Some(place)).place, place);
        }
        assert_eq!(Host::find(None, None, None).place, HostPlace::Home);
        assert!(
            Host::of_emulated(None)
                .to_string()
                .contains("outside AWS: assumed, because functions are emulated")
        );
    }
}
