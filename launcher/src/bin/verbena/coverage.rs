//! Which functions of MPI are implemented, by chapter of the standard.

use std::collections::BTreeMap;

use fabric::calls::Call;

/// Prints a line for each chapter; with `missing`, what each still lacks; with
/// `chapter`, every function of the chapters that begin so.
pub(crate) fn print(missing: bool, chapter: Option<&str>) -> Result<(), String> {
    let chapters = chapters(chapter);
    if chapters.is_empty() {
        return Err(format!("there is no chapter {:?}; `verbena coverage` lists them", chapter.unwrap_or_default()));
    }
    print!("{}", table(&chapters, missing, chapter.is_some()));
    Ok(())
}

type Chapters = BTreeMap<&'static str, Vec<Call>>;

fn chapters(only: Option<&str>) -> Chapters {
    let mut chapters = Chapters::new();
    for call in Call::all() {
        let wanted = only.is_none_or(|only| call.chapter().to_lowercase().starts_with(&only.to_lowercase()));
        if wanted {
            chapters.entry(call.chapter()).or_default().push(call);
        }
    }
    chapters
}

fn table(chapters: &Chapters, missing: bool, all: bool) -> String {
    let width = chapters.keys().map(|chapter| chapter.chars().count()).max().unwrap_or(0).max("chapter".len());
    let mut text = format!("{:width$}  implemented\n", "chapter");
    let mut total = (0, 0);
    for (chapter, calls) in chapters {
        let done = calls.iter().filter(|call| call.is_implemented()).count();
        total = (total.0 + done, total.1 + calls.len());
        text += &format!("{chapter:width$}  {}\n", share(done, calls.len()));
        for call in calls.iter().filter(|call| all || (missing && !call.is_implemented())) {
            let mark = if call.is_implemented() { "yes" } else { "no " };
            text += &format!("    {mark} {}\n", call.name());
        }
    }
    text + &format!("{:width$}  {}\n", "all", share(total.0, total.1))
}

fn share(done: usize, of: usize) -> String {
    format!("{done:>4} of {of:<4} {:>3} %", done * 100 / of.max(1))
}
