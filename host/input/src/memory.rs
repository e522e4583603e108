//! Memory that this process uses and may use, read from Linux's `/proc` and control groups.

/// Mount point and limit file of memory control groups, first of version 2, then of version 1.
const GROUPS: [(&str, &str); 2] =
    [("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")];

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// Returns the value of the line that starts with `name`, converted from kB to bytes. Returns
/// `None` if there is no such line.
fn line_bytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|l| l.strip_prefix(name))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// Makes the allocator of glibc keep up to 32 MiB of freed memory per heap. With its defaults it
/// gives back the memory of a task's matrices after each task, and the kernel must then clear the
/// pages for the next one. This took 6 % of the processor time of a transformer. Other allocators
/// are not changed.
#[allow(unsafe_code)]
pub fn keep_freed() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: the call only sets parameters of the allocator, which has locks for them.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, 32 << 20);
        // Larger blocks have pages of their own.
        libc::mallopt(libc::M_MMAP_THRESHOLD, 4 << 20);
    }
}

/// Returns the peak resident memory of this process in bytes, or `None` if the system does not
/// report it.
pub fn peak_bytes() -> Option<u64> {
    line_bytes(&read("/proc/self/status")?, "VmHWM:")
}

/// Returns the number of bytes that this process may use in total, or `None` if it is unknown. This
/// is the memory in use plus the free memory of the machine. The limits of control groups and of
/// the address space are applied.
pub fn available() -> Option<u64> {
    let held = line_bytes(&read("/proc/self/status")?, "VmRSS:")?;
    let machine = read("/proc/meminfo").and_then(|text| line_bytes(&text, "MemAvailable:"));
    let machine = machine.map(|free| free + held);
    let limits = read("/proc/self/limits").unwrap_or_default();
    let space = limits.lines().find_map(|l| l.strip_prefix("Max address space"));
    let space = space.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok());
    [machine, group_limit(read), space].into_iter().flatten().min()
}

/// Returns the smallest memory limit in bytes among the control groups that contain this process.
///
/// In a container, the mounted folder is often the container's own group, while `/proc/self/cgroup`
/// has the path on the host. Therefore every prefix of that path is tried.
fn group_limit(read: impl Fn(&str) -> Option<String>) -> Option<u64> {
    let groups = read("/proc/self/cgroup").unwrap_or_default();
    let limits = groups.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, mut path) = (fields.next()?, fields.next()?.trim_end_matches('/'));
        let first = controllers.split(',').any(|name| name == "memory");
        let (folder, file) = GROUPS[usize::from(first)];
        if !first && !controllers.is_empty() {
            return None;
        }
        let mut least: Option<u64> = None;
        loop {
            let limit = read(&format!("{folder}{path}/{file}")).and_then(|text| text.trim().parse().ok());
            least = least.into_iter().chain(limit).min();
            match path.rfind('/') {
                Some(parent) => path = &path[..parent],
                None => return least,
            }
        }
    });
    limits.min()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Returns the memory limit of a system with these files.
    fn limit(files: &[(&str, &str)]) -> Option<u64> {
        group_limit(|path| files.iter().find(|(name, _)| *name == path).map(|(_, text)| (*text).to_owned()))
    }

    #[test]
    fn the_least_limit_of_the_groups_around_a_process_holds() {
        let own = ("/proc/self/cgroup", "0::/user.slice/run.scope\n");
        let outer = ("/sys/fs/cgroup/user.slice/memory.max", "2000\n");
        let inner = ("/sys/fs/cgroup/user.slice/run.scope/memory.max", "1000\n");
        assert_eq!(limit(&[own, outer, inner]), Some(1000));
        assert_eq!(
            limit(&[own, outer, ("/sys/fs/cgroup/user.slice/run.scope/memory.max", "max\n")]),
            Some(2000)
        );
        assert_eq!(limit(&[own]), None);
        // In a container: the outermost, and a path that is not there.
        assert_eq!(limit(&[("/proc/self/cgroup", "0::/\n"), ("/sys/fs/cgroup/memory.max", "7\n")]), Some(7));
        assert_eq!(limit(&[own, ("/sys/fs/cgroup/memory.max", "7\n")]), Some(7));
    }

    #[test]
    fn groups_of_the_first_version_count_as_well() {
        let own = ("/proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/a/b\n1:name=systemd:/c\n");
        let limits = [
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "300\n"),
            ("/sys/fs/cgroup/c/memory.max", "1\n"),
        ];
        assert_eq!(limit(&[own, limits[0], limits[1], limits[2]]), Some(300));
        assert_eq!(limit(&[own, limits[0]]), Some(9_223_372_036_854_771_712));
    }

    #[test]
    fn lines_without_a_figure_say_nothing() {
        assert_eq!(line_bytes("VmHWM:\t  12 kB\nVmRSS: x kB\n", "VmHWM:"), Some(12 << 10));
        assert_eq!(line_bytes("VmHWM:\t  12 kB\nVmRSS: x kB\n", "VmRSS:"), None);
        assert_eq!(limit(&[("/proc/self/cgroup", "odd\n:\n::\n")]), None);
        assert!(peak_bytes().unwrap() > 0 && available().unwrap() > 0);
    }
}
