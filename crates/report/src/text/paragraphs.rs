//! Text that a terminal wraps.

/// The text with each paragraph in one line. Indented lines, as those of examples, and headings, which end
/// with a colon, stay as they are.
pub fn paragraphs(text: &str) -> String {
    let mut joined = String::new();
    let mut in_paragraph = false;
    for line in text.lines() {
        let is_prose = line.starts_with(|first: char| !first.is_whitespace());
        joined += if in_paragraph && is_prose { " " } else { "\n" };
        joined += line;
        in_paragraph = is_prose && !line.ends_with(':');
    }
    joined.trim_start().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_are_one_line_and_examples_stay() {
        let text = "Examples:\n  kpps a    one\n  kpps b\n\nFirst line\nand second.\n\nTests:\n  t  x";
        let wanted = "Examples:\n  kpps a    one\n  kpps b\n\nFirst line and second.\n\nTests:\n  t  x";
        assert_eq!(paragraphs(text), wanted);
    }
}
