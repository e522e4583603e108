//! One child process: its wall time, peak memory and output, under a time limit, and what other
//! processes took of the machine meanwhile. The same for every contender.
//!
//! The child leads a session of its own, and with it an autogroup whose priority is raised where that
//! is permitted, as the peers' `run_all.sh` does: else a build beside it slows peers that use OpenMP
//! many times over. `setsid`, `sh` and `timeout` do that; their share of the wall time is a few
//! milliseconds. `timeout` also ends the child's descendants. Since the session is not the terminal's,
//! Ctrl-C ends the harness only; a child then runs on until its limit at most.
#![allow(unsafe_code)] // One call of wait4: nothing in std tells a child's resource usage.

use std::ffi::{c_int, c_long};
use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Most that is kept of each of a child's two outputs, bytes; what follows is read and dropped.
const OUTPUT_LIMIT: u64 = 64 << 20;

/// Most words of a failure: the last lines of standard error.
const LAST_LINES: usize = 5;

/// Exit status of `timeout` when the limit was reached.
const TIMED_OUT: i32 = 124;

/// Starts the rest of its arguments after the limit, in seconds, with the autogroup's priority raised.
const START: &str = "echo -15 2>/dev/null >/proc/self/autogroup; exec timeout -k 5 \"$@\"";

/// What is known of a child that ended well.
#[derive(Debug, Clone)]
pub(crate) struct Measured {
    /// Process start to end, s.
    pub(crate) wall_s: f64,
    /// `ru_maxrss`: the largest resident set, mapped pages included, of the child or of a descendant.
    pub(crate) peak_bytes: u64,
    /// Mean number of cores that other processes kept busy meanwhile.
    pub(crate) others_cpu: f64,
    pub(crate) stdout: String,
}

/// `struct rusage` of 64-bit Linux.
#[repr(C)]
#[derive(Debug, Default)]
struct Usage {
    /// Seconds and microseconds in the user's code, then in the kernel.
    times: [c_long; 4],
    max_rss_kib: c_long,
    rest: [c_long; 13],
}

unsafe extern "C" {
    fn wait4(pid: c_int, status: *mut c_int, options: c_int, usage: *mut Usage) -> c_int;
}

/// Waits for a child of this process that nobody else waits for.
fn wait(pid: u32) -> io::Result<(ExitStatus, Usage)> {
    let pid = c_int::try_from(pid).map_err(io::Error::other)?;
    let (mut status, mut usage) = (0, Usage::default());
    loop {
        // SAFETY: both pointers are to live values of the types that wait4 writes.
        if unsafe { wait4(pid, &raw mut status, 0, &raw mut usage) } == pid {
            return Ok((ExitStatus::from_raw(status), usage));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Core seconds that all processes of the machine have taken; none where the system does not tell.
pub(crate) fn busy_s() -> Option<f64> {
    const TICKS_A_SECOND: f64 = 100.0; // What Linux shows to programs on every architecture that counts.
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    let fields: Vec<f64> =
        stat.lines().next()?.split_whitespace().skip(1).filter_map(|f| f.parse().ok()).collect();
    // user, nice, system, then past idle and iowait: irq, softirq, steal
    Some([0, 1, 2, 5, 6, 7].iter().filter_map(|&at| fields.get(at)).sum::<f64>() / TICKS_A_SECOND)
}

fn collect(stream: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let (mut stream, mut kept) = (stream, Vec::new());
        // A child whose output cannot be read is told by what is missing in it.
        let _ = stream.by_ref().take(OUTPUT_LIMIT).read_to_end(&mut kept);
        let _ = io::copy(&mut stream, &mut io::sink());
        String::from_utf8_lossy(&kept).into_owned()
    })
}

/// The command as a line for a shell.
pub(crate) fn shown(command: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    let quoted = |word: &str| match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    };
    command.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// Runs a command to its end; its failure in words, with the last lines of its standard error.
pub(crate) fn run(
    command: &[String],
    environment: &[(&str, &str)],
    limit: Duration,
) -> Result<Measured, String> {
    let busy = busy_s();
    let start = Instant::now();
    let mut child = Command::new("setsid")
        .args(["sh", "-c", START, "sh", &limit.as_secs().to_string()])
        .args(command)
        .env_remove("GLIBC_TUNABLES")
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| format!("setsid (of util-linux): {e}"))?;
    let (out, err) = (child.stdout.take().map(collect), child.stderr.take().map(collect));
    let (status, usage) = wait(child.id()).map_err(|e| format!("wait4: {e}"))?;
    let wall_s = start.elapsed().as_secs_f64();
    let busy = busy.zip(busy_s()).map_or(f64::NAN, |(before, after)| after - before);
    let text = |reader: Option<thread::JoinHandle<String>>| {
        reader.and_then(|reader| reader.join().ok()).unwrap_or_default()
    };
    let (stdout, stderr) = (text(out), text(err));
    if !status.success() {
        let reason = match status.code() {
            Some(TIMED_OUT) => format!("not done after {} s", limit.as_secs()),
            _ => status.to_string(),
        };
        let lines: Vec<&str> = stderr.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
        let last = lines[lines.len().saturating_sub(LAST_LINES)..].join(" | ");
        return Err(if last.is_empty() { reason } else { format!("{reason}: {last}") });
    }
    let [user_s, user_us, kernel_s, kernel_us] = usage.times.map(|t| t as f64);
    let own = user_s + kernel_s + (user_us + kernel_us) * 1e-6;
    Ok(Measured {
        wall_s,
        peak_bytes: u64::try_from(usage.max_rss_kib).unwrap_or(0) * 1024,
        others_cpu: (busy - own).max(0.0) / wall_s.max(1e-9),
        stdout,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn sh(script: &str, limit_s: u64) -> Result<Measured, String> {
        run(&["sh", "-c", script].map(str::to_owned), &[("NAME", "value")], Duration::from_secs(limit_s))
    }

    #[test]
    fn a_child_is_measured() {
        let ran = sh("echo $NAME; echo noise >&2", 60).unwrap();
        assert_eq!(ran.stdout, "value\n");
        assert!(ran.wall_s > 0.0 && ran.peak_bytes > 100 << 10, "{ran:?}");
    }

    #[test]
    fn memory_is_the_childs_own() {
        // 64 MiB in a variable of the shell; the next child has its own figure again.
        let large = sh("x=$(head -c 67108864 /dev/zero | tr '\\0' a); echo ${#x}", 60).unwrap();
        assert_eq!(large.stdout, "67108864\n");
        let small = sh(":", 60).unwrap();
        assert!(large.peak_bytes > 64 << 20 && small.peak_bytes < 48 << 20, "{large:?} {small:?}");
    }

    #[test]
    fn failures_have_words() {
        assert_eq!(sh("seq 9 >&2; exit 3", 60).unwrap_err(), "exit status: 3: 5 | 6 | 7 | 8 | 9");
        assert_eq!(sh("exec sleep 60", 1).unwrap_err(), "not done after 1 s");
        let absent = run(&["/no/such".to_owned()], &[], Duration::from_secs(9)).unwrap_err();
        assert!(absent.contains("127") && absent.contains("/no/such"), "{absent}");
    }

    #[test]
    fn commands_are_shown_for_a_shell() {
        let command = ["a", "b c", "x=[1]", "it's", ""].map(str::to_owned);
        assert_eq!(shown(&command), r"a 'b c' 'x=[1]' 'it'\''s' ''");
    }
}
