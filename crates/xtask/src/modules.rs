//! The modules of a crate and who uses whom, read from the source.
//!
//! A hand-written reader of `mod`, of `use` trees and of inline paths that begin with `crate`, `super` or `self`. A
//! name is followed through re-exports to the module that defines it: whoever writes `crate::Hit` uses the module of
//! `Hit`, and not `lib.rs`. Modules that stand inside a file are part of that file. What only tests see is not read.
//!
//! It does not know types: a method that is called on a value is no use of the module that defines it, and what a
//! macro makes is what its text says.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use crate::{
    repository::File,
    rust_source::{RustSource, body_end, words},
};

/// Names from a crate's root to a module; the root itself has none.
pub(crate) type Path = Vec<String>;

/// One module uses another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Use {
    pub(crate) from: Path,
    pub(crate) to: Path,
    /// Where it says so.
    pub(crate) file: String,
    pub(crate) line: usize,
}

/// A crate's modules, each with a file of its own, and what they use of each other.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    /// Module and file.
    pub(crate) files: BTreeMap<Path, String>,
    pub(crate) uses: Vec<Use>,
}

/// Re-exports of re-exports that are followed; more is a circle of names.
const DEEPEST: usize = 16;

impl Modules {
    /// Reads the crate whose root file is `root`.
    pub(crate) fn read(root: &str, files: &[File]) -> Modules {
        let texts: BTreeMap<&str, &str> =
            files.iter().filter_map(|it| Some((it.path.as_str(), it.text.as_deref()?))).collect();
        let folder = root.rsplit_once('/').map_or("", |it| it.0);
        let mut reader = Reader { texts, scopes: BTreeMap::new() };
        reader.file(root, folder, &Path::new());
        let mut modules = Modules::default();
        for (path, scope) in &reader.scopes {
            if scope.of_file == *path {
                modules.files.insert(path.clone(), scope.file.clone());
            }
            for mention in &scope.mentions {
                let Some(to) = reader.resolve(path, &mention.names, DEEPEST) else { continue };
                let to = reader.scopes[&to].of_file.clone();
                if to != scope.of_file {
                    modules.uses.push(Use {
                        from: scope.of_file.clone(),
                        to,
                        file: scope.file.clone(),
                        line: mention.line,
                    });
                }
            }
        }
        modules
    }
}

/// What a path in the source says, and where.
#[derive(Debug)]
struct Mention {
    names: Vec<String>,
    line: usize,
}

/// A module, with or without a file of its own.
#[derive(Debug, Default)]
struct Scope {
    /// The module whose file this stands in.
    of_file: Path,
    file: String,
    /// Modules that are declared here.
    children: BTreeSet<String>,
    /// What else is declared here.
    defined: BTreeSet<String>,
    /// Names that are brought in, and from where.
    imports: BTreeMap<String, Vec<String>>,
    /// Modules that everything is brought in from.
    globs: Vec<Vec<String>>,
    mentions: Vec<Mention>,
}

/// A file, as it is read.
struct Text<'a> {
    file: &'a str,
    source: &'a RustSource,
    /// Its code without what only tests see.
    code: &'a str,
    /// The module whose file it is.
    module: &'a Path,
}

struct Reader<'a> {
    texts: BTreeMap<&'a str, &'a str>,
    scopes: BTreeMap<Path, Scope>,
}

impl Reader<'_> {
    /// Reads a module's file, and those of the modules that it declares. `folder` is where their files are.
    fn file(&mut self, file: &str, folder: &str, path: &Path) {
        let Some(text) = self.texts.get(file) else { return };
        let source = RustSource::new(text);
        let code = without_tests(&source.code);
        let text = Text { file, source: &source, code: &code, module: path };
        self.scope(&text, 0..code.len(), folder, path);
    }

    /// Reads a range of a file that is the content of the module `path`.
    fn scope(&mut self, text: &Text<'_>, range: Range<usize>, folder: &str, path: &Path) {
        let mut own = text.code[range.clone()].to_owned();
        let mut scope =
            Scope { of_file: text.module.clone(), file: text.file.to_owned(), ..Scope::default() };
        let inner = self.declared(text, range.clone(), folder, path, &mut scope);
        for (_, it) in &inner {
            blank(&mut own, it.start - range.start..it.end - range.start);
        }
        scope.defined = defined(&own);
        for (at, tree) in use_trees(&own) {
            let line = text.source.line_of(range.start + at);
            for leaf in leaves(&tree) {
                match leaf.name {
                    Some(name) => {
                        scope.imports.insert(name, leaf.names.clone());
                    }
                    None => scope.globs.push(leaf.names.clone()),
                }
                scope.mentions.push(Mention { names: leaf.names, line });
            }
        }
        for (at, names) in inline_paths(&own) {
            let line = text.source.line_of(range.start + at);
            scope.mentions.push(Mention { names, line });
        }
        self.scopes.insert(path.clone(), scope);
        for (name, range) in inner {
            self.scope(text, range, &format!("{folder}/{name}"), &below(path, &name));
        }
    }

    /// Finds the modules that are declared in a range: reads those with files of their own, and returns what the
    /// others have between their braces.
    fn declared(
        &mut self,
        text: &Text<'_>,
        range: Range<usize>,
        folder: &str,
        path: &Path,
        scope: &mut Scope,
    ) -> Vec<(String, Range<usize>)> {
        let mut inner: Vec<(String, Range<usize>)> = Vec::new();
        for at in words(&text.code[range.clone()], "mod").map(|it| it + range.start) {
            // Inside a module that was met already.
            if inner.iter().any(|it| it.1.contains(&at)) {
                continue;
            }
            let (name, rest) = word(&text.code[at + 3..range.end]);
            let next = rest.trim_start().as_bytes().first();
            if name.is_empty() || !matches!(next, Some(b'{' | b';')) {
                continue;
            }
            scope.children.insert(name.to_owned());
            if next == Some(&b'{') {
                let opens = range.end - rest.trim_start().len();
                inner.extend(body_end(text.code, opens).map(|it| (name.to_owned(), opens + 1..it)));
                continue;
            }
            let (beside, inside) = (format!("{folder}/{name}.rs"), format!("{folder}/{name}"));
            let is_beside = self.texts.contains_key(beside.as_str());
            let file = if is_beside { beside } else { format!("{inside}/mod.rs") };
            self.file(&file, &inside, &below(path, name));
        }
        inner
    }

    /// The module that a path, written in the module `from`, ends in: the one it names, or the one that defines the
    /// item that it names. `None` for what is not of this crate.
    fn resolve(&self, from: &Path, names: &[String], deepest: usize) -> Option<Path> {
        let (first, mut rest) = names.split_first()?;
        let mut here = match first.as_str() {
            "crate" => Path::new(),
            "self" => from.clone(),
            "super" => from[..from.len().checked_sub(1)?].to_vec(),
            name => {
                let scope = self.scopes.get(from)?;
                let is_ours = scope.children.contains(name)
                    || scope.imports.get(name).is_some_and(|it| it[..] != names[..1]);
                if !is_ours {
                    return None;
                }
                rest = names;
                from.clone()
            }
        };
        while let [name, more @ ..] = rest {
            rest = more;
            if name == "super" {
                here.pop()?;
                continue;
            }
            if name == "self" {
                continue;
            }
            match self.member(&here, name, deepest)? {
                Member::Module(module) => here = module,
                Member::Item(module) => return Some(module),
            }
        }
        self.scopes.contains_key(&here).then_some(here)
    }

    /// What `name` is inside a module.
    fn member(&self, module: &Path, name: &str, deepest: usize) -> Option<Member> {
        let scope = self.scopes.get(module)?;
        let child = below(module, name);
        if self.scopes.contains_key(&child) {
            return Some(Member::Module(child));
        }
        let deeper = deepest.checked_sub(1)?;
        if let Some(names) = scope.imports.get(name) {
            let (last, before) = names.split_last()?;
            // A module that was brought in, or an item of one.
            let whole = self.resolve(module, names, deeper);
            if before.is_empty() {
                return whole.map(Member::Module);
            }
            let parent = self.resolve(module, before, deeper)?;
            return self.member(&parent, last, deeper);
        }
        if !scope.defined.contains(name) {
            for glob in &scope.globs {
                let Some(from) = self.resolve(module, glob, deeper) else { continue };
                let found = self.member(&from, name, deeper);
                let is_there = match &found {
                    Some(Member::Item(it)) => self.scopes[it].defined.contains(name),
                    Some(Member::Module(_)) => true,
                    None => false,
                };
                if is_there {
                    return found;
                }
            }
        }
        Some(Member::Item(module.clone()))
    }
}

/// A name inside a module.
enum Member {
    Module(Path),
    /// An item, and the module that defines it.
    Item(Path),
}

/// A module's child.
fn below(path: &Path, name: &str) -> Path {
    let mut child = path.clone();
    child.push(name.to_owned());
    child
}

/// The first word of `code`, and what follows it.
fn word(code: &str) -> (&str, &str) {
    let code = code.trim_start();
    let end = code.find(|it: char| !it.is_alphanumeric() && it != '_').unwrap_or(code.len());
    code.split_at(end)
}

fn blank(text: &mut String, range: Range<usize>) {
    let blanks: String =
        text[range.clone()].bytes().map(|it| if it == b'\n' { '\n' } else { ' ' }).collect();
    text.replace_range(range, &blanks);
}

/// The code without the items that are compiled for tests alone.
fn without_tests(code: &str) -> String {
    let mut left = code.to_owned();
    for attribute in ["#[cfg(test)]", "#[cfg(all(test"] {
        for (at, _) in code.match_indices(attribute) {
            let after = at + code[at..].find(']').map_or(attribute.len(), |it| it + 1);
            let statement = code[after..].find(';').map(|it| after + it);
            let is_use = code[after..].trim_start().starts_with("use ");
            let end = if is_use { statement } else { body_end(code, after).or(statement) };
            if let Some(end) = end {
                blank(&mut left, at..end + 1);
            }
        }
    }
    left
}

/// Names of the items that are declared in `code`, at any depth: too many do no harm.
fn defined(code: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for keyword in ["struct", "enum", "union", "trait", "type", "fn", "const", "static"] {
        let after = |at: usize| word(&code[at + keyword.len()..]).0.to_owned();
        names.extend(words(code, keyword).map(after).filter(|it| !it.is_empty()));
    }
    let macros = code.match_indices("macro_rules!");
    names.extend(macros.map(|(at, it)| word(&code[at + it.len()..]).0.to_owned()));
    names
}

/// What stands between `use` and `;`, and where.
fn use_trees(code: &str) -> Vec<(usize, String)> {
    let mut trees = Vec::new();
    for at in words(code, "use") {
        let rest = &code[at + 3..];
        // `impl Trait + use<'a>` brings nothing in.
        let is_item = rest.starts_with(|it: char| it.is_whitespace());
        if let Some(end) = rest.find(';').filter(|_| is_item) {
            trees.push((at, rest[..end].to_owned()));
        }
    }
    trees
}

/// One name that a `use` brings in.
#[derive(Debug, PartialEq, Eq)]
struct Leaf {
    names: Vec<String>,
    /// What it is called here; `None`: everything in there.
    name: Option<String>,
}

fn leaves(tree: &str) -> Vec<Leaf> {
    let mut leaves = Vec::new();
    collect(tree.trim(), &[], &mut leaves);
    leaves
}

fn collect(tree: &str, before: &[String], leaves: &mut Vec<Leaf>) {
    // Of another crate, said aloud.
    if tree.starts_with("::") {
        return;
    }
    if let Some((head, group)) = tree.split_once('{') {
        let mut names = before.to_vec();
        names.extend(split(head));
        let group = group.rsplit_once('}').map_or(group, |it| it.0);
        for part in parts(group) {
            collect(part, &names, leaves);
        }
        return;
    }
    let (path, alias) = match tree.split_once(" as ") {
        Some((path, alias)) => (path, Some(alias.trim().to_owned())),
        None => (tree, None),
    };
    let mut names = before.to_vec();
    names.extend(split(path));
    let Some(last) = names.last().cloned() else { return };
    match last.as_str() {
        "*" => {
            names.pop();
            leaves.push(Leaf { names, name: None });
        }
        "self" if names.len() > 1 => {
            names.pop();
            let name = alias.or_else(|| names.last().cloned());
            leaves.push(Leaf { names, name });
        }
        _ => leaves.push(Leaf { names, name: alias.or(Some(last)) }),
    }
}

fn split(path: &str) -> impl Iterator<Item = String> {
    path.split("::").map(str::trim).filter(|it| !it.is_empty()).map(str::to_owned)
}

/// The members of a group, whose commas are those outside of inner groups.
fn parts(group: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut from) = (Vec::new(), 0_usize, 0);
    for (at, byte) in group.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                parts.push(group[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(group[from..].trim());
    parts.retain(|it| !it.is_empty());
    parts
}

/// Paths in expressions and types that say where they begin.
fn inline_paths(code: &str) -> Vec<(usize, Vec<String>)> {
    let mut code = code.to_owned();
    for (at, tree) in use_trees(&code) {
        blank(&mut code, at..at + 3 + tree.len());
    }
    let mut found = Vec::new();
    for start in ["crate", "super", "self"] {
        for at in words(&code, start) {
            let before = code[..at].trim_end();
            // `super::super::x` was met at its beginning; `pub(in crate::x)` uses nothing.
            if before.ends_with("::") || before.ends_with("(in") {
                continue;
            }
            let mut names = vec![start.to_owned()];
            let mut rest = &code[at + start.len()..];
            while let Some(after) = rest.strip_prefix("::") {
                let (name, more) = word(after);
                if name.is_empty() {
                    break;
                }
                names.push(name.to_owned());
                rest = more;
            }
            if names.len() > 1 {
                found.push((at, names));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<File> = files.iter().map(|(path, text)| File::of(path, text)).collect();
        let read = Modules::read("src/lib.rs", &files);
        let name = |it: &Path| if it.is_empty() { "root".to_owned() } else { it.join("::") };
        let line =
            |it: &Use| format!("{} -> {} {}:{}", name(&it.from), name(&it.to), it.file, it.line);
        let mut uses: Vec<String> = read.uses.iter().map(line).collect();
        uses.sort();
        uses.dedup();
        uses
    }

    #[test]
    fn groups_and_names_are_followed_to_who_defines_them() {
        let found = uses(&[
            ("src/lib.rs", "mod a;\nmod b;\nmod c;\npub use a::{A, deep::{D as E, f}};\n"),
            ("src/a.rs", "pub mod deep;\npub struct A;\n"),
            ("src/a/deep.rs", "pub struct D; pub fn f() {}\n"),
            ("src/b.rs", "use std::fmt;\n\nuse crate::{\n    A, E,\n    c::{self, C},\n};\n"),
            ("src/c.rs", "pub struct C;\nfn f() -> super::A { crate::f(); std::mem::drop(1) }\n"),
        ]);
        let expected = [
            "b -> a src/b.rs:3",
            "b -> a::deep src/b.rs:3",
            "b -> c src/b.rs:3",
            "c -> a src/c.rs:2",
            "c -> a::deep src/c.rs:2",
            "root -> a src/lib.rs:4",
            "root -> a::deep src/lib.rs:4",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn modules_inside_a_file_are_that_file() {
        let found = uses(&[
            ("src/lib.rs", "mod a;\nmod b;\npub mod front {\n    pub use crate::a::A;\n}\n"),
            (
                "src/a.rs",
                "pub struct A;\nmod inner {\n    use super::A;\n    fn f() { super::super::b::g(); }\n}\n",
            ),
            ("src/b/mod.rs", "use crate::front::A;\npub fn g() {}\n"),
        ]);
        assert_eq!(found, ["a -> b src/a.rs:4", "b -> a src/b/mod.rs:1", "root -> a src/lib.rs:4"]);
    }

    #[test]
    fn tests_comments_and_strings_use_nothing() {
        let found = uses(&[
            ("src/lib.rs", "mod a;\nmod b;\n#[cfg(test)]\nmod tests;\n"),
            (
                "src/a.rs",
                "//! As crate::b::B.\n#[cfg(test)]\nuse crate::b::{B, C};\nconst S: &str = \"crate::b::B\";\n\
                 #[cfg(test)]\nmod tests {\n    use crate::b::B;\n}\n#[cfg(test)]\nfn f() { crate::b::g(); }\n",
            ),
            ("src/b.rs", "pub struct B;\npub(in crate::a) struct C;\n"),
            ("src/tests.rs", "use crate::a;\n"),
        ]);
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn everything_of_a_module_is_looked_for_where_it_is_defined() {
        let found = uses(&[
            ("src/lib.rs", "mod a;\nmod b;\nmod c;\npub use {a::*, b::*};\n"),
            ("src/a.rs", "pub struct A;\n"),
            ("src/b.rs", "pub struct B;\n"),
            ("src/c.rs", "use crate::B;\n"),
        ]);
        assert_eq!(
            found,
            ["c -> b src/c.rs:1", "root -> a src/lib.rs:4", "root -> b src/lib.rs:4"]
        );
    }

    #[test]
    fn names_that_turn_in_circles_end() {
        let found = uses(&[
            ("src/lib.rs", "mod a;\nmod b;\n"),
            ("src/a.rs", "pub use crate::b::X;\n"),
            ("src/b.rs", "pub use crate::a::X;\nuse missing::Y;\nuse super::super::super::Z;\n"),
        ]);
        assert_eq!(found, [""; 0]);
    }
}
