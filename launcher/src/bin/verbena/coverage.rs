//! The implemented functions of MPI, by chapter of the standard.

use std::collections::BTreeMap;

use bootstrap::calls::Call;
use launcher::stdout;

/// Prints a line for each chapter; with `missing`, also the missing functions. With `chapter`,
/// prints every function of the chapters of which a word begins so, or the one function of
/// that name.
pub(crate) fn print(missing: bool, chapter: Option<&str>) -> Result<(), String> {
    let chapters = chapters(chapter);
    if chapters.is_empty() {
        let name = chapter.unwrap_or_default();
        let call = Call::all().find(|call| call.name().eq_ignore_ascii_case(name));
        let call = call.ok_or_else(|| {
            format!(
                "{name:?} is neither a chapter nor a function; `verbena coverage` lists the \
                 chapters"
            )
        })?;
        let (mark, name, chapter) = (mark(call), call.name(), call.chapter());
        return stdout::print(format_args!("{mark} {name} ({chapter})\n"));
    }
    stdout::print(format_args!("{}", table(&chapters, missing, chapter.is_some())))
}

type Chapters = BTreeMap<&'static str, Vec<Call>>;

fn chapters(only: Option<&str>) -> Chapters {
    let mut chapters = Chapters::new();
    for call in Call::all() {
        let wanted = only.is_none_or(|only| is_named(call.chapter(), only));
        if wanted {
            chapters.entry(call.chapter()).or_default().push(call);
        }
    }
    chapters
}

/// Returns true if the chapter or one of its words begins with `name`, in any case.
fn is_named(chapter: &str, name: &str) -> bool {
    let (chapter, name) = (chapter.to_lowercase(), name.to_lowercase());
    let mut words = chapter.split(|c: char| !c.is_alphanumeric() && c != '_');
    chapter.starts_with(&name) || words.any(|word| word.starts_with(&name))
}

fn mark(call: Call) -> &'static str {
    if call.is_implemented() { "yes" } else { "no " }
}

fn table(chapters: &Chapters, missing: bool, all: bool) -> String {
    let width = chapters
        .keys()
        .map(|chapter| chapter.chars().count())
        .max()
        .unwrap_or(0)
        .max("chapter".len());
    let mut text = format!("{:width$}  implemented\n", "chapter");
    let mut total = (0, 0);
    for (chapter, calls) in chapters {
        let done = calls.iter().filter(|call| call.is_implemented()).count();
        total = (total.0 + done, total.1 + calls.len());
        text += &format!("{chapter:width$}  {}\n", share(done, calls.len()));
        for call in calls.iter().filter(|call| all || (missing && !call.is_implemented())) {
            text += &format!("    {} {}\n", mark(*call), call.name());
        }
    }
    text + &format!("{:width$}  {}\n", "all", share(total.0, total.1))
}

fn share(done: usize, of: usize) -> String {
    format!("{done:>4} of {of:<4} {:>3} %", done * 100 / of.max(1))
}
