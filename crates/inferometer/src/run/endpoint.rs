//! One measurement at a time: the runs of this machine that measure an endpoint know of each other.
//!
//! Each run keeps a file below a folder of the endpoint and holds a lock on it. The kernel gives a lock back
//! when its process ends, however it ends, so what a dead run left behind never stands in the way.

use std::collections::BTreeSet;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, anyhow};
use spec::{Spec, Target};
use wire::Endpoint;

use crate::cli::IfBusy;
use crate::failure::Failure;
use crate::printer::Printer;

/// A run that waits for another one looks this often.
const LOOK: Duration = Duration::from_millis(200);
/// Who takes a lock file's place or looks who is there holds this lock; never for long.
const DOOR: &str = "door";
const DOOR_LOOK: Duration = Duration::from_millis(10);
const DOOR_TRIES: u32 = 200;

/// This run's places at the endpoint, given up when it is dropped.
pub struct Claim {
    places: Vec<Place>,
}

/// A file of this run, locked.
struct Place {
    path: PathBuf,
    file: File,
}

impl Claim {
    /// Takes the endpoints of the targets: their addresses, or the Unix socket that leads there. A simulated
    /// target is an engine of its own and needs none.
    ///
    /// # Errors
    /// Another run of this machine measures the endpoint, and that is neither to be waited for nor allowed.
    pub fn take(spec: &Spec, busy: IfBusy, printer: &Printer, stop: &AtomicBool) -> Result<Self> {
        let mut names = BTreeSet::new();
        for target in spec.target.iter() {
            let Target::Http(url) = target else { continue };
            if let Some(path) = &spec.client.unix {
                names.insert(path.canonicalize().as_ref().unwrap_or(path).display().to_string());
            } else if let Ok(Some(endpoint)) = Endpoint::resolve_until(url, stop) {
                names.extend(endpoint.addresses.iter().map(ToString::to_string));
            }
            // An address that cannot be resolved is told by whoever speaks to it.
        }
        if names.is_empty() {
            return Ok(Self { places: Vec::new() });
        }
        let root = match root() {
            Ok(root) => root,
            Err(error) => {
                printer.warn(&format!(
                    "whether another run measures {} is not known: the folder of locks cannot be used: {error}",
                    spec.target
                ));
                return Ok(Self { places: Vec::new() });
            }
        };
        Self::take_below(&root, &names, busy, printer, stop)
    }

    fn take_below(
        root: &Path,
        names: &BTreeSet<String>,
        busy: IfBusy,
        printer: &Printer,
        stop: &AtomicBool,
    ) -> Result<Self> {
        let mut claim = Self { places: Vec::new() };
        // In the order of their names: two runs never wait for each other.
        for name in names {
            let folder = root.join(file_name(name));
            let mut told = false;
            let place = loop {
                let others = match enter(&folder, busy == IfBusy::Share) {
                    Ok(Entered::Place(place)) => break Some(place),
                    Ok(Entered::Busy(others)) => others,
                    Err(error) => {
                        printer.warn(&format!(
                            "whether another run measures {name} is not known: {}: {error}",
                            folder.display()
                        ));
                        break None;
                    }
                };
                if busy == IfBusy::Refuse {
                    return Err(Failure::request(refusal(name, &others)).into());
                }
                if !std::mem::replace(&mut told, true) {
                    printer.say(&format!("waiting for the end of another run on {name}: {}", list(&others)));
                }
                if stop.load(Ordering::Relaxed) {
                    return Err(Failure::request(anyhow!("stopped while waiting for another run")).into());
                }
                std::thread::sleep(LOOK);
            };
            claim.places.extend(place);
        }
        Ok(claim)
    }

    /// Tells the others where this run's records go.
    pub fn name(&mut self, run: &Path) {
        let run = std::path::absolute(run).unwrap_or_else(|_| run.to_owned());
        for place in &mut self.places {
            // A name is a help, no more.
            let _ = place.introduce(&format!("process {}, {}", std::process::id(), run.display()));
        }
    }

    /// The runs that measured the same endpoint at any time since this one began, as far as they are known.
    pub fn others(&mut self) -> Vec<String> {
        let mut all = BTreeSet::new();
        for place in &mut self.places {
            let text = place.text().unwrap_or_default();
            all.extend(text.lines().filter_map(|line| line.strip_prefix(MET)).map(str::to_owned));
        }
        all.into_iter().collect()
    }
}

/// Begins the lines of a file that name a run which was met.
const MET: &str = "met ";

impl Place {
    fn text(&mut self) -> io::Result<String> {
        let mut text = String::new();
        self.file.rewind()?;
        self.file.read_to_string(&mut text)?;
        Ok(text)
    }

    /// Writes the first line: who this is. What others have added stays, and hears the new name.
    fn introduce(&mut self, who: &str) -> io::Result<()> {
        let _door = door(self.path.parent().unwrap_or(Path::new(".")))?;
        let before = self.text()?;
        let (old, met) = before.split_once('\n').unwrap_or((&before, ""));
        for (other, _) in runs(self.path.parent().unwrap_or(Path::new(".")), &self.path)? {
            if let Ok(text) = std::fs::read_to_string(&other) {
                let line = format!("{MET}{old}");
                let renamed: String = text
                    .lines()
                    .map(|l| if l == line { format!("{MET}{who}\n") } else { format!("{l}\n") })
                    .collect();
                if renamed != text {
                    std::fs::write(&other, renamed)?;
                }
            }
        }
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.file.write_all(format!("{who}\n{met}").as_bytes())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // A file that stays is nobody's: its lock is gone.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// What entering a folder led to.
enum Entered {
    /// This run has a place.
    Place(Place),
    /// Others are there.
    Busy(Vec<String>),
}

/// Takes a place in the folder of an endpoint, unless others are there and it is not to be shared.
fn enter(folder: &Path, share: bool) -> io::Result<Entered> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let _door = door(folder)?;
    let own = folder.join(format!("{}.run", std::process::id()));
    let others = runs(folder, &own)?;
    if !others.is_empty() && !share {
        return Ok(Entered::Busy(others.into_iter().map(|(_, who)| who).collect()));
    }
    let mut file =
        OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(0o600).open(&own)?;
    file.try_lock().map_err(io::Error::from)?;
    let who = format!("process {}", std::process::id());
    file.write_all(format!("{who}\n").as_bytes())?;
    for (path, other) in others {
        file.write_all(format!("{MET}{other}\n").as_bytes())?;
        OpenOptions::new().append(true).open(path)?.write_all(format!("{MET}{who}\n").as_bytes())?;
    }
    Ok(Entered::Place(Place { path: own, file }))
}

/// The runs in a folder but this one, with their first lines. What no process holds is cleared away.
fn runs(folder: &Path, own: &Path) -> io::Result<Vec<(PathBuf, String)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path == own || path.extension().is_none_or(|e| e != "run") {
            continue;
        }
        let Ok(mut file) = OpenOptions::new().read(true).write(true).open(&path) else { continue };
        match file.try_lock() {
            Ok(()) => drop(std::fs::remove_file(&path)),
            Err(_) => {
                let mut text = String::new();
                file.read_to_string(&mut text)?;
                found.push((path, text.lines().next().unwrap_or_default().to_owned()));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// One at a time looks and enters.
fn door(folder: &Path) -> io::Result<File> {
    let door =
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(folder.join(DOOR))?;
    for _ in 0..DOOR_TRIES {
        match door.try_lock() {
            Ok(()) => return Ok(door),
            Err(std::fs::TryLockError::WouldBlock) => std::thread::sleep(DOOR_LOOK),
            Err(std::fs::TryLockError::Error(error)) => return Err(error),
        }
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, "another run holds its lock and does not go on"))
}

/// Where locks lie: the user's folder of running things, or one of this user below `/tmp`.
fn root() -> io::Result<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let root = match runtime.filter(|dir| dir.is_absolute() && dir.is_dir()) {
        Some(dir) => dir.join("inferometer"),
        None => match std::fs::metadata("/proc/self") {
            Ok(own) => PathBuf::from(format!("/tmp/inferometer-{}", own.uid())),
            Err(_) => std::env::temp_dir().join("inferometer"),
        },
    };
    DirBuilder::new().recursive(true).mode(0o700).create(&root)?;
    // In a folder that everybody may write, the name may be somebody else's, or lead elsewhere.
    let found = std::fs::symlink_metadata(&root)?;
    let own = std::fs::metadata("/proc/self").map_or(found.uid(), |own| own.uid());
    if !found.is_dir() || found.uid() != own {
        return Err(io::Error::other(format!("{} is not this user's folder", root.display())));
    }
    Ok(root)
}

/// An address as the name of a folder.
fn file_name(address: &str) -> String {
    address.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '_' }).collect()
}

fn list(others: &[String]) -> String {
    others.join("; ")
}

fn refusal(name: &str, others: &[String]) -> anyhow::Error {
    let pid =
        others.first().and_then(|o| o.strip_prefix("process ")).map(|o| o.split(',').next().unwrap_or(o));
    let end = pid.map_or_else(String::new, |pid| format!(", or end it: kill -INT {pid}"));
    anyhow!(
        "another run on this machine measures {name}: {}. Two at a time would measure each other\n\
         hint: wait for its end with --if-busy wait{end}\n\
         hint: --if-busy share measures all the same; the check `foreign` then fails",
        list(others)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printer() -> Printer {
        Printer::new(&crate::cli::Screen {
            color: crate::cli::Color::Never,
            ascii: false,
            progress: crate::cli::Progress::Off,
            live: false,
            quiet: true,
        })
    }

    /// Another process's run: a file that is held through another open file.
    fn other(folder: &Path, who: &str) -> File {
        std::fs::create_dir_all(folder).unwrap();
        let mut file = File::create(folder.join(format!("{}.run", who.len()))).unwrap();
        file.write_all(format!("{who}\n").as_bytes()).unwrap();
        file.lock().unwrap();
        file
    }

    fn take(root: &Path, busy: IfBusy) -> Result<Claim> {
        let names = BTreeSet::from(["127.0.0.1:8000".to_owned(), "[::1]:8000".to_owned()]);
        Claim::take_below(root, &names, busy, &printer(), &AtomicBool::new(false))
    }

    #[test]
    fn a_second_run_is_refused_with_pid_folder_and_a_way_on() {
        let root = tempfile::tempdir().unwrap();
        let held = other(&root.path().join("127.0.0.1_8000"), "process 77, /runs/a");
        let error = take(root.path(), IfBusy::Refuse).err().unwrap();
        assert_eq!(Failure::code_of(&error), 2);
        let text = error.to_string();
        for part in
            ["127.0.0.1:8000", "process 77, /runs/a", "--if-busy wait", "kill -INT 77", "--if-busy share"]
        {
            assert!(text.contains(part), "{text}");
        }
        drop(held);
        let mut free = take(root.path(), IfBusy::Refuse).unwrap();
        assert!(free.others().is_empty());
        assert_eq!(free.places.len(), 2);
    }

    #[test]
    fn what_a_dead_process_left_never_blocks_and_is_cleared() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("127.0.0.1_8000");
        drop(other(&folder, "process 1, /runs/dead"));
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
        let claim = take(root.path(), IfBusy::Refuse).unwrap();
        assert!(!folder.join(format!("{}.run", "process 1, /runs/dead".len())).exists());
        let own = claim.places[0].path.clone();
        assert!(own.exists());
        drop(claim);
        assert!(!own.exists());
    }

    #[test]
    fn runs_that_share_know_of_each_other() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("127.0.0.1_8000");
        let held = other(&folder, "process 77, /runs/a");
        let mut claim = take(root.path(), IfBusy::Share).unwrap();
        claim.name(Path::new("/runs/b"));
        let mine = format!("process {}, /runs/b", std::process::id());
        assert_eq!(claim.others(), ["process 77, /runs/a"]);
        let theirs = std::fs::read_to_string(folder.join("19.run")).unwrap();
        assert_eq!(theirs, format!("process 77, /runs/a\nmet {mine}\n"));
        // It was met, also when it has ended since.
        drop(held);
        assert_eq!(claim.others(), ["process 77, /runs/a"]);
    }

    #[test]
    fn waiting_ends_with_the_other_run_or_with_the_flag() {
        let root = tempfile::tempdir().unwrap();
        let held = other(&root.path().join("127.0.0.1_8000"), "process 77");
        let names = BTreeSet::from(["127.0.0.1:8000".to_owned()]);
        let stop = AtomicBool::new(true);
        assert!(Claim::take_below(root.path(), &names, IfBusy::Wait, &printer(), &stop).is_err());
        let waiting = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| take(root.path(), IfBusy::Wait).is_ok());
            std::thread::sleep(Duration::from_millis(50));
            drop(held);
            waiting.join().unwrap()
        });
        assert!(waiting);
    }
}
