//! The graph of imports between the files of one crate, and the circles in it.
//!
//! An edge leads from a file to the file that defines an item it names: by `use`, or by a path with
//! `crate`, `self`, `super`, a child module or an imported module in front. Paths are resolved
//! through re-exports to the definition. A re-export alone makes no edge, unless its file uses the
//! name too. Test code (`#[cfg(test)]`, loom harnesses) makes no edges.
//!
//! Method calls and macros in textual scope are not seen.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::{Attribute, Item, UseTree, Visibility};

/// Follows no more re-exports than that: a circle of re-exports does not compile.
const MAX_REEXPORTS: u32 = 16;

/// The files of one crate and their imports of each other.
#[derive(Default)]
pub(crate) struct Graph {
    files: Vec<PathBuf>,
    /// The file of the module that a file's module lies in.
    parents: Vec<Option<usize>>,
    edges: BTreeSet<(usize, usize)>,
}

impl Graph {
    /// Reads the module trees below `roots`; `read` returns the text of a file that exists.
    pub(crate) fn of(roots: &[&Path], read: &dyn Fn(&Path) -> Option<String>) -> Graph {
        let mut graph = Graph::default();
        for root in roots {
            let mut tree = Tree::default();
            tree.add_file(&mut graph, root, None, read);
            tree.add_edges(&mut graph);
        }
        graph
    }

    /// The sets of files that import each other in circles longer than a module and its parent,
    /// largest first, each with one shortest circle.
    pub(crate) fn components(&self) -> Vec<Component> {
        let circles: Vec<Vec<usize>> =
            self.edges.iter().filter_map(|edge| self.circle(*edge)).collect();
        let mut component_of: Vec<usize> = (0..self.files.len()).collect();
        for circle in &circles {
            let to = component_of[circle[0]];
            for file in circle {
                let from = component_of[*file];
                component_of.iter_mut().filter(|of| **of == from).for_each(|of| *of = to);
            }
        }
        let mut components = BTreeMap::<usize, Component>::new();
        for circle in circles {
            let component = components.entry(component_of[circle[0]]).or_default();
            component.files.extend(circle.iter().map(|file| self.files[*file].clone()));
            if component.circle.is_empty() || circle.len() < component.circle.len() {
                component.circle = circle.iter().map(|file| self.files[*file].clone()).collect();
            }
        }
        let mut components: Vec<Component> = components.into_values().collect();
        components.sort_by_key(|component| std::cmp::Reverse(component.files.len()));
        components
    }

    /// The shortest circle through an edge, unless that is a module and its parent alone.
    fn circle(&self, (from, to): (usize, usize)) -> Option<Vec<usize>> {
        let is_family = self.parents[from] == Some(to) || self.parents[to] == Some(from);
        let mut came_from = BTreeMap::new();
        let mut open = VecDeque::from([to]);
        while let Some(file) = open.pop_front() {
            for (_, next) in self.edges.range((file, 0)..(file + 1, 0)) {
                if (is_family && file == to && *next == from) || came_from.contains_key(next) {
                    continue;
                }
                came_from.insert(*next, file);
                open.push_back(*next);
            }
        }
        let mut circle = vec![from];
        while *circle.last()? != to {
            circle.push(*came_from.get(circle.last()?)?);
        }
        circle.reverse();
        Some(circle)
    }
}

/// Files that import each other.
#[derive(Default)]
pub(crate) struct Component {
    pub(crate) files: BTreeSet<PathBuf>,
    /// Each imports the next, the last the first.
    circle: Vec<PathBuf>,
}

impl std::fmt::Display for Component {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} files, shortest circle: ", self.files.len())?;
        self.circle.iter().try_for_each(|file| write!(f, "{} -> ", file.display()))?;
        write!(f, "{}", self.circle[0].display())
    }
}

/// The modules below one crate root.
#[derive(Default)]
struct Tree {
    modules: Vec<Module>,
}

/// One module, in a file of its own or inline.
#[derive(Default)]
struct Module {
    file: usize,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    defined: BTreeSet<String>,
    /// Names brought in by `use`, and their paths.
    bindings: BTreeMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
    /// Paths in code and in private `use`.
    paths: Vec<Vec<String>>,
    /// Names that are re-exported, and their paths.
    reexports: Vec<(String, Vec<String>)>,
    /// All identifiers in code, for re-exports that are used here too.
    identifiers: BTreeSet<String>,
}

/// The target of a path.
#[derive(Clone, Copy)]
enum Target {
    Module(usize),
    /// An item, defined in this file.
    Item(usize),
    External,
}

impl Tree {
    fn add_file(
        &mut self,
        graph: &mut Graph,
        path: &Path,
        parent: Option<usize>,
        read: &dyn Fn(&Path) -> Option<String>,
    ) -> usize {
        let text = read(path).unwrap_or_else(|| panic!("{} does not exist", path.display()));
        let file = syn::parse_file(&text)
            .unwrap_or_else(|error| panic!("{} does not parse: {error}", path.display()));
        graph.files.push(path.to_owned());
        graph.parents.push(parent.map(|parent| self.modules[parent].file));
        let is_root = parent.is_none() || path.ends_with("mod.rs");
        let folder = path.parent().expect("in a folder");
        let children = if is_root { folder.to_owned() } else { path.with_extension("") };
        let number = graph.files.len() - 1;
        self.add_module(graph, file.items, number, parent, &children, read)
    }

    fn add_module(
        &mut self,
        graph: &mut Graph,
        items: Vec<Item>,
        file: usize,
        parent: Option<usize>,
        folder: &Path,
        read: &dyn Fn(&Path) -> Option<String>,
    ) -> usize {
        let this = self.modules.len();
        self.modules.push(Module { file, parent, ..Module::default() });
        for item in items {
            match item {
                Item::Mod(module) if !is_for_tests(&module.attrs) => {
                    let name = module.ident.to_string();
                    let inside = folder.join(&name);
                    let child = match module.content {
                        Some((_, items)) => {
                            self.add_module(graph, items, file, Some(this), &inside, read)
                        }
                        None => {
                            let flat = inside.with_extension("rs");
                            let is_flat = read(&flat).is_some();
                            let path = if is_flat { flat } else { inside.join("mod.rs") };
                            self.add_file(graph, &path, Some(this), read)
                        }
                    };
                    self.modules[this].children.insert(name, child);
                }
                Item::Mod(_) => {}
                item => self.modules[this].add_item(item),
            }
        }
        this
    }

    fn add_edges(&self, graph: &mut Graph) {
        for (number, module) in self.modules.iter().enumerate() {
            let used =
                module.reexports.iter().filter(|(name, _)| module.identifiers.contains(name));
            for path in module.paths.iter().chain(used.map(|(_, path)| path)) {
                let file = match self.resolve(number, path, MAX_REEXPORTS) {
                    Target::Module(module) => self.modules[module].file,
                    Target::Item(file) => file,
                    Target::External => continue,
                };
                if file != module.file {
                    graph.edges.insert((module.file, file));
                }
            }
        }
    }

    /// Follows a path from inside a module.
    fn resolve(&self, from: usize, path: &[String], depth: u32) -> Target {
        let module = &self.modules[from];
        let (mut target, mut rest) = match path.first().map(String::as_str) {
            Some("crate") => (Target::Module(0), &path[1..]),
            Some("self") => (Target::Module(from), &path[1..]),
            Some("super") => {
                (Target::Module(module.parent.expect("`super` has a parent")), &path[1..])
            }
            Some(name) if module.children.contains_key(name) => (Target::Module(from), path),
            Some(name) => match module.bindings.get(name) {
                Some(bound) if depth > 0 && bound != path => {
                    (self.resolve(from, bound, depth - 1), &path[1..])
                }
                _ => return Target::External,
            },
            None => return Target::External,
        };
        while let (Target::Module(module), Some((name, more))) = (target, rest.split_first()) {
            target = match name.as_str() {
                "super" => Target::Module(self.modules[module].parent.expect("a parent")),
                "self" => target,
                // A name that nothing defines is made by a macro of that module.
                name => self
                    .find(module, name, depth)
                    .unwrap_or(Target::Item(self.modules[module].file)),
            };
            rest = more;
        }
        target
    }

    /// Finds a name in a module: a child, a definition, or a name brought in from elsewhere.
    fn find(&self, at: usize, name: &str, depth: u32) -> Option<Target> {
        let module = &self.modules[at];
        if let Some(child) = module.children.get(name) {
            return Some(Target::Module(*child));
        }
        if module.defined.contains(name) {
            return Some(Target::Item(module.file));
        }
        let depth = depth.checked_sub(1)?;
        if let Some(path) = module.bindings.get(name) {
            return Some(self.resolve(at, path, depth));
        }
        module.globs.iter().find_map(|path| match self.resolve(at, path, depth) {
            Target::Module(module) if module != at => self.find(module, name, depth),
            _ => None,
        })
    }
}

impl Module {
    fn add_item(&mut self, item: Item) {
        let (attributes, name) = match &item {
            Item::Use(item) => (&item.attrs, None),
            Item::Const(item) => (&item.attrs, Some(&item.ident)),
            Item::Enum(item) => (&item.attrs, Some(&item.ident)),
            Item::Fn(item) => (&item.attrs, Some(&item.sig.ident)),
            Item::Macro(item) => (&item.attrs, item.ident.as_ref()),
            Item::Static(item) => (&item.attrs, Some(&item.ident)),
            Item::Struct(item) => (&item.attrs, Some(&item.ident)),
            Item::Trait(item) => (&item.attrs, Some(&item.ident)),
            Item::Type(item) => (&item.attrs, Some(&item.ident)),
            Item::Union(item) => (&item.attrs, Some(&item.ident)),
            Item::Impl(item) => (&item.attrs, None),
            other => return self.scan(other.to_token_stream(), &[]),
        };
        if is_for_tests(attributes) {
            return;
        }
        self.defined.extend(name.map(ToString::to_string));
        match item {
            Item::Use(item) => {
                let is_private = matches!(item.vis, Visibility::Inherited);
                self.add_use(&item.tree, Vec::new(), is_private);
            }
            item => self.scan(item.to_token_stream(), &[]),
        }
    }

    fn add_use(&mut self, tree: &UseTree, mut path: Vec<String>, is_private: bool) {
        let name = match tree {
            UseTree::Path(inner) => {
                path.push(inner.ident.to_string());
                return self.add_use(&inner.tree, path, is_private);
            }
            UseTree::Group(group) => {
                let each = group.items.iter();
                return each.for_each(|tree| self.add_use(tree, path.clone(), is_private));
            }
            UseTree::Glob(_) => {
                self.globs.push(path.clone());
                if is_private {
                    self.paths.push(path);
                }
                return;
            }
            UseTree::Name(name) => {
                path.push(name.ident.to_string());
                name.ident.to_string()
            }
            UseTree::Rename(name) => {
                path.push(name.ident.to_string());
                name.rename.to_string()
            }
        };
        let is_self = path.len() > 1 && path.last().is_some_and(|name| name == "self");
        if is_self {
            path.pop();
        }
        let name = if is_self && name == "self" { path[path.len() - 1].clone() } else { name };
        self.bindings.insert(name.clone(), path.clone());
        if is_private { self.paths.push(path) } else { self.reexports.push((name, path)) }
    }

    /// Collects the paths in code. `prefix` is the path in front of a group in braces.
    fn scan(&mut self, tokens: TokenStream, prefix: &[String]) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            match &tokens[at] {
                TokenTree::Punct(hash)
                    if hash.as_char() == '#' && is_test_attribute(&tokens, at) =>
                {
                    at += 2;
                    while tokens.get(at).is_some_and(|token| !ends_item(token)) {
                        at += 1;
                    }
                }
                TokenTree::Ident(_) if !is_after_colons(&tokens, at) => {
                    at = self.scan_path(&tokens, at, prefix);
                    continue;
                }
                TokenTree::Group(group) => self.scan(group.stream(), &[]),
                _ => {}
            }
            at += 1;
        }
    }

    /// Reads a path that begins at `at`; returns where the tokens go on.
    fn scan_path(&mut self, tokens: &[TokenTree], mut at: usize, prefix: &[String]) -> usize {
        let mut path = prefix.to_vec();
        loop {
            match tokens.get(at) {
                Some(TokenTree::Ident(name)) => {
                    path.push(name.to_string());
                    self.identifiers.insert(name.to_string());
                }
                Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                    self.scan(group.stream(), &path);
                }
                _ => break,
            }
            at += 1;
            if !is_colons(tokens, at) {
                break;
            }
            at += 2;
        }
        if path.len() > 1 {
            self.paths.push(path);
        }
        at
    }
}

fn is_colon(token: Option<&TokenTree>) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == ':')
}

fn is_colons(tokens: &[TokenTree], at: usize) -> bool {
    is_colon(tokens.get(at)) && is_colon(tokens.get(at + 1))
}

fn is_after_colons(tokens: &[TokenTree], at: usize) -> bool {
    at >= 2 && is_colons(tokens, at - 2)
}

/// True for the tokens `#` and `[cfg(test)]`.
fn is_test_attribute(tokens: &[TokenTree], at: usize) -> bool {
    matches!(tokens.get(at + 1), Some(TokenTree::Group(group)) if is_test_cfg(&group.stream()))
}

/// True for the last token of an item: its body, `;`, or the comma after a field.
fn ends_item(token: &TokenTree) -> bool {
    match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        TokenTree::Punct(punct) => matches!(punct.as_char(), ';' | ','),
        _ => false,
    }
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| is_test_cfg(&attribute.meta.to_token_stream()))
}

/// True for `cfg(test)`, `cfg(all(test, loom))` and the like.
fn is_test_cfg(attribute: &TokenStream) -> bool {
    let text = attribute.to_string();
    let words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    let has = |word| words.contains(&word);
    words.first() == Some(&"cfg") && (has("test") || has("loom") || has("miri")) && !has("not")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The components of a crate of these files.
    fn components(files: &[(&str, &str)]) -> Vec<String> {
        let read = |path: &Path| {
            let text = files.iter().find(|(name, _)| Path::new(name) == path);
            text.map(|(_, text)| (*text).to_owned())
        };
        let components = Graph::of(&[Path::new("lib.rs")], &read).components();
        components.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_module_and_its_parent_are_no_circle() {
        let files = [
            ("lib.rs", "mod a; pub use a::A; pub struct Root; fn f() { a::g() }"),
            ("a.rs", "mod b; use crate::Root; pub struct A; pub fn g() { b::h() }"),
            ("a/b.rs", "use super::A; pub fn h() { let _: A; }"),
        ];
        assert_eq!(components(&files), [""; 0]);
    }

    #[test]
    fn circles_are_found_through_re_exports_bodies_and_macros() {
        for path in [
            "use crate::A;",
            "use crate::{B, A};",
            "fn f() { crate::a::g() }",
            "fn f() { assert!(super::a::g()) }",
            "use crate::a; fn f() { a::g() }",
            "fn f() { use super::{c::C, a::{A}}; }",
            "use crate::c::*; fn f(a: &self::A) {}",
        ] {
            let files = [
                ("lib.rs", "mod a; mod b; mod c; pub use a::A; pub use b::B;"),
                ("a.rs", "use crate::B; pub struct A; pub fn g() {}"),
                ("b.rs", &format!("{path} pub struct B;")),
                ("c.rs", "pub use crate::a::A; pub struct C;"),
            ];
            assert_eq!(
                components(&files),
                ["2 files, shortest circle: b.rs -> a.rs -> b.rs"],
                "{path}"
            );
        }
    }

    #[test]
    fn a_circle_through_a_parent_is_one() {
        let files = [
            ("lib.rs", "mod a; mod b; pub struct Root; fn f() { b::g() }"),
            ("a.rs", "use crate::Root; pub struct A;"),
            ("b.rs", "use crate::a::A; pub fn g() {}"),
        ];
        assert_eq!(
            components(&files),
            ["3 files, shortest circle: b.rs -> a.rs -> lib.rs -> b.rs"]
        );
    }

    #[test]
    fn tests_make_no_edges() {
        let files = [
            ("lib.rs", "mod a; mod b; #[cfg(all(test, loom))] mod models;"),
            ("a.rs", "use crate::b::B; pub struct A;"),
            (
                "b.rs",
                "pub struct B; #[cfg(test)] use crate::a::A; #[cfg(test)] mod tests { use crate::a::A; }
                 impl B { #[cfg(test)] fn f() { crate::a::A } }",
            ),
        ];
        assert_eq!(components(&files), [""; 0]);
    }
}
