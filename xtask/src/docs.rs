//! `cargo xtask docs`: the book (mdBook, from docs/) and the API reference (rustdoc) in one folder,
//! target/book, and a check of the links in all Markdown files.
//!
//! Links to other sites are not followed: the check needs no network.

mod links;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::command;
use crate::project::Project;
use crate::steps::{Steps, say};

/// The release of mdBook that `docs` installs where there is none.
const MDBOOK: &str = "0.5.4";
/// The folder of the API reference inside the book.
const REFERENCE: &str = "api";

/// Options of `docs`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only check the links.
    #[arg(long)]
    links: bool,
    /// Show all that programs print, instead of one line for each step.
    #[arg(long, short)]
    verbose: bool,
}

/// Builds the documentation and checks it; true if no link is dead.
pub(crate) fn docs(project: &Project, options: &Options) -> Result<bool> {
    let steps = Steps::start(project, "docs", options.verbose)?;
    let dead = steps.step("Check links", |step| {
        let dead = dead_links(project)?;
        if !dead.is_empty() {
            step.fail();
        }
        step.note(format!("{} dead", dead.len()));
        Ok(dead)
    })?;
    dead.iter().for_each(|link| say!("  {link}"));
    if options.links {
        return Ok(dead.is_empty());
    }
    let mdbook = provide_mdbook(project, &steps)?;
    let book = project.target.join("book");
    steps.step("Build the book", |step| {
        let mut build = Command::new(&mdbook);
        step.run(build.arg("build").arg("--dest-dir").arg(&book).current_dir(&project.root))
    })?;
    steps.step("Build the API reference", |step| {
        step.cargo(&mut reference(project))?;
        let to = book.join(REFERENCE);
        if to.exists() {
            fs::remove_dir_all(&to)?;
        }
        step.run(Command::new("cp").arg("-r").arg(project.target.join("doc")).arg(&to))
    })?;
    let first = book.join("index.html");
    ensure!(first.exists(), "mdBook made no {}", first.display());
    say!("\n  the book           {}", project.shown(&first));
    let crates = book.join(REFERENCE).join("runtime/index.html");
    say!("  the API reference  {}", project.shown(&crates));
    Ok(dead.is_empty())
}

/// The command that builds the API reference of all crates.
pub(crate) fn reference(project: &Project) -> Command {
    project.cargo(&["doc", "--workspace", "--no-deps", "--document-private-items"])
}

/// Finds mdBook on the PATH, or installs it under the target folder, which takes minutes once.
fn provide_mdbook(project: &Project, steps: &Steps) -> Result<PathBuf> {
    if command::exists("mdbook", "--version") {
        return Ok(PathBuf::from("mdbook"));
    }
    let tools = project.target.join("tools");
    let mdbook = tools.join("bin/mdbook");
    if !mdbook.exists() {
        steps.step("Install mdBook, once", |step| {
            let mut cargo =
                project.cargo(&["install", "mdbook", "--version", MDBOOK, "--locked", "--debug"]);
            step.cargo(cargo.arg("--no-default-features").arg("--root").arg(&tools))
        })?;
    }
    Ok(mdbook)
}

/// The dead links in the repository's Markdown files, each with its file and line.
pub(crate) fn dead_links(project: &Project) -> Result<Vec<String>> {
    let mut ls = Command::new("git");
    ls.args(["ls-files", "--cached", "--others", "--exclude-standard", "*.md"]);
    let listed =
        command::quietly(ls.current_dir(&project.root), std::time::Duration::from_secs(30));
    let files = match listed {
        Ok(ran) => ran.stdout.lines().map(PathBuf::from).collect(),
        // Not a clone: a release without its history.
        Err(_) => markdown_files(&project.root)?,
    };
    links::dead(&project.root, &files)
}

fn markdown_files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for folder in ["", "docs", "docs/contributing", "cluster-configs"] {
        let entries = fs::read_dir(root.join(folder)).with_context(|| format!("no {folder}"))?;
        files.extend(entries.flatten().map(|entry| Path::new(folder).join(entry.file_name())));
    }
    files.retain(|file| file.extension().is_some_and(|extension| extension == "md"));
    Ok(files)
}
