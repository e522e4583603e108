//! Server that sends exactly the bytes that a test specifies.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Request that the server received.
#[derive(Clone, Debug)]
pub struct Request {
    /// Method and target.
    pub line: String,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// Actions of the server, in order.
#[derive(Clone, Debug)]
pub enum Act {
    Send(Vec<u8>),
    Pause(Duration),
    Close,
}

pub struct Script {
    pub endpoint: String,
    requests: Arc<Mutex<Vec<Request>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Script {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns an answer with a body and its length.
pub fn answer(status: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n", body.len()).into_bytes();
    for (name, value) in headers {
        bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(body);
    bytes
}

/// Returns an error in the format of S3.
pub fn error(status: &str, code: &str) -> Vec<u8> {
    let body = format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>said so</Message></Error>");
    answer(status, &[("content-type", "application/xml")], body.as_bytes())
}

impl Script {
    /// Starts the server. `acts` gets the number of the request, from 0, and the request.
    pub async fn start(acts: impl Fn(usize, &Request) -> Vec<Act> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let acts = Arc::new(acts);
        let seen = requests.clone();
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                connections.spawn(serve(socket, acts.clone(), seen.clone()));
            }
        });
        Self { endpoint, requests, task }
    }

    /// Starts a server with one answer per request. The last answer is repeated.
    pub async fn answers(answers: Vec<Vec<u8>>) -> Self {
        Self::start(move |at, _| vec![Act::Send(answers[at.min(answers.len() - 1)].clone())]).await
    }

    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

async fn serve(
    mut socket: TcpStream,
    acts: Arc<impl Fn(usize, &Request) -> Vec<Act>>,
    seen: Arc<Mutex<Vec<Request>>>,
) {
    let mut buffer = Vec::new();
    while let Some(request) = receive(&mut socket, &mut buffer).await {
        let at = {
            let mut seen = seen.lock().unwrap();
            seen.push(request.clone());
            seen.len() - 1
        };
        for act in acts(at, &request) {
            match act {
                Act::Send(bytes) => {
                    if socket.write_all(&bytes).await.is_err() {
                        return;
                    }
                }
                Act::Pause(time) => tokio::time::sleep(time).await,
                Act::Close => return,
            }
        }
    }
}

async fn receive(socket: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Request> {
    let head = loop {
        if let Some(at) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        if socket.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    };
    let text = String::from_utf8(buffer[..head].to_vec()).unwrap();
    let mut lines = text.lines();
    let line = lines.next()?.trim_end_matches(" HTTP/1.1").to_owned();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let mut request = Request { line, headers, body: Vec::new() };
    let len: usize = request.header("content-length").map_or(0, |len| len.parse().unwrap());
    while buffer.len() < head + len {
        if socket.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
    request.body = buffer[head..head + len].to_vec();
    buffer.drain(..head + len);
    Some(request)
}
