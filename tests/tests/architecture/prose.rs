//! Where prose is longer than a line should be: comments in Rust files, text in Markdown files.

/// The column after which prose wraps.
pub(crate) const COLUMNS: usize = 100;

/// Numbers of the lines of a Rust file whose `//` comment ends beyond [`COLUMNS`].
pub(crate) fn long_comments(text: &str) -> Vec<usize> {
    long_lines(text, |line| line.trim_start().starts_with("//"))
}

/// Numbers of the text lines of a Markdown file that end beyond [`COLUMNS`]. Tables, code blocks
/// and lines with links are no text lines.
pub(crate) fn long_paragraphs(text: &str) -> Vec<usize> {
    let mut is_code = false;
    long_lines(text, |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        let is_link = line.contains("](") || line.contains("]: ") || line.contains("://");
        let is_table = line.trim_start().starts_with('|');
        !(is_code || is_fence || is_link || is_table || line.starts_with("    "))
    })
}

fn long_lines(text: &str, mut is_prose: impl FnMut(&str) -> bool) -> Vec<usize> {
    let lines = text.lines().enumerate();
    lines
        .filter(|(_, line)| is_prose(line) && line.chars().count() > COLUMNS)
        .map(|(at, _)| at + 1)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_prose_is_found_and_long_code_is_not() {
        let long = "word ".repeat(21);
        let rust = format!("// {long}\n\"{long}\"\n    /// {long}\n// short\n");
        assert_eq!(long_comments(&rust), [1, 3]);
        let markdown = format!("{long}\n| {long} |\n```\n{long}\n```\n- {long}\n[x](y) {long}\n");
        assert_eq!(long_paragraphs(&markdown), [1, 6]);
    }
}
