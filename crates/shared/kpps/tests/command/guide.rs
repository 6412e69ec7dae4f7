//! The README and the guide (`docs/`): their commands work, their flags exist, their links and paths lead
//! somewhere.
//!
//! Each fenced block of shell says what becomes of it here:
//!
//! - ` ```sh test ` is run. The blocks of a page are one script, in a folder and a network namespace of its
//!   own, with the built `kpps` on the path. Every command must succeed; a trial
//!   may be invalid, because the machine is busy.
//! - ` ```sh skip: REASON ` cannot run here; its flags are checked against `--help` like those of all others.
//! - ` ```text expect ` after a tested block: these lines must be in its output, `…` stands for anything.
//!
//! Making network namespaces takes root; pages that need one are skipped without.

use kpps_namespaces::{Net, skip};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Seconds that the blocks of a page may take together.
const PATIENCE_S: &str = "300";
/// How often a page that measures is tried, at most: a search may find nothing where programs get no CPU.
const TRIES: usize = 3;
/// The words that a reason to skip a block may begin with.
const REASONS: [&str; 5] = ["builds ", "needs ", "takes ", "boots ", "runs until "];

/// The top folder of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").canonicalize().unwrap()
}

/// A file of Markdown.
struct Page {
    /// Its path below [`root`].
    name: String,
    text: String,
}

/// A fenced block of code.
struct Block {
    /// The number of its first line, from 1.
    line: usize,
    /// The text behind the opening fence.
    info: String,
    text: String,
}

impl Page {
    fn read(name: &str) -> Self {
        let text = fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        Self { name: name.into(), text }
    }

    fn blocks(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut open: Option<Block> = None;
        for (number, line) in (1..).zip(self.text.lines()) {
            match (&mut open, line.strip_prefix("```")) {
                (Some(_), Some("")) => blocks.extend(open.take()),
                (Some(block), _) => _ = writeln!(block.text, "{line}"),
                (None, Some(info)) => {
                    open = Some(Block { line: number + 1, info: info.into(), text: String::new() });
                }
                (None, None) => {}
            }
        }
        assert!(open.is_none(), "{}: a block is not closed", self.name);
        blocks
    }

    /// The text without blocks of code.
    fn prose(&self) -> String {
        let mut inside = false;
        let lines = self.text.lines().filter(|line| {
            let fence = line.starts_with("```");
            inside ^= fence;
            !inside && !fence
        });
        lines.flat_map(|line| [line, "\n"]).collect()
    }

    /// The anchors of its headings.
    fn anchors(&self) -> BTreeSet<String> {
        let heading = |line: &str| Some(line.strip_prefix('#')?.trim_start_matches('#').trim().to_owned());
        let anchor = |heading: String| {
            let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            kept.collect::<String>().to_lowercase().replace(' ', "-")
        };
        self.prose().lines().filter_map(heading).map(anchor).collect()
    }
}

impl Block {
    fn is_shell(&self) -> bool {
        ["sh", "bash", "shell", "console"].iter().any(|word| self.info.split([' ', ',']).next() == Some(word))
    }
    fn is_tested(&self) -> bool {
        self.info == "sh test"
    }
    fn reason_to_skip(&self) -> Option<&str> {
        self.info.strip_prefix("sh skip: ")
    }
    fn is_expected(&self) -> bool {
        self.info == "text expect"
    }
    /// Its commands, without comments, with continued lines joined.
    fn commands(&self) -> Vec<String> {
        let text = self.text.replace("\\\n", " ").replace("&&", "\n").replace(" | ", "\n");
        let without_comment = |line: &str| line.split(" #").next().unwrap_or(line).trim().to_owned();
        text.lines().map(without_comment).filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
    }
}

/// The files of the guide, by the names that `SUMMARY.md` gives them.
fn guide() -> Vec<Page> {
    let summary = Page::read("docs/src/SUMMARY.md");
    links(&summary.text).into_iter().map(|link| Page::read(&format!("docs/src/{link}"))).collect()
}

/// All pages whose commands are checked.
fn pages() -> Vec<Page> {
    let others = ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"].map(Page::read);
    others.into_iter().chain(guide()).collect()
}

/// The targets of links in a text.
fn links(text: &str) -> Vec<&str> {
    text.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect()
}

/// The output of `kpps` with these words.
fn kpps(words: &[&str]) -> Option<String> {
    let output = Command::new(assert_cmd::cargo::cargo_bin("kpps")).args(words).output().unwrap();
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
}

#[test]
fn every_block_of_shell_is_run_or_says_why_not() {
    let (mut tested, mut skipped) = (0, BTreeMap::<String, u32>::new());
    for page in pages() {
        let mut after_tested = false;
        for block in page.blocks() {
            let place = format!("{}:{}", page.name, block.line);
            match block.reason_to_skip() {
                Some(why) => {
                    assert!(REASONS.iter().any(|reason| why.starts_with(reason)), "{place}: {why}");
                    *skipped.entry(why.to_owned()).or_default() += 1;
                }
                None if block.is_tested() => tested += 1,
                None => assert!(!block.is_shell(), "{place}: say `sh test` or `sh skip: REASON`"),
            }
            assert!(!block.is_expected() || after_tested, "{place}: expected of which command?");
            after_tested = block.is_tested();
        }
    }
    println!("{tested} blocks are run; not run: {skipped:?}");
    assert!(tested >= 30, "{tested}");
}

#[test]
fn every_flag_exists() {
    let mut helps = BTreeMap::<String, Option<String>>::new();
    let mut wrong = Vec::new();
    for page in pages() {
        for block in page.blocks().iter().filter(|block| block.is_shell()) {
            for command in block.commands() {
                // `kpps` may stand behind something else: `ip netns exec h1 kpps …`.
                let Some(at) = command.split_whitespace().position(|word| word == "kpps") else { continue };
                let words: Vec<_> = command.split_whitespace().skip(at + 1).collect();
                let [name, rest @ ..] = &words[..] else { continue };
                if name.starts_with('-') {
                    continue;
                }
                let help = helps.entry((*name).into()).or_insert_with(|| kpps(&[name, "--help"])).as_deref();
                let Some(help) = help else {
                    wrong.push(format!("{}:{}: there is no command {name}", page.name, block.line));
                    continue;
                };
                let known: BTreeSet<_> = help.split(|c: char| !(c.is_alphanumeric() || c == '-')).collect();
                for flag in rest.iter().filter(|word| word.starts_with("--")) {
                    let flag = flag.split('=').next().unwrap();
                    // Flags of a subcommand are in its own help.
                    let below = || kpps(&[name, rest[0], "--help"]).is_some_and(|help| help.contains(flag));
                    if !known.contains(flag) && !below() {
                        wrong.push(format!("{}:{}: kpps {name} has no {flag}", page.name, block.line));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Runs the tested blocks of a page. Returns what went wrong.
fn run(page: &Page, net: Option<&Net>) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    for shared in ["profiles", "studies", "schema"] {
        std::os::unix::fs::symlink(root().join(shared), folder.path().join(shared)).unwrap();
    }
    let blocks = page.blocks();
    let mut script = String::from("set -e -o pipefail\nexec 2>&1\n");
    // On a busy machine programs take longer to start: the sum of three times.
    script += "sleep() { command sleep $1 $1 $1; }\n";
    if net.is_some() {
        // Namespaces that the page makes have names of their own.
        script += "mount -t tmpfs none /run/netns\nip link set lo up\n";
    }
    for block in blocks.iter().filter(|block| block.is_tested()) {
        let _ = writeln!(script, "echo '@@ {}'\n{}", block.line, block.text);
    }
    script += "echo '@@ end'\n";
    fs::write(folder.path().join("page.sh"), script).unwrap();
    let built = assert_cmd::cargo::cargo_bin("kpps");
    // On a busy machine a trial may be no valid measurement, which is exit code 3.
    let kpps = format!(
        "#!/bin/sh\n[ \"$1\" = trial ] || exec {0} \"$@\"\n{0} \"$@\"\ncode=$?\n[ $code = 3 ] || exit $code\n",
        built.display()
    );
    let programs = folder.path().join(".programs");
    fs::create_dir(&programs).unwrap();
    fs::write(programs.join("kpps"), kpps).unwrap();
    fs::set_permissions(programs.join("kpps"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let mut command = match net {
        Some(net) => net.command("timeout"),
        None => Command::new("timeout"),
    };
    let output = command
        .args(["-k", "5", PATIENCE_S, "bash", "page.sh"])
        .current_dir(&folder)
        .env("PATH", path)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let parts: BTreeMap<&str, &str> =
        text.split("@@ ").skip(1).filter_map(|part| part.split_once('\n')).collect();
    if !output.status.success() || !parts.contains_key("end") {
        let last = text.rsplit("@@ ").next().unwrap_or_default();
        return Err(format!("{}: {}: line {last}", page.name, output.status));
    }
    for pair in blocks.windows(2).filter(|pair| pair[1].is_expected()) {
        let printed = parts[&*pair[0].line.to_string()];
        for line in pair[1].text.lines().filter(|line| !line.trim().is_empty()) {
            if !printed.lines().any(|candidate| matches(line, candidate)) {
                return Err(format!("{}:{}: no '{line}' in\n{printed}", page.name, pair[1].line));
            }
        }
    }
    Ok(())
}

/// Whether a line is as expected, where `…` stands for anything.
fn matches(expected: &str, line: &str) -> bool {
    let mut rest = line.trim();
    let parts: Vec<_> = expected.trim().split('…').collect();
    for (index, part) in parts.iter().enumerate() {
        match rest.find(part) {
            Some(at) if at == 0 || index > 0 => rest = &rest[at + part.len()..],
            _ => return false,
        }
    }
    rest.is_empty() || parts.last() == Some(&"")
}

/// Whether a program is installed.
fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap();
    std::env::split_paths(&path).any(|folder| folder.join(program).exists())
}

/// Runs the pages whose commands make interfaces, or those whose commands do not, all at the same time: they
/// mostly wait.
fn run_pages(with_interfaces: bool) {
    let tested = |page: &Page| -> String {
        page.blocks().iter().filter(|it| it.is_tested()).map(|it| &*it.text).collect()
    };
    let makes_interfaces = |text: &str| text.contains("ip link") || text.contains("ip netns");
    let mut pages = pages();
    pages.retain(|page| {
        let text = tested(page);
        !text.is_empty() && makes_interfaces(&text) == with_interfaces
    });
    if pages.iter().any(|page| tested(page).contains("exec nat nft")) && !has("nft") {
        skip::needs("nft");
        pages.retain(|page| !tested(page).contains("exec nat nft"));
    }
    let run = &|page: &Page| {
        let begin = std::time::Instant::now();
        let once = || {
            // Each time in another place.
            let net = with_interfaces.then(|| Net::new().expect("the right to make namespaces"));
            let problem = run(page, net.as_ref()).err();
            println!("{}: {:.1} s, {problem:?}", page.name, begin.elapsed().as_secs_f64());
            problem
        };
        let problem = once();
        let again = 1..if with_interfaces { TRIES } else { 1 };
        again.fold(problem, |problem, _| problem.and_then(|_| once()))
    };
    let problems: Vec<String> = std::thread::scope(|scope| {
        let pages: Vec<_> = pages.iter().map(|page| scope.spawn(move || run(page))).collect();
        pages.into_iter().filter_map(|page| page.join().unwrap()).collect()
    });
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
}

#[test]
fn commands_that_simulate_work() {
    run_pages(false);
}

#[test]
fn commands_that_measure_work() {
    let Some(_) = Net::new() else { return };
    run_pages(true);
}

#[test]
fn links_and_paths_lead_somewhere() {
    let mut wrong = Vec::new();
    for page in pages() {
        let file = root().join(&page.name);
        for link in links(&page.prose()).into_iter().filter(|link| !link.contains("://")) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { file.clone() } else { file.parent().unwrap().join(path) };
            if !target.exists() {
                wrong.push(format!("{}: no file {link}", page.name));
            } else if !anchor.is_empty() {
                let name = target.canonicalize().unwrap();
                let name = name.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
                if !Page::read(&name).anchors().contains(anchor) {
                    wrong.push(format!("{}: no heading {link}", page.name));
                }
            }
        }
        for path in page.text.split("{{#include ").skip(1).filter_map(|rest| rest.split("}}").next()) {
            if !file.parent().unwrap().join(path.split(':').next().unwrap()).exists() {
                wrong.push(format!("{}: nothing to include at {path}", page.name));
            }
        }
        // Paths in backquotes that begin with a folder of the repository; the map's begin below `crates`.
        for word in page.prose().split('`').skip(1).step_by(2) {
            let folder = word.split('/').next().unwrap();
            let known = ["crates", "profiles", "studies", "schema", "docs", "tests", "fuzz", "lab"];
            let is_path = word.contains('/') && known.contains(&folder) && !word.contains([' ', '*', '{']);
            if is_path && !root().join(word).exists() && !root().join("crates").join(word).exists() {
                wrong.push(format!("{}: no {word}", page.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_guide_has_every_page() {
    let listed: BTreeSet<String> = guide().into_iter().map(|page| page.name).collect();
    let folder = fs::read_dir(root().join("docs/src")).unwrap();
    let there: BTreeSet<String> = folder
        .map(|entry| format!("docs/src/{}", entry.unwrap().file_name().to_str().unwrap()))
        .filter(|name| name.ends_with(".md") && !name.ends_with("SUMMARY.md"))
        .collect();
    assert_eq!(listed, there);
}

/// The folders of all crates, each in that of its product.
pub fn crates() -> Vec<PathBuf> {
    let folders = |path: PathBuf| fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    folders(root().join("crates")).flat_map(folders).collect()
}

/// The crates of this project among the dependencies in a manifest, those for tests left out.
fn dependencies(manifest: &toml::Table) -> BTreeSet<String> {
    let targets = manifest.get("target").and_then(|it| it.as_table()).into_iter().flat_map(|it| it.values());
    let tables = targets.filter_map(|it| it.get("dependencies")).chain(manifest.get("dependencies"));
    let names = tables.filter_map(|it| it.as_table()).flat_map(|it| it.keys());
    names.filter_map(|name| name.strip_prefix("kpps-")).map(ToOwned::to_owned).collect()
}

#[test]
fn the_map_has_every_crate_below_those_that_it_uses() {
    let map = Page::read("ARCHITECTURE.md");
    let rows = map.text.lines().skip_while(|line| *line != "## The map").skip(1);
    let rows = rows.take_while(|line| !line.starts_with("## "));
    let firsts = rows.filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    // The rows of products have no crate.
    let paths: Vec<&str> = firsts.filter(|path| path.contains('/')).collect();
    let there: BTreeSet<PathBuf> = crates().into_iter().collect();
    assert_eq!(paths.iter().map(|path| root().join("crates").join(path)).collect::<BTreeSet<_>>(), there);
    assert_eq!(paths.len(), there.len(), "each once");
    let order: Vec<&str> = paths.iter().filter_map(|path| path.split('/').nth(1)).collect();
    for (at, path) in paths.iter().enumerate() {
        let manifest = fs::read_to_string(root().join("crates").join(path).join("Cargo.toml")).unwrap();
        for used in dependencies(&manifest.parse().unwrap()) {
            assert!(order[..at].contains(&&*used), "{path} uses {used}, which is not above it");
        }
    }
}

/// The curve of the README, and the table of `make run` among the figures, are those of this build. They
/// compare drivers on a kernel that each of them existed for.
#[test]
fn the_published_curve_is_todays() {
    let run = Command::new(assert_cmd::cargo::cargo_bin("kpps")).arg("curve").output().unwrap();
    let screen = String::from_utf8(run.stdout).unwrap();
    let in_one_space = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let figures = fs::read_to_string(root().join("docs/src/figures.md")).unwrap();
    let readme = in_one_space(&fs::read_to_string(root().join("README.md")).unwrap());
    let peaks: Vec<_> = screen.lines().filter(|line| line.contains(" peak ")).map(in_one_space).collect();
    assert_eq!(peaks.len(), 4, "{screen}");
    assert!(!screen.contains("it runs only in this simulator"), "{screen}");
    let mut at_line_rate = BTreeMap::new();
    for peak in &peaks {
        let words: Vec<_> = peak.split(' ').collect();
        // ▲ NAME peak 659 at 700, 659 at line rate
        let [_, name, _, most, _, _, last, ..] = words[..] else { panic!("{peak}") };
        let row = format!("| {name} | {most} | {last} |");
        assert!(figures.contains(&row), "docs/src/figures.md lacks {row}");
        let of_name = peak.split_once(' ').unwrap().1;
        // The best of the others is in the text below the picture.
        let is_drawn = readme.contains(of_name);
        assert!(is_drawn || name == "click-polling", "README.md lacks {of_name}");
        at_line_rate.insert(name, last);
    }
    let [ours, clicks] = ["kpps", "click-polling"].map(|name| at_line_rate[name]);
    for said in [
        format!("line rate, kpps | {ours} |"),
        format!("Click's polling driver {clicks},"),
        format!("2000 has no livelock either, and delivers {clicks} kpps:"),
    ] {
        assert!(readme.contains(&said), "README.md lacks '{said}'");
    }
}

/// The guide's figures of a null model of lab2026, calculated from the files of predicted and measured
/// values.
#[test]
fn a_hit_rate_stands_beside_that_of_the_null_model() {
    type Points = BTreeMap<[String; 4], [Option<f64>; 3]>;
    let points = |name: &str| -> Points {
        let text = fs::read_to_string(root().join("lab/lab2026").join(name)).unwrap();
        let rows = text.lines().filter(|line| !line.starts_with('#')).skip(1);
        rows.map(|row| {
            let cells: Vec<_> = row.split(',').collect();
            let key = [0, 1, 2, 3].map(|at| cells[at].to_owned());
            (key, [4, 5, 6].map(|at| cells[at].parse().ok()))
        })
        .collect()
    };
    let (predicted, measured) = (points("predicted-2026-11-26.csv"), points("measured-2026-11-26.csv"));
    let is_within = |says: Option<f64>, is: Option<f64>| {
        says.zip(is).is_some_and(|(says, is)| (says - is).abs() <= 0.15 * is)
    };
    let calibrates = |[_, setting, size, _]: &[String; 4]| {
        size == "64" && ["base", "weight=8"].contains(&setting.as_str())
    };
    let of_base = |[app, _, _, offered]: &[String; 4]| {
        measured[&[app.clone(), "base".into(), "64".into(), offered.clone()]]
    };
    let most = |app: &String| {
        let base = measured.iter().filter(|(key, _)| key[0] == *app && key[1] == "base" && key[2] == "64");
        base.filter_map(|(_, values)| values[0]).fold(0.0, f64::max)
    };
    let rest: Vec<_> = measured.iter().filter(|(key, _)| !calibrates(key)).collect();
    type Hit<'a> = &'a dyn Fn(&[String; 4], &[Option<f64>; 3]) -> bool;
    let count = |hit: Hit| rest.iter().filter(|(key, values)| hit(key, values)).count();
    let null_rate = |key: &[String; 4]| key[3].parse().map_or(0.0, |offered: f64| offered.min(most(&key[0])));
    assert_eq!(rest.len(), 540);
    assert_eq!(count(&|key, is| is_within(predicted[key][0], is[0])), 536);
    assert_eq!(count(&|key, is| is_within(Some(null_rate(key)), is[0])), 536);
    assert_eq!(count(&|key, is| is_within(predicted[key][2], is[2])), 495, "91.7 %");
    assert_eq!(count(&|key, is| is_within(predicted[key][1], is[1])), 452, "83.7 %");
    let small = |key: &[String; 4]| key[2] == "64";
    assert_eq!(count(&|key, _| small(key)), 390);
    assert_eq!(count(&|key, is| small(key) && is_within(of_base(key)[2], is[2])), 353, "90.5 %");
    assert_eq!(count(&|key, is| small(key) && is_within(of_base(key)[1], is[1])), 388, "99.5 %");
    let missed = |key: &[String; 4], is: &[Option<f64>; 3]| small(key) && !is_within(of_base(key)[2], is[2]);
    assert_eq!(count(&missed), 37);
    assert_eq!(count(&|key, is| missed(key, is) && is_within(predicted[key][2], is[2])), 33);
    let figures = fs::read_to_string(root().join("docs/src/figures.md")).unwrap();
    for said in [
        "| 99.3 %, median error 1.5 % | 99.3 %, median error 0.9 % |",
        "| 91.7 % | 90.5 % of 390 |",
        "the 37 that the null model misses | 33 | 0 |",
        "| 83.7 %; no point of 1,024 or 1,518 bytes | 99.5 % of 390 |",
    ] {
        assert!(figures.contains(said), "docs/src/figures.md lacks '{said}'");
    }
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    assert!(readme.contains("| 33 of 37 |"));
}

/// The table of a driver preset's entries has each entry that the command knows, and each word that it takes.
/// Its errors list them.
#[test]
fn the_table_of_entries_is_whole() {
    let page = Page::read("docs/src/machines.md");
    let table: String = page.text.lines().skip_while(|line| !line.starts_with("| entry | takes")).collect();
    let table = table.split("For one changed value").next().unwrap();
    let words: BTreeSet<&str> = table.split('`').skip(1).step_by(2).collect();
    // `moderation.itr` and `{ except-every = N }` are words of several parts.
    let parts: BTreeSet<&str> = words
        .iter()
        .flat_map(|word| word.split(|c: char| !(c.is_alphanumeric() || "_-".contains(c))))
        .collect();
    let listed = |preset: &str, set: &str| -> Vec<String> {
        let command = ["curve", "--machine", "ols2005", "--driver", preset, "--set", set];
        let run = Command::new(assert_cmd::cargo::cargo_bin("kpps")).args(command).output().unwrap();
        let error = String::from_utf8(run.stderr).unwrap();
        let line = error.lines().next().unwrap_or_default();
        let list = ["it may be ", " are "].iter().find_map(|before| Some(line.split_once(before)?.1));
        let list = list.unwrap_or_else(|| panic!("{set}: {error}"));
        list.split(", ").map(ToOwned::to_owned).collect()
    };
    let mut known = 0;
    for (preset, set) in [
        ("kpps", "driver.zz=1"),
        ("intel-5.7.6", "driver.service.napi.zz=1"),
        ("intel-5.7.6-interrupts", "driver.service.interrupt-loop.zz=1"),
        ("click-polling", "driver.service.polling.zz=1"),
        ("kpps", "driver.service.self-pacing.zz=1"),
        ("kpps", "driver.refill.zz=1"),
        ("kpps", "driver.completion.zz=1"),
        ("kpps", "driver.moderation.zz=1"),
        ("kpps", "driver.interrupts.zz=1"),
        ("kpps", "driver.service=zz"),
        ("intel-5.7.6", "driver.service.napi.exit=zz"),
        ("intel-5.7.6-interrupts", "driver.service.interrupt-loop.again=zz"),
        ("kpps", "driver.buffers=zz"),
        ("kpps", "driver.refill.when=zz"),
        ("kpps", "driver.completion.delay=zz"),
        ("kpps", "driver.rx_low=zz"),
        ("kpps", "driver.flow_control=zz"),
        ("kpps", "driver.rx_format=zz"),
        ("kpps", "driver.checksum_status=zz"),
        ("kpps", "driver.transmit_queue=zz"),
        ("kpps", "driver.transmit_tail=zz"),
    ] {
        for word in listed(preset, set) {
            assert!(parts.contains(word.as_str()), "docs/src/machines.md: the table lacks {word} ({set})");
            known += 1;
        }
    }
    assert!(known > 80, "{known}");
    for word in ["off", "dynamic", "conservative", "ratio", "fixed"] {
        assert!(parts.contains(word), "docs/src/machines.md: the table lacks {word}");
    }
}
