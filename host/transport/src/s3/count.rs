//! Counting of HTTP requests. Requests are counted where they are sent, so retries and parts are
//! included.

use std::sync::Arc;

use aws_sdk_s3::config::interceptors::BeforeTransmitInterceptorContextRef;
use aws_sdk_s3::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_s3::error::BoxError;

use crate::store::{Counter, Kind};

/// Interceptor of the SDK that counts each HTTP request just before it is sent.
#[derive(Debug)]
pub(super) struct Counting(pub(super) Arc<Counter>);

impl Intercept for Counting {
    fn name(&self) -> &'static str {
        "Counting"
    }

    fn read_before_transmit(
        &self,
        context: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let request = context.request();
        let kind = kind(request.method(), request.uri());
        self.0.request(kind);
        if kind == Kind::Put && request.method() == "PUT" {
            self.0.went(request.body().content_length().unwrap_or(0));
        }
        // The SDK numbers its attempts in a header: `attempt=2; max=5`.
        if request.headers().get("amz-sdk-request").is_some_and(|info| !info.starts_with("attempt=1")) {
            self.0.retry();
        }
        Ok(())
    }
}

/// Returns the kind under which S3 charges a request. `uri` is the request's address with its
/// query.
fn kind(method: &str, uri: &str) -> Kind {
    let asks = |name: &str| {
        let query = uri.split_once('?').map_or("", |(_, query)| query);
        query.split('&').any(|pair| pair.split('=').next() == Some(name))
    };
    match method {
        "HEAD" => Kind::Head,
        "DELETE" => Kind::Delete,
        "POST" if asks("delete") => Kind::Delete,
        // Requests that start and complete a multipart upload.
        "POST" | "PUT" => Kind::Put,
        _ if asks("list-type") => Kind::List,
        _ => Kind::Get,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_told_apart_by_method_and_query() {
        for (method, uri, expected) in [
            ("GET", "http://h/b/k?x-id=GetObject", Kind::Get),
            ("GET", "http://h/b?list-type=2&prefix=a", Kind::List),
            ("GET", "http://h/b/list-type", Kind::Get),
            ("PUT", "http://h/b/k?partNumber=1&uploadId=a", Kind::Put),
            ("POST", "http://h/b/k?uploads", Kind::Put),
            ("POST", "http://h/b/k?uploadId=a", Kind::Put),
            ("POST", "http://h/b?delete", Kind::Delete),
            ("DELETE", "http://h/b/k?uploadId=a", Kind::Delete),
            ("HEAD", "http://h/b/k", Kind::Head),
        ] {
            assert_eq!(kind(method, uri), expected, "{method} {uri}");
        }
    }
}
