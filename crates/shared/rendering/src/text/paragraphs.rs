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

/// Clap's message about a bad command line, in one line: what is wrong, and a similar word or else the
/// `remedy`, without the usage that follows.
pub fn complaint(message: &str, remedy: Option<&str>) -> String {
    let in_line = |text: &str| text.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    let mut paragraphs = message.split("\n\n").map(in_line);
    let what = paragraphs.next().unwrap_or_default().trim_start_matches("error: ").to_owned();
    let similar = paragraphs.find(|it| it.starts_with("tip: ") && it.contains("similar"));
    match similar.as_deref().map(|tip| tip.trim_start_matches("tip: ")).or(remedy) {
        Some(remedy) => format!("{what}; {remedy}"),
        None => what,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_is_one_line() {
        let message = "error: unrecognized subcommand 'cuve'\n\n  tip: a similar subcommand exists: 'curve'\n\nUsage: …";
        let said = complaint(message, Some("see help"));
        assert_eq!(said, "unrecognized subcommand 'cuve'; a similar subcommand exists: 'curve'");
        assert_eq!(complaint("error: bad\n  value\n\nUsage", Some("see help")), "bad value; see help");
        assert_eq!(complaint("error: bad", None), "bad");
    }

    #[test]
    fn paragraphs_are_one_line_and_examples_stay() {
        let text = "Examples:\n  kpps a    one\n  kpps b\n\nFirst line\nand second.\n\nTests:\n  t  x";
        let wanted = "Examples:\n  kpps a    one\n  kpps b\n\nFirst line and second.\n\nTests:\n  t  x";
        assert_eq!(paragraphs(text), wanted);
    }
}
