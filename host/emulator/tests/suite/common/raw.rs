//! Requests over a plain socket, signed with Signature Version 4, so that tests can send any kind
//! of invalid request.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic, unreachable_pub)]

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub fn address(url: &str) -> SocketAddr {
    url.trim_start_matches("http://").parse().unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn mac(key: &[u8], message: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(message.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

/// Returns the current time in the form `20261121T081234Z`.
fn date() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}{month:02}{day:02}T{:02}{:02}{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

/// Returns the head of a request, signed for `service`. The target must already be percent-encoded.
/// `hash` is the digest of the body, or `UNSIGNED-PAYLOAD`.
pub fn signed_head(
    service: &str,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    hash: &str,
) -> String {
    let date = date();
    let scope = format!("{}/us-east-1/{service}/aws4_request", &date[..8]);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    // All services but S3 encode the path once more.
    let canonical_path = if service == "s3" {
        path.to_owned()
    } else {
        path.replace('%', "%25").replace(':', "%3A").replace('$', "%24")
    };
    let mut pairs: Vec<String> = query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| if pair.contains('=') { pair.to_owned() } else { format!("{pair}=") })
        .collect();
    pairs.sort();
    let canonical = format!(
        "{method}\n{canonical_path}\n{}\nhost:emulator\nx-amz-content-sha256:{hash}\nx-amz-date:{date}\n\nhost;x-amz-content-sha256;x-amz-date\n{hash}",
        pairs.join("&")
    );
    let to_sign = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{}", hex(&Sha256::digest(canonical)));
    let mut key = mac(b"AWS4emulator-secret", &date[..8]);
    for part in ["us-east-1", service, "aws4_request"] {
        key = mac(&key, part);
    }
    let mut head = format!(
        "{method} {target} HTTP/1.1\r\nhost: emulator\r\nx-amz-date: {date}\r\nx-amz-content-sha256: {hash}\r\n"
    );
    head += &format!(
        "authorization: AWS4-HMAC-SHA256 Credential=emulator/{scope}, SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature={}\r\n",
        hex(&mac(&key, &to_sign))
    );
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    head
}

/// Returns a complete signed request.
pub fn signed(service: &str, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let hash = if service == "s3" { "UNSIGNED-PAYLOAD".to_owned() } else { hex(&Sha256::digest(body)) };
    let mut request = signed_head(service, method, target, headers, &hash).into_bytes();
    request.extend_from_slice(format!("content-length: {}\r\n\r\n", body.len()).as_bytes());
    request.extend_from_slice(body);
    request
}

/// Response of a server.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Reads one response. Returns `None` if the connection ended without one.
pub fn read_reply(stream: &mut TcpStream) -> io::Result<Option<Reply>> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 64 * 1024];
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(None),
            Ok(read) => bytes.extend_from_slice(&buffer[..read]),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
            Err(error) => return Err(error),
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
    let status =
        head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or(io::ErrorKind::InvalidData)?;
    let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let mut body = bytes.split_off(end);
    let length: usize = field("content-length:").and_then(|value| value.parse().ok()).unwrap_or(0);
    let chunked = field("transfer-encoding:") == Some("chunked");
    while if chunked { !body.ends_with(b"0\r\n\r\n") } else { body.len() < length } {
        match stream.read(&mut buffer)? {
            0 => break,
            read => body.extend_from_slice(&buffer[..read]),
        }
    }
    Ok(Some(Reply { status, head, body }))
}

pub fn connect(address: SocketAddr, patience: Duration) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(patience)).unwrap();
    stream.set_write_timeout(Some(patience)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Sends bytes, closes the sending side, and reads one response. Returns an error if the peer
/// neither answers nor closes in time.
pub fn exchange(address: SocketAddr, bytes: &[u8], patience: Duration) -> io::Result<Option<Reply>> {
    let mut stream = connect(address, patience);
    match stream.write_all(bytes) {
        // The service may refuse the request before it has read all of it.
        Err(error) if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {}
        other => other?,
    }
    let _ = stream.shutdown(std::net::Shutdown::Write);
    read_reply(&mut stream)
}

/// Random number generator SplitMix64, so that a run can be repeated by its seed.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}
