//! Tests of the metadata services, against servers on loopback.

#![allow(clippy::unwrap_used)]
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use eciton_recipe::HostPlace;

use super::*;

const TOKEN: &str = "AQAEAExampleToken==";

/// Content and behaviour of the loopback service.
#[derive(Debug, Clone, Copy)]
enum Serves {
    /// EC2: region and zone.
    Instance(&'static str, &'static str),
    /// ECS: a task's metadata.
    Task(&'static str),
    /// EC2: the instance's id, and the second text at the first path.
    Notice(&'static str, &'static str),
    /// Accepts connections and never answers.
    Silence,
}

/// Starts a metadata service on this machine, which ends with the process of the test.
struct Service {
    port: u16,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Service {
    fn start(serves: Serves) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = requests.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let seen = seen.clone();
                std::thread::spawn(move || serve(stream, serves, &seen));
            }
        });
        Self { port, requests }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

/// Answers the requests of one connection, as the services do.
fn serve(stream: TcpStream, serves: Serves, seen: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut writer = stream;
    loop {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            match line.trim_end() {
                "" => break,
                line => lines.push(line.to_owned()),
            }
        }
        let header = |name: &str| {
            let of = |line: &String| {
                let (found, value) = line.split_once(':')?;
                found.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
            };
            lines.iter().find_map(of)
        };
        let request: Vec<&str> = lines[0].split(' ').collect();
        seen.lock().unwrap().push(format!("{} {}", request[0], request[1]));
        let with_token = header("x-aws-ec2-metadata-token").as_deref() == Some(TOKEN);
        let (status, body, more) = match (serves, request[0], request[1]) {
            (Serves::Silence, ..) => continue,
            (Serves::Instance(..) | Serves::Notice(..), "PUT", "/latest/api/token") => {
                let ttl = header("x-aws-ec2-metadata-token-ttl-seconds").unwrap_or_default();
                match ttl.parse::<u32>() {
                    Ok(1..=21_600) => {
                        let more = format!("x-aws-ec2-metadata-token-ttl-seconds: {ttl}\r\n");
                        ("200 OK", TOKEN, more)
                    }
                    _ => ("400 Bad Request", "", String::new()),
                }
            }
            // The second version of the service refuses requests without its token.
            (Serves::Instance(..) | Serves::Notice(..), "GET", _) if !with_token => {
                ("401 Unauthorized", "", String::new())
            }
            (Serves::Instance(region, zone), "GET", path) => match path {
                "/latest/meta-data/placement/region" => ("200 OK", region, String::new()),
                "/latest/meta-data/placement/availability-zone" => ("200 OK", zone, String::new()),
                _ => ("404 Not Found", "", String::new()),
            },
            (Serves::Notice(..), "GET", "/latest/meta-data/instance-id") => ("200 OK", "i-1", String::new()),
            (Serves::Notice(at, text), "GET", path) if path == format!("/latest/meta-data/{at}") => {
                ("200 OK", text, String::new())
            }
            (Serves::Task(task), "GET", "/v4/abc/task") => ("200 OK", task, String::new()),
            _ => ("404 Not Found", "", String::new()),
        };
        let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n{more}", body.len());
        let closes = request[2] == "HTTP/1.0";
        let end = if closes { "Connection: close\r\n\r\n" } else { "\r\n" };
        writer.write_all(format!("{head}{end}{body}").as_bytes()).unwrap();
        if closes {
            return;
        }
    }
}

fn host(sources: &Sources, zone: Option<&str>) -> Host {
    crate::runtime::runtime(1).unwrap().block_on(ask(sources, "us-east-1", zone))
}

fn instance(url: String) -> Sources {
    Sources { instance: Some(url), ..Sources::default() }
}

#[test]
fn a_host_inside_the_region_could_not_be_told_from_one_at_home() {
    let service = Service::start(Serves::Instance("us-east-1", "us-east-1c"));
    let found = host(&instance(service.url()), None);
    assert_eq!(found.place, HostPlace::Region);
    assert_eq!(found.because, "the EC2 metadata service reports us-east-1c");
    assert_eq!(host(&instance(service.url()), Some("us-east-1c")).place, HostPlace::Zone);
    let seen = service.requests.lock().unwrap().clone();
    assert_eq!(seen[0], "PUT /latest/api/token", "the second version of the protocol: {seen:?}");
    let elsewhere = Service::start(Serves::Instance("eu-west-1", "eu-west-1a"));
    assert_eq!(host(&instance(elsewhere.url()), None).place, HostPlace::Home);
}

#[test]
fn a_task_says_where_it_is_by_its_own_metadata() {
    let task = r#"{"Cluster":"c","TaskARN":"arn:aws:ecs:us-east-1:111122223333:task/c/15","AvailabilityZone":"us-east-1d"}"#;
    let service = Service::start(Serves::Task(task));
    let mut sources = Sources { task: Some(format!("{}/v4/abc", service.url())), ..Sources::default() };
    sources.instance_off = true;
    let found = host(&sources, None);
    assert_eq!(
        (found.place, found.because.as_str()),
        (HostPlace::Region, "the ECS metadata service reports us-east-1d")
    );
    assert_eq!(*service.requests.lock().unwrap(), ["GET /v4/abc/task"]);
    // An answer that is not the metadata of a task is ignored, and the service of the instance is
    // asked.
    for wrong in ["", "{}", r#"{"TaskARN":"arn"}"#, r#"{"TaskARN":"arn:aws:ecs:a\u001bb:1:task/c/15"}"#] {
        let service = Service::start(Serves::Task(wrong));
        let ec2 = Service::start(Serves::Instance("us-east-1", "us-east-1c"));
        let task = Some(format!("{}/v4/abc", service.url()));
        let both = Sources { task, ..instance(ec2.url()) };
        assert_eq!(host(&both, None).because, "the EC2 metadata service reports us-east-1c", "{wrong}");
    }
}

#[test]
fn where_no_metadata_answers_home_is_assumed_soon() {
    let silent = Service::start(Serves::Silence);
    // No service listens at this address any longer.
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let wrong = Service::start(Serves::Instance("<html>", ""));
    for url in [silent.url(), format!("http://{closed}"), wrong.url(), "no url".to_owned()] {
        let begun = Instant::now();
        let sources = Sources { task: Some(format!("{url}/v4/abc")), ..instance(url.clone()) };
        let found = host(&sources, None);
        assert_eq!(found.place, HostPlace::Home, "{url}");
        assert!(found.because.contains("assumed, because no EC2 or ECS metadata"), "{}", found.because);
        assert!(begun.elapsed() < 4 * WITHIN, "{url}: {:?}", begun.elapsed());
    }
    let off = Sources { instance_off: true, ..instance(silent.url()) };
    assert!(host(&off, None).because.contains("AWS_EC2_METADATA_DISABLED"));
}

#[test]
fn a_notice_of_an_interruption_is_passed_on() {
    let soon = Duration::from_millis(5);
    let noticed = |serves: Serves| {
        let service = Service::start(serves);
        let runtime = crate::runtime::runtime(1).unwrap();
        runtime.block_on(async {
            let url = service.url();
            let waits = super::super::interruption::notice(Some(&url), soon);
            tokio::time::timeout(Duration::from_millis(500), waits).await.ok()
        })
    };
    let spot = r#"{"action": "terminate", "time": "2026-11-29T23:30:00Z"}"#;
    let text = noticed(Serves::Notice("spot/instance-action", spot)).unwrap().unwrap();
    assert_eq!(text, "EC2 will interrupt this spot instance (action terminate at 2026-11-29T23:30:00Z)");
    let text =
        noticed(Serves::Notice("spot/instance-action", "{\"action\": \"\u{1b}[31m\"}")).unwrap().unwrap();
    assert_eq!(text, "EC2 will interrupt this spot instance");
    let state = "autoscaling/target-lifecycle-state";
    let text = noticed(Serves::Notice(state, "Terminated")).unwrap().unwrap();
    assert_eq!(text, "the Auto Scaling group will terminate this instance");
    // An instance in service has no notice, and a machine elsewhere has no service.
    assert_eq!(noticed(Serves::Notice(state, "InService")), None);
    assert_eq!(noticed(Serves::Notice("other", "")), None);
    assert_eq!(noticed(Serves::Task("")), Some(None));
}
