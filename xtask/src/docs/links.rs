//! Dead links in Markdown: relative links to files that do not exist, and anchors that no heading
//! of the linked file has.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, Result};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// A Markdown file as far as links go.
#[derive(Default)]
struct Page {
    /// Each with its line.
    links: Vec<(usize, String)>,
    anchors: BTreeSet<String>,
}

/// Returns the dead links of some files below `root`, as `FILE:LINE: LINK (why)`.
pub(super) fn dead(root: &Path, files: &[PathBuf]) -> Result<Vec<String>> {
    let mut pages = BTreeMap::new();
    for file in files {
        let text = std::fs::read_to_string(root.join(file))
            .with_context(|| format!("cannot read {}", file.display()))?;
        pages.insert(normal(file), Page::of(&text));
    }
    let mut dead = Vec::new();
    for (file, page) in &pages {
        for (line, link) in &page.links {
            if let Some(why) = problem(root, &pages, file, link) {
                dead.push(format!("{}:{line}: {link} ({why})", file.display()));
            }
        }
    }
    Ok(dead)
}

/// Returns the fault of a link, if any.
fn problem(
    root: &Path,
    pages: &BTreeMap<PathBuf, Page>,
    file: &Path,
    link: &str,
) -> Option<&'static str> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = match path {
        "" => file.to_owned(),
        path => normal(&file.parent().unwrap_or(Path::new("")).join(path)),
    };
    let is_generated = target.starts_with(Path::new("docs").join(super::REFERENCE));
    if !is_generated && !root.join(&target).exists() {
        return Some("no such file");
    }
    match pages.get(&target) {
        Some(page) if !anchor.is_empty() && !page.anchors.contains(anchor) => {
            Some("no such heading")
        }
        _ => None,
    }
}

/// A path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir if out.parent().is_some() => drop(out.pop()),
            Component::CurDir => {}
            part => out.push(part),
        }
    }
    out
}

impl Page {
    fn of(text: &str) -> Page {
        let mut page = Page::default();
        let mut heading: Option<String> = None;
        let options = Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES;
        for (event, place) in Parser::new_ext(text, options).into_offset_iter() {
            let line = text[..place.start].matches('\n').count() + 1;
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push((line, dest_url.into_string()));
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    page.add_heading(&heading.take().unwrap_or_default())
                }
                Event::Text(words) | Event::Code(words) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&words);
                    }
                }
                _ => {}
            }
        }
        page
    }

    /// Adds the anchor that mdBook and code hosts give a heading: a second one of the same text
    /// has a number.
    fn add_heading(&mut self, text: &str) {
        let kept = text.trim().to_lowercase();
        let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let numbered = (1..).map(|number| format!("{anchor}-{number}"));
        let free = std::iter::once(anchor.clone()).chain(numbered);
        let free = free.into_iter().find(|anchor| !self.anchors.contains(anchor));
        self.anchors.extend(free);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_links_and_anchors_are_found() {
        let text = "# Two `words`, here\n\n## Two words here\n\n[a](#two-words-here) [b](#two-words-here-1)\n\
                    [c](#gone)\n\n```\n[d](gone.md)\n```\n[e][f]\n\n[f]: src/main.rs\n[g](gone.md#x)\n\
                    [h](https://example.org/x) `[i](gone.md)`\n";
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let pages = BTreeMap::from([(PathBuf::from("a.md"), Page::of(text))]);
        let page = &pages[Path::new("a.md")];
        let links = page.links.iter();
        let wrong: Vec<(usize, &str)> = links
            .filter_map(|(line, link)| {
                problem(root, &pages, Path::new("a.md"), link)?;
                Some((*line, link.as_str()))
            })
            .filter(|(_, link)| !link.starts_with("#two"))
            .collect();
        assert_eq!(wrong, [(6, "#gone"), (14, "gone.md#x")]);
    }

    #[test]
    fn paths_lose_their_dots() {
        assert_eq!(normal(Path::new("docs/../a/./b.md")), Path::new("a/b.md"));
    }
}
