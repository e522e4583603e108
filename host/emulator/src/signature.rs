//! Verification of AWS Signature Version 4 in requests to the Lambda API. The library `s3s`
//! verifies requests to S3.

use hmac::{Hmac, KeyInit, Mac};
use hyper::http::request::Parts;
use sha2::{Digest, Sha256};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Maximum difference between the date of a request and the time of this machine.
const SKEW: Duration = Duration::from_secs(15 * 60);

/// Region, service and keys with which a request must be signed.
pub(crate) struct Scope<'a> {
    pub(crate) region: &'a str,
    pub(crate) service: &'a str,
    pub(crate) access_key: &'a str,
    pub(crate) secret_key: &'a str,
}

/// Reason why a signed request is not accepted.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum Wrong {
    #[error("Missing Authentication Token")]
    Missing,
    #[error(
        "Authorization header requires existence of 'Credential', 'SignedHeaders' and 'Signature' parameters, and a date"
    )]
    Incomplete,
    #[error("The security token included in the request is invalid.")]
    Key,
    #[error("Credential should be scoped to this region, service and date")]
    Scope,
    #[error(
        "Signature not yet current or expired: the request's date is more than 15 minutes from the service's"
    )]
    Date,
    #[error("The request signature we calculated does not match the signature you provided.")]
    Mismatch,
}

impl Wrong {
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Wrong::Missing => "MissingAuthenticationTokenException",
            Wrong::Incomplete => "IncompleteSignatureException",
            Wrong::Key => "UnrecognizedClientException",
            Wrong::Scope | Wrong::Date | Wrong::Mismatch => "InvalidSignatureException",
        }
    }
}

/// Verifies that the `Authorization` header of a request signs the whole request with the keys in
/// `scope`.
pub(crate) fn check(parts: &Parts, body: &[u8], scope: &Scope<'_>) -> Result<(), Wrong> {
    check_at(parts, body, scope, SystemTime::now())
}

fn check_at(parts: &Parts, body: &[u8], scope: &Scope<'_>, now: SystemTime) -> Result<(), Wrong> {
    let header = |name: &str| {
        parts.headers.get(name).map(|value| value.to_str().map_err(|_| Wrong::Incomplete)).transpose()
    };
    let authorization = header("authorization")?.ok_or(Wrong::Missing)?;
    let fields = authorization.strip_prefix("AWS4-HMAC-SHA256 ").ok_or(Wrong::Incomplete)?;
    let field = |name: &str| {
        fields
            .split(',')
            .find_map(|field| field.trim().strip_prefix(name)?.strip_prefix('='))
            .ok_or(Wrong::Incomplete)
    };
    let (credential, signed, signature) =
        (field("Credential")?, field("SignedHeaders")?, field("Signature")?);
    let date = header("x-amz-date")?.ok_or(Wrong::Incomplete)?;
    let time = parse_date(date).ok_or(Wrong::Incomplete)?;
    let (key, credential_scope) = credential.split_once('/').ok_or(Wrong::Incomplete)?;
    if key != scope.access_key {
        return Err(Wrong::Key);
    }
    let day = date.get(..8).ok_or(Wrong::Incomplete)?;
    if credential_scope != format!("{day}/{}/{}/aws4_request", scope.region, scope.service) {
        return Err(Wrong::Scope);
    }
    let apart = now.duration_since(time).unwrap_or_else(|error| error.duration());
    if apart > SKEW {
        return Err(Wrong::Date);
    }
    if !signed.split(';').any(|name| name == "host") {
        return Err(Wrong::Incomplete);
    }
    let mut canonical = format!(
        "{}\n{}\n{}\n",
        parts.method,
        encode(parts.uri.path(), true),
        canonical_query(parts.uri.query().unwrap_or_default())
    );
    for name in signed.split(';') {
        let mut values = Vec::new();
        for value in parts.headers.get_all(name) {
            let value = value.to_str().map_err(|_| Wrong::Incomplete)?;
            values.push(value.split_ascii_whitespace().collect::<Vec<_>>().join(" "));
        }
        canonical += &format!("{name}:{}\n", values.join(","));
    }
    canonical += &format!("\n{signed}\n{}", hex(&Sha256::digest(body)));
    let to_sign =
        format!("AWS4-HMAC-SHA256\n{date}\n{credential_scope}\n{}", hex(&Sha256::digest(canonical)));
    let mut key = mac(format!("AWS4{}", scope.secret_key).as_bytes(), day);
    for part in [scope.region, scope.service, "aws4_request"] {
        key = mac(&key, part);
    }
    if hex(&mac(&key, &to_sign)) == signature { Ok(()) } else { Err(Wrong::Mismatch) }
}

fn mac(key: &[u8], message: &str) -> Vec<u8> {
    // HMAC accepts keys of any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return Vec::new() };
    mac.update(message.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Percent-encodes a part of the request line again, as all services except S3 do. In a path,
/// slashes are not encoded.
fn encode(text: &str, is_path: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric()
            || matches!(byte, b'-' | b'_' | b'.' | b'~')
            || (is_path && byte == b'/')
        {
            out.push(char::from(byte));
        } else {
            out += &format!("%{byte:02X}");
        }
    }
    out
}

fn canonical_query(query: &str) -> String {
    let mut pairs: Vec<(String, String)> = query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let again = |text: &str| {
                encode(&crate::lambda_api::percent_decoded(text).unwrap_or_else(|| text.to_owned()), false)
            };
            (again(name), again(value))
        })
        .collect();
    pairs.sort();
    pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
}

/// Parses a date such as `20261121T081234Z`. Returns `None` if it has another form.
fn parse_date(text: &str) -> Option<SystemTime> {
    let shape: Vec<char> = text.chars().collect();
    if shape.len() != 16 || shape.get(8) != Some(&'T') || shape.get(15) != Some(&'Z') {
        return None;
    }
    let number = |from: usize, to: usize| -> Option<u64> {
        let digits = text.get(from..to)?;
        if digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse().ok() } else { None }
    };
    let (year, month, day) = (number(0, 4)?, number(4, 6)?, number(6, 8)?);
    let (hour, minute, second) = (number(9, 11)?, number(11, 13)?, number(13, 15)?);
    if !(1970..=9999).contains(&year)
        || !(1..=12).contains(&month)
        || !(1..=31).contains(&day)
        || hour > 23
        || minute > 59
        || second > 60
    {
        return None;
    }
    // Number of days since 1970 of a calendar date. Years are counted from March, so that a leap
    // day is the last day.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1;
    let days = days.checked_sub(719_468)?;
    Some(UNIX_EPOCH + Duration::from_secs(((days * 24 + hour) * 60 + minute) * 60 + second))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use hyper::Request;

    const SCOPE: Scope<'_> = Scope {
        region: "us-east-1",
        service: "service",
        access_key: "AKIDEXAMPLE",
        secret_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
    };

    /// Returns the request of the example `get-vanilla-query-order-key-case`, which AWS has
    /// published.
    fn example(signature: &str) -> Parts {
        let credential = "Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request";
        let request = Request::get("/?Param2=value2&Param1=value1")
            .header("host", "example.amazonaws.com")
            .header("x-amz-date", "20150830T123600Z")
            .header(
                "authorization",
                format!(
                    "AWS4-HMAC-SHA256 {credential}, SignedHeaders=host;x-amz-date, Signature={signature}"
                ),
            );
        request.body(()).unwrap().into_parts().0
    }

    const RIGHT: &str = "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500";

    fn then() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_440_938_160)
    }

    #[test]
    fn the_published_example_is_accepted() {
        assert_eq!(parse_date("20150830T123600Z"), Some(then()));
        assert_eq!(check_at(&example(RIGHT), b"", &SCOPE, then()), Ok(()));
    }

    #[test]
    fn whatever_is_changed_is_seen() {
        let at = |parts: &Parts, body: &[u8]| check_at(parts, body, &SCOPE, then());
        assert_eq!(at(&example(RIGHT), b"x"), Err(Wrong::Mismatch));
        assert_eq!(at(&example(&RIGHT.replace('b', "c")), b""), Err(Wrong::Mismatch));
        let changed = |change: &dyn Fn(&mut Parts)| {
            let mut parts = example(RIGHT);
            change(&mut parts);
            at(&parts, b"").unwrap_err()
        };
        assert_eq!(changed(&|parts| parts.method = hyper::Method::POST), Wrong::Mismatch);
        assert_eq!(
            changed(&|parts| parts.uri = "/x?Param2=value2&Param1=value1".parse().unwrap()),
            Wrong::Mismatch
        );
        assert_eq!(changed(&|parts| parts.uri = "/?Param2=value2".parse().unwrap()), Wrong::Mismatch);
        assert_eq!(
            changed(&|parts| drop(parts.headers.insert("host", "other".parse().unwrap()))),
            Wrong::Mismatch
        );
        assert_eq!(changed(&|parts| drop(parts.headers.remove("authorization"))), Wrong::Missing);
        assert_eq!(changed(&|parts| drop(parts.headers.remove("x-amz-date"))), Wrong::Incomplete);
        assert_eq!(
            changed(&|parts| drop(parts.headers.insert("authorization", "Basic x".parse().unwrap()))),
            Wrong::Incomplete
        );
        let other = Scope { access_key: "AKIDOTHER", ..SCOPE };
        assert_eq!(check_at(&example(RIGHT), b"", &other, then()), Err(Wrong::Key));
        let other = Scope { region: "eu-west-1", ..SCOPE };
        assert_eq!(check_at(&example(RIGHT), b"", &other, then()), Err(Wrong::Scope));
        assert_eq!(
            check_at(&example(RIGHT), b"", &SCOPE, then() + SKEW + Duration::from_secs(1)),
            Err(Wrong::Date)
        );
        assert_eq!(check_at(&example(RIGHT), b"", &SCOPE, then() - SKEW), Ok(()));
    }

    #[test]
    fn dates_that_are_none_are_refused() {
        for text in [
            "",
            "20150830",
            "20151330T123600Z",
            "2015083aT123600Z",
            "20150830T243600Z",
            "20150830T123600+",
            "+0150830T123600Z",
        ] {
            assert_eq!(parse_date(text), None, "{text}");
        }
        assert_eq!(parse_date("19700101T000000Z"), Some(UNIX_EPOCH));
        assert_eq!(parse_date("20240229T000000Z"), Some(UNIX_EPOCH + Duration::from_secs(1_709_164_800)));
    }
}
