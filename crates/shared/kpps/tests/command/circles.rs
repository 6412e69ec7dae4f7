//! No file of a crate uses a file that uses the first, directly or through others. A module and its
//! submodules count as one file: their uses of each other do not count.

use super::guide::{crates, root};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A module by its path in the crate; the crate itself is empty.
type Module = Vec<String>;
/// The files of a crate by module.
type Files = BTreeMap<Module, String>;

/// Adds the files in `folder`, which is that of module `at`, each without comments and up to its tests.
fn read(folder: &Path, at: &Module, files: &mut Files) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let within = [&at[..], std::slice::from_ref(&name)].concat();
        if path.is_dir() {
            read(&path, &within, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") && name != "tests" {
            let is_folders_own = ["lib", "main", "mod"].contains(&&*name);
            let text = fs::read_to_string(&path).unwrap();
            let end = text.find("#[cfg(test)]\nmod tests").unwrap_or(text.len());
            let code = text[..end].lines();
            let code = code.filter_map(|line| line.split("//").next()).collect::<Vec<_>>().join("\n");
            files.insert(if is_folders_own { at.clone() } else { within }, code);
        }
    }
}

/// The paths of a tree of `use`, each with the name that it gets.
fn leaves(tree: &str) -> Vec<(Module, String)> {
    let Some((before, within)) = tree.split_once('{') else {
        let (path, name) = tree.split_once(" as ").unwrap_or((tree, ""));
        let mut path: Module = path.split("::").map(|part| part.trim().to_owned()).collect();
        if path.len() > 1 && path.ends_with(&["self".to_owned()]) {
            path.pop();
        }
        let name = if name.is_empty() { path[path.len() - 1].clone() } else { name.trim().to_owned() };
        return vec![(path, name)];
    };
    let (within, mut depth) = (&within[..within.rfind('}').unwrap()], 0);
    let parts = within.split(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    });
    let parts = parts.filter(|part| !part.trim().is_empty());
    parts.flat_map(|part| leaves(&format!("{before}{}", part.trim()))).collect()
}

/// The paths that a file names: those of `use`, and those of this crate in its code.
fn paths(code: &str) -> Vec<(Module, String)> {
    let visibility = ["", "pub ", "pub(crate) ", "pub(super) "];
    let mut found = Vec::new();
    for (at, line) in code.lines().map(|line| (line.as_ptr() as usize - code.as_ptr() as usize, line.trim()))
    {
        if visibility.iter().any(|it| line.starts_with(&format!("{it}use "))) {
            let tree = code[at..].split_once("use ").unwrap().1.split(';').next().unwrap();
            found.extend(leaves(&tree.split_whitespace().collect::<Vec<_>>().join(" ")));
        }
    }
    for start in ["crate::", "super::"] {
        for (at, _) in code.match_indices(start) {
            let path = code[at..].split(|c: char| !c.is_alphanumeric() && !"_:".contains(c)).next().unwrap();
            found.push((path.trim_end_matches(':').split("::").map(str::to_owned).collect(), String::new()));
        }
    }
    found
}

/// The module that a path in module `from` leads to, through what modules publish of others; `None` if it is
/// of another crate.
fn resolve(files: &Files, from: &Module, path: &[String], depth: u32) -> Option<Module> {
    let mut path = path.iter();
    let mut at: Module = match path.as_slice().first()?.as_str() {
        "crate" => Vec::new(),
        "self" | "super" => from.clone(),
        first => files.contains_key(&[&from[..], &[first.to_owned()]].concat()).then(|| from.clone())?,
    };
    while let Some(first) = path.as_slice().first().filter(|it| ["crate", "self", "super"].contains(&&***it))
    {
        if first == "super" {
            at.pop();
        }
        path.next();
    }
    for part in path {
        let within = [&at[..], std::slice::from_ref(part)].concat();
        if files.contains_key(&within) {
            at = within;
            continue;
        }
        let published = paths(files.get(&at).map_or("", String::as_str)).into_iter();
        let mut published = published.filter(|(_, name)| name == part && depth < 8);
        return published.find_map(|(path, _)| resolve(files, &at, &path, depth + 1)).or(Some(at));
    }
    Some(at)
}

/// The first circle of files, from a module back to itself.
fn circle(files: &Files) -> Option<Vec<String>> {
    let uses = |from: &Module| {
        let used = paths(&files[from]).into_iter().filter_map(|(path, _)| resolve(files, from, &path, 0));
        let used = used.filter(|to| !to.starts_with(from) && !from.starts_with(to));
        used.collect::<BTreeSet<Module>>()
    };
    let uses: BTreeMap<&Module, BTreeSet<Module>> = files.keys().map(|from| (from, uses(from))).collect();
    files.keys().find_map(|start| {
        let mut ways = vec![vec![start]];
        let mut seen = BTreeSet::new();
        while let Some(way) = ways.pop() {
            for next in &uses[way[way.len() - 1]] {
                if next == start {
                    return Some(way.iter().chain([&start]).map(|module| module.join("/")).collect());
                }
                if seen.insert(next) {
                    ways.push([&way[..], &[next]].concat());
                }
            }
        }
        None
    })
}

#[test]
fn no_files_of_a_crate_use_each_other() {
    for folder in crates().into_iter().chain(["python", "fuzz"].map(|name| root().join(name))) {
        let mut files = Files::new();
        read(&folder.join("src"), &Module::new(), &mut files);
        assert!(files.contains_key(&Module::new()), "{}: no files", folder.display());
        let circle = circle(&files).map(|way| way.join(" uses "));
        assert_eq!(circle, None, "{}", folder.display());
    }
}

#[test]
fn a_circle_is_found() {
    let circle = |files: &[(&str, &str)]| {
        let module =
            |path: &str| path.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        circle(&files.iter().map(|(path, code)| (module(path), (*code).to_owned())).collect())
    };
    let root = ("", "mod a;\nmod b;\nmod c;\npub use b::{B, d::D};");
    for (files, expected) in [
        (vec![("a", "use crate::b::B;"), ("b", "use super::a;")], Some("a b a")),
        // An item that the crate publishes belongs to the file that defines it.
        (vec![("a", "use crate::{B,\n    c};"), ("b", ""), ("c", "fn x() { crate::a::y() }")], Some("a c a")),
        (vec![("a", "use crate::D;"), ("b", "pub mod d;"), ("b/d", "use crate::a::x;")], Some("a b/d a")),
        (
            vec![("a", "use crate::b;"), ("b", "use crate::c;"), ("c", "use crate::{a::{self, x}};")],
            Some("a b c a"),
        ),
        (vec![("a", "use crate::b::B;"), ("b", "use std::a;\nuse super::c::C;"), ("c", "")], None),
        (vec![("b", "mod d;\nuse d::D;"), ("b/d", "use super::B;\nuse crate::B as C;")], None),
    ] {
        let all = [vec![root], files].concat();
        assert_eq!(circle(&all).map(|way| way.join(" ")).as_deref(), expected, "{all:?}");
    }
}
