//! Facts of the measuring machine, read from `/proc` and `/sys`. What is not there is left out.

use std::collections::BTreeMap;
use std::path::Path;

/// Facts of this machine: `os`, `arch`, `kernel`, `cpu_model`, `cores`, `cores_usable`,
/// `memory_bytes`, `governor`, `clocksource`, `hypervisor`, `cgroup_cpu_limit` (in cores),
/// `cgroup_memory_bytes`, `loadavg`, `container`. Never fails: off Linux only the first few exist.
pub fn facts() -> BTreeMap<String, String> {
    let mut facts = facts_below(Path::new("/"));
    facts.insert("os".to_owned(), std::env::consts::OS.to_owned());
    facts.insert("arch".to_owned(), std::env::consts::ARCH.to_owned());
    if let Ok(cores) = std::thread::available_parallelism() {
        facts.insert("cores_usable".to_owned(), cores.to_string());
    }
    facts
}

/// What this process may still use.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Room {
    /// Cores: of the affinity mask and of the tightest CPU limit of a cgroup, the lesser.
    pub cores: Option<f64>,
    /// Bytes of memory: free on the machine, or left below the tightest limit of a cgroup.
    pub memory_bytes: Option<u64>,
}

/// What this process may still use, now. Unknown where the system does not tell.
pub fn room() -> Room {
    let room = room_below(Path::new("/"));
    let mask = std::thread::available_parallelism().ok().map(|n| n.get() as f64);
    Room { cores: [mask, room.cores].into_iter().flatten().min_by(f64::total_cmp), ..room }
}

fn room_below(root: &Path) -> Room {
    let read = |path: &str| std::fs::read_to_string(root.join(path)).ok().map(|s| s.trim().to_owned());
    let free = field(&read("proc/meminfo").unwrap_or_default(), "MemAvailable").and_then(|text| kib(&text));
    let left = own_cgroups(&read).into_iter().filter_map(|folder| {
        let number = |file: &str| read(&format!("{folder}/{file}"))?.parse::<u64>().ok();
        // Pages of files that nobody reads are given back when memory is wanted.
        let stat = read(&format!("{folder}/memory.stat")).unwrap_or_default();
        let idle =
            stat.lines().find_map(|line| line.strip_prefix("inactive_file ")?.parse().ok()).unwrap_or(0);
        let used = number("memory.current")?.saturating_sub(idle);
        Some(number("memory.max")?.saturating_sub(used))
    });
    let free = free.and_then(|bytes| bytes.parse().ok());
    Room { cores: cpu_limit(&read), memory_bytes: left.chain(free).min() }
}

/// The facts that files tell, below any root.
fn facts_below(root: &Path) -> BTreeMap<String, String> {
    let read = |path: &str| std::fs::read_to_string(root.join(path)).ok().map(|s| s.trim().to_owned());
    let mut facts = BTreeMap::new();
    let mut put = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|v| !v.is_empty()) {
            facts.insert(name.to_owned(), value);
        }
    };
    let cpuinfo = read("proc/cpuinfo").unwrap_or_default();
    let meminfo = read("proc/meminfo").unwrap_or_default();
    put("kernel", read("proc/sys/kernel/osrelease"));
    // x86 names the model; several ARM kernels only give `Hardware` or nothing.
    put("cpu_model", field(&cpuinfo, "model name").or_else(|| field(&cpuinfo, "Hardware")));
    let cores = cpuinfo.lines().filter(|l| key_of(l) == Some("processor")).count();
    put("cores", (cores > 0).then(|| cores.to_string()));
    put("memory_bytes", field(&meminfo, "MemTotal").and_then(|text| kib(&text)));
    put("governor", read("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"));
    put("clocksource", read("sys/devices/system/clocksource/clocksource0/current_clocksource"));
    let virtual_cpu =
        field(&cpuinfo, "flags").is_some_and(|f| f.split_whitespace().any(|w| w == "hypervisor"));
    put("hypervisor", virtual_cpu.then(|| read("sys/class/dmi/id/sys_vendor").unwrap_or("yes".to_owned())));
    put("cgroup_cpu_limit", cpu_limit(&read).map(|cores| format!("{cores:.2}")));
    put("cgroup_memory_bytes", memory_limit(&read));
    put("loadavg", read("proc/loadavg").map(|l| l.split_whitespace().take(3).collect::<Vec<_>>().join(" ")));
    let docker = root.join(".dockerenv").exists().then(|| "docker".to_owned());
    let podman = || root.join("run/.containerenv").exists().then(|| "podman".to_owned());
    let init = || read("proc/1/cgroup").as_deref().and_then(container_of);
    put("container", docker.or_else(podman).or_else(init));
    facts
}

fn key_of(line: &str) -> Option<&str> {
    line.split_once(':').map(|(key, _)| key.trim())
}

/// The first `name : value` of a file of `/proc`.
fn field(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find(|line| key_of(line) == Some(name))?;
    line.split_once(':').map(|(_, value)| value.trim().to_owned())
}

/// `16384256 kB` in bytes.
fn kib(text: &str) -> Option<String> {
    let number: u64 = text.split_whitespace().next()?.parse().ok()?;
    Some(number.checked_mul(1024)?.to_string())
}

/// The tightest CPU limit on the way from this process's cgroup to the root, in cores.
fn cpu_limit(read: &impl Fn(&str) -> Option<String>) -> Option<f64> {
    let v2 = own_cgroups(read).into_iter().filter_map(|folder| {
        let text = read(&format!("{folder}/cpu.max"))?;
        let (quota, period) = text.split_once(' ')?;
        ratio(quota, period)
    });
    let v1 = ["sys/fs/cgroup/cpu", "sys/fs/cgroup/cpu,cpuacct"].into_iter().filter_map(|folder| {
        ratio(&read(&format!("{folder}/cpu.cfs_quota_us"))?, &read(&format!("{folder}/cpu.cfs_period_us"))?)
    });
    v2.chain(v1).min_by(f64::total_cmp)
}

/// `max` and `-1` are no limit.
fn ratio(quota: &str, period: &str) -> Option<f64> {
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (quota > 0.0 && period > 0.0).then_some(quota / period)
}

fn memory_limit(read: &impl Fn(&str) -> Option<String>) -> Option<String> {
    let limits = own_cgroups(read).into_iter().filter_map(|f| read(&format!("{f}/memory.max"))?.parse().ok());
    limits.min().map(|bytes: u64| bytes.to_string())
}

/// Folders of the unified hierarchy that hold this process, innermost first.
fn own_cgroups(read: &impl Fn(&str) -> Option<String>) -> Vec<String> {
    let text = read("proc/self/cgroup").unwrap_or_default();
    let own = text.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/").to_owned();
    // Inside a container the path can point above the mounted root: such parts are not there.
    let own = own.trim_matches('/').to_owned();
    let parts: Vec<&str> = own.split('/').filter(|part| !part.is_empty() && *part != "..").collect();
    (0..=parts.len())
        .rev()
        .map(|n| format!("sys/fs/cgroup/{}", parts[..n].join("/")).trim_end_matches('/').to_owned())
        .collect()
}

/// What the first process's cgroup says of a container.
fn container_of(cgroup: &str) -> Option<String> {
    ["kubepods", "docker", "containerd", "libpod", "lxc"]
        .into_iter()
        .find(|word| cgroup.contains(word))
        .map(|word| if word == "kubepods" { "kubernetes" } else { word }.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn machine(files: &[(&str, &str)]) -> BTreeMap<String, String> {
        facts_below(laid_out(files).path())
    }

    fn laid_out(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        dir
    }

    #[test]
    fn a_linux_machine_in_a_limited_container() {
        let facts = machine(&[
            ("proc/sys/kernel/osrelease", "6.18.1-generic\n"),
            (
                "proc/cpuinfo",
                "processor\t: 0\nmodel name\t: AMD EPYC 9B45\nflags\t\t: fpu hypervisor avx\n\nprocessor\t: 1\n",
            ),
            ("proc/meminfo", "MemTotal:       16384256 kB\nMemFree: 1 kB\n"),
            ("proc/loadavg", "2.50 1.25 0.75 3/400 1234\n"),
            ("proc/self/cgroup", "0::/a.slice/b\n"),
            ("sys/fs/cgroup/cpu.max", "400000 100000\n"),
            ("sys/fs/cgroup/a.slice/cpu.max", "150000 100000\n"),
            ("sys/fs/cgroup/a.slice/b/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/a.slice/memory.max", "1073741824\n"),
            ("sys/fs/cgroup/memory.max", "max\n"),
            (".dockerenv", ""),
        ]);
        for (name, value) in [
            ("kernel", "6.18.1-generic"),
            ("cpu_model", "AMD EPYC 9B45"),
            ("cores", "2"),
            ("memory_bytes", "16777478144"),
            ("loadavg", "2.50 1.25 0.75"),
            ("cgroup_cpu_limit", "1.50"),
            ("cgroup_memory_bytes", "1073741824"),
            ("container", "docker"),
            ("hypervisor", "yes"),
        ] {
            assert_eq!(facts.get(name).map(String::as_str), Some(value), "{name}");
        }
        assert!(!facts.contains_key("governor"));
    }

    #[test]
    fn room_is_what_the_tightest_limit_leaves() {
        let files = [
            ("proc/meminfo", "MemTotal: 16384256 kB\nMemAvailable:    2048 kB\n"),
            ("proc/self/cgroup", "0::/a\n"),
            ("sys/fs/cgroup/cpu.max", "150000 100000\n"),
            ("sys/fs/cgroup/a/memory.max", "1000000\n"),
            ("sys/fs/cgroup/a/memory.current", "700000\n"),
            ("sys/fs/cgroup/a/memory.stat", "anon 5\ninactive_file 100000\n"),
            ("sys/fs/cgroup/memory.max", "max\n"),
        ];
        let room = |files: &[(&str, &str)]| room_below(laid_out(files).path());
        assert_eq!(room(&files), Room { cores: Some(1.5), memory_bytes: Some(400_000) });
        assert_eq!(room(&files[..1]), Room { cores: None, memory_bytes: Some(2_097_152) });
        assert_eq!(room(&[]), Room::default());
        assert!(super::room().cores.is_none_or(|cores| cores > 0.0));
    }

    #[test]
    fn nothing_there_gives_nothing_and_garbage_does_not_panic() {
        assert!(machine(&[]).is_empty());
        let facts = machine(&[
            ("proc/cpuinfo", "::\n:\nflags"),
            ("proc/meminfo", "MemTotal: 99999999999999999999 kB"),
            ("proc/self/cgroup", "0::/../../x"),
            ("sys/fs/cgroup/cpu.max", "1"),
            ("proc/loadavg", ""),
        ]);
        assert!(facts.is_empty(), "{facts:?}");
        assert_eq!(ratio("-1", "100000"), None);
        assert_eq!(ratio("50000", "100000"), Some(0.5));
    }

    #[test]
    fn this_machine_answers() {
        let facts = facts();
        assert!(facts.contains_key("os") && facts.contains_key("arch"));
    }
}
