//! Notices of EC2 that this machine will be interrupted or terminated.
//!
//! EC2 announces the interruption of a spot instance two minutes before it
//! (`spot/instance-action`). An Auto Scaling group announces that it removes an instance while a
//! lifecycle hook delays the termination (`autoscaling/target-lifecycle-state`).

use std::time::Duration;

use aws_config::imds;

use super::metadata::client;

/// Time between two requests to the metadata service. EC2 recommends 5 s.
const EACH: Duration = Duration::from_secs(5);
/// Number of attempts to reach the service, because the network of a machine that has just started
/// may not be ready.
const ATTEMPTS: u32 = 3;

/// Body of `spot/instance-action`.
#[derive(serde::Deserialize)]
struct Action {
    action: String,
    time: String,
}

/// Waits for a notice, and returns it as a text for the user. Returns `None` if this machine has no
/// metadata service. `endpoint` is the address of the service. If it is `None`, the AWS SDK chooses
/// the address. `each` is the time between two requests.
pub(super) async fn notice(endpoint: Option<&str>, each: Duration) -> Option<String> {
    let client = client(endpoint)?;
    for attempt in 1.. {
        match client.get("/latest/meta-data/instance-id").await {
            Ok(_) => break,
            Err(_) if attempt == ATTEMPTS => return None,
            Err(_) => tokio::time::sleep(each).await,
        }
    }
    loop {
        if let Some(text) = ask(&client).await {
            return Some(text);
        }
        tokio::time::sleep(each).await;
    }
}

/// Asks for a notice once. If there is none, the service answers with status 404. A service that
/// does not answer is asked again later.
async fn ask(client: &imds::Client) -> Option<String> {
    if let Ok(body) = client.get("/latest/meta-data/spot/instance-action").await {
        // The notice counts even if its form is unknown.
        let action: Option<Action> = serde_json::from_str(body.as_ref()).ok();
        let plain = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "-:.".contains(c));
        return Some(match action.filter(|of| plain(&of.action) && plain(&of.time)) {
            Some(Action { action, time }) => {
                format!("EC2 will interrupt this spot instance (action {action} at {time})")
            }
            None => "EC2 will interrupt this spot instance".to_owned(),
        });
    }
    let state = client.get("/latest/meta-data/autoscaling/target-lifecycle-state").await.ok()?;
    let ends = state.as_ref().trim() == "Terminated";
    ends.then(|| "the Auto Scaling group will terminate this instance".to_owned())
}

/// Waits for a notice on a thread of its own, and passes it to `told`.
pub(super) fn watch(told: impl FnOnce(&str) + Send + 'static) {
    let wait = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
        let text = runtime.block_on(notice(None, EACH))?;
        told(&text);
        Some(())
    };
    // Without this thread, the process does not hear of an interruption before SIGTERM.
    let _ = std::thread::Builder::new().name("interruption".to_owned()).spawn(wait);
}
