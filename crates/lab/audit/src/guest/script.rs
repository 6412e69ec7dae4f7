//! The console of a guest: lines that are typed after their prompts, and the text that ends a run.

use anstream::adapter::StripBytes;
use std::collections::VecDeque;
use std::str::FromStr;

/// The most bytes of output that is searched for a prompt.
const KEPT_BYTES: usize = 64 << 10;
/// Lines of the console that a result shows, and the most characters of each.
const SHOWN_LINES: usize = 12;
const SHOWN_CHARACTERS: usize = 160;

/// A line that is typed once a prompt has appeared: `PROMPT=>LINE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Typed {
    prompt: String,
    line: Vec<u8>,
}

impl Typed {
    /// The prompt and the line that is typed after it, without escapes.
    ///
    /// # Errors
    /// The prompt is empty.
    pub(crate) fn new(prompt: &str, line: &str) -> Result<Self, String> {
        if prompt.is_empty() {
            return Err("a prompt is empty: give the text after which the line is typed".into());
        }
        // Terminals send a carriage return for Enter.
        Ok(Self { prompt: prompt.to_owned(), line: [line.as_bytes(), b"\r"].concat() })
    }

    /// The prompt.
    pub(crate) fn prompt(&self) -> &str {
        &self.prompt
    }

    /// The line without Enter.
    pub(crate) fn line(&self) -> String {
        String::from_utf8_lossy(self.line.strip_suffix(b"\r").unwrap_or(&self.line)).into_owned()
    }
}

impl FromStr for Typed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (prompt, line) = text
            .rsplit_once("=>")
            .filter(|(prompt, _)| !prompt.is_empty())
            .ok_or_else(|| format!("'{text}': write PROMPT=>LINE, as in 'login: =>root'"))?;
        let prompt = String::from_utf8(unescaped(prompt)?)
            .map_err(|_| format!("'{text}': the prompt is not UTF-8"))?;
        // Terminals send a carriage return for Enter.
        Ok(Self { prompt, line: [unescaped(line)?, b"\r".into()].concat() })
    }
}

/// A text with its escapes replaced (`\n`, `\r`, `\t`, `\\`, `\x1b`).
fn unescaped(line: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut rest = line;
    while let Some(at) = rest.find('\\') {
        bytes.extend(rest[..at].bytes());
        let wrong =
            || format!("'{line}': an escape is \\n, \\r, \\t, \\\\ or \\x and two hexadecimal digits");
        let (byte, used) = match rest[at + 1..].chars().next() {
            Some('n') => (b'\n', 2),
            Some('r') => (b'\r', 2),
            Some('t') => (b'\t', 2),
            Some('\\') => (b'\\', 2),
            Some('x') => {
                let digits = rest.get(at + 2..at + 4).ok_or_else(wrong)?;
                (u8::from_str_radix(digits, 16).map_err(|_| wrong())?, 4)
            }
            _ => return Err(wrong()),
        };
        bytes.push(byte);
        rest = &rest[at + used..];
    }
    bytes.extend(rest.bytes());
    Ok(bytes)
}

/// The state of a console.
#[derive(Debug, Default)]
pub struct Script {
    /// Lines that have not been typed yet.
    typed: VecDeque<Typed>,
    /// The text that has to appear after all lines were typed, unless it has.
    until: Option<String>,
    strip: StripBytes,
    /// The bytes of a character whose last bytes have not come yet: at most three.
    cut: Vec<u8>,
    /// Output, without terminal escapes, after the last prompt that was found.
    heard: String,
    /// The last lines of all output.
    lines: VecDeque<String>,
}

impl Script {
    /// The state before the first output.
    pub fn new(typed: &[Typed], until: Option<&str>) -> Self {
        Self { typed: typed.iter().cloned().collect(), until: until.map(str::to_owned), ..Self::default() }
    }

    /// Takes output. Returns what is to be typed.
    pub fn hear(&mut self, output: &[u8]) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.cut);
        bytes.extend(self.strip.strip_next(output).flatten());
        self.cut = bytes.split_off(bytes.len() - cut_off(&bytes));
        let text = String::from_utf8_lossy(&bytes);
        self.show(&text);
        self.heard += &text;
        let mut answer = Vec::new();
        while let Some(next) = self.typed.front()
            && let Some(at) = self.heard.find(&next.prompt)
        {
            self.heard.drain(..at + next.prompt.len());
            answer.extend(self.typed.pop_front().into_iter().flat_map(|next| next.line));
        }
        if self.typed.is_empty() && self.until.as_ref().is_some_and(|text| self.heard.contains(text)) {
            self.until = None;
        }
        let mut excess = self.heard.len().saturating_sub(KEPT_BYTES);
        while !self.heard.is_char_boundary(excess) {
            excess += 1;
        }
        self.heard.drain(..excess);
        answer
    }

    fn show(&mut self, text: &str) {
        for character in text.chars() {
            match (character, self.lines.back_mut()) {
                ('\n', _) | (_, None) => {
                    if self.lines.back().is_none_or(|last| !last.trim().is_empty()) {
                        self.lines.push_back(String::new());
                    }
                    if self.lines.len() > SHOWN_LINES + 1 {
                        self.lines.pop_front();
                    }
                }
                ('\r', _) => {}
                _ => {}
            }
            if let Some(last) = self.lines.back_mut()
                && !character.is_control()
                && last.chars().count() < SHOWN_CHARACTERS
            {
                last.push(character);
            }
        }
    }

    /// Whether everything was typed, and the awaited text has appeared.
    pub fn is_over(&self) -> bool {
        self.typed.is_empty() && self.until.is_none()
    }

    /// The text that has not appeared yet, if one is awaited.
    pub fn awaits(&self) -> Option<&str> {
        self.typed.front().map(|typed| &*typed.prompt).or(self.until.as_deref())
    }

    /// The last lines of output.
    pub fn last_lines(&self) -> Vec<String> {
        self.lines.iter().map(|line| line.trim_end().to_owned()).filter(|line| !line.is_empty()).collect()
    }
}

/// How many bytes at the end are the begin of a character: at most three.
fn cut_off(bytes: &[u8]) -> usize {
    let is_begin = |tail: &[u8]| {
        std::str::from_utf8(tail).is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
    };
    (1..=bytes.len().min(3)).find(|count| is_begin(&bytes[bytes.len() - count..])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn typed(text: &str) -> Typed {
        text.parse().unwrap()
    }

    #[test]
    fn lines_follow_their_prompts_in_order() {
        let all = [typed("=> =>dhcp"), typed("=> =>tftp 0x100 \\x02")];
        let mut script = Script::new(&all, Some("done"));
        assert_eq!(script.hear(b"U-Boot\r\n=>"), b"", "half a prompt");
        assert_eq!(script.hear(b" "), b"dhcp\r");
        assert_eq!((script.awaits(), script.is_over()), (Some("=> "), false));
        // The text that ends the run counts only after all was typed.
        assert_eq!(script.hear(b"done\r\n\x1b[1m=>\x1b[0m "), b"tftp 0x100 \x02\r");
        assert_eq!(script.awaits(), Some("done"));
        assert_eq!(script.hear(b"do"), b"");
        assert!(!script.is_over());
        script.hear(b"ne\n");
        assert!(script.is_over() && script.awaits().is_none());
        assert_eq!(script.last_lines(), ["U-Boot", "=> done", "=> done"]);
    }

    #[test]
    fn output_without_end_is_bounded() {
        let mut script = Script::new(&[], Some("never"));
        for _ in 0..100 {
            script.hear(&[b'x'; 10_000]);
            script.hear("\u{e9}\n".as_bytes());
        }
        assert!(script.heard.len() <= KEPT_BYTES + 10_002 && script.lines.len() <= SHOWN_LINES + 1);
        assert!(script.last_lines().iter().all(|line| line.chars().count() <= SHOWN_CHARACTERS));
    }

    #[test]
    fn a_prompt_may_come_in_parts_within_a_character() {
        for prompt in ["\u{bb} ", "\u{20ac}$", "\u{1f600}>"] {
            let bytes = prompt.as_bytes();
            for at in 1..bytes.len() {
                let mut script = Script::new(&[typed(&format!("{prompt}=>x"))], None);
                assert_eq!(script.hear(&bytes[..at]), b"");
                assert_eq!(script.hear(&bytes[at..]), b"x\r", "{prompt} {at}");
            }
        }
        // Bytes that are no text are not kept.
        let mut script = Script::new(&[], Some("never"));
        for _ in 0..100 {
            script.hear(&[0xff, 0xc3, 0xf0, 0x9f, 0x98]);
        }
        assert!(script.cut.len() <= 3 && script.heard.len() < 3000);
    }

    #[test]
    fn what_is_typed_is_checked() {
        assert_eq!(typed("$ =>a\\\\b\\t\\x1b").line, b"a\\b\t\x1b\r");
        for bad in ["", "no arrow", "=>line", "p=>\\q", "p=>\\x1", "p=>\\xzz", "p=>\\x1\u{e9}"] {
            let error = bad.parse::<Typed>().unwrap_err();
            assert!(error.contains("write PROMPT=>LINE") || error.contains("an escape is"), "{error}");
        }
    }
}
