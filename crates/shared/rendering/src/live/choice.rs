//! When the live view is shown, and how large.

use super::view::Show;
use std::io::IsTerminal;
use std::time::Duration;

/// Shorter runs get no full-screen view.
const CALM: Duration = Duration::from_secs(2);

/// The user's choice.
#[derive(Clone, Copy, Debug, Default)]
pub struct Choice {
    /// The whole screen, from the start.
    pub live: bool,
    /// One line only.
    pub no_live: bool,
}

/// The state of standard input, output and error.
#[derive(Clone, Copy, Debug)]
pub struct Terminal {
    /// Standard input is a terminal.
    pub input: bool,
    /// Standard output is a terminal.
    pub output: bool,
    /// Standard error is a terminal.
    pub error: bool,
    /// The terminal cannot draw.
    pub dumb: bool,
    /// NO_COLOR is set (no-color.org).
    pub plain: bool,
}

impl Terminal {
    /// Their state now.
    pub fn now() -> Self {
        Self {
            input: std::io::stdin().is_terminal(),
            output: std::io::stdout().is_terminal(),
            error: std::io::stderr().is_terminal(),
            dumb: std::env::var_os("TERM").is_none_or(|term| term == "dumb"),
            plain: std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()),
        }
    }
}

impl Choice {
    /// The view to show there; `None` if the whole screen is chosen and standard error is no terminal that
    /// can draw it. `for_machines`: standard output is for a program.
    pub fn show(self, terminal: Terminal, for_machines: bool) -> Option<Show> {
        let Terminal { input, output, error, dumb, plain } = terminal;
        if self.live {
            return (error && !dumb).then_some(Show::Screen { after: Duration::ZERO, colour: !plain });
        }
        let whole_screen = input && output && error && !dumb && !plain && !for_machines;
        Some(match (error, whole_screen && !self.no_live) {
            (false, _) => Show::Nothing,
            (true, false) => Show::Line,
            (true, true) => Show::Screen { after: CALM, colour: true },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_is_for_people_at_a_terminal() {
        let terminal = Terminal { input: true, output: true, error: true, dumb: false, plain: false };
        let nowhere = Terminal { input: false, output: false, error: false, dumb: true, plain: false };
        let usual = Choice::default();
        let show = |choice: Choice, terminal, for_machines| choice.show(terminal, for_machines);
        let calm = Some(Show::Screen { after: CALM, colour: true });
        assert_eq!(show(usual, terminal, false), calm);
        assert_eq!(show(usual, nowhere, false), Some(Show::Nothing));
        for less in [
            Terminal { input: false, ..terminal },
            Terminal { output: false, ..terminal },
            Terminal { dumb: true, ..terminal },
            Terminal { plain: true, ..terminal },
        ] {
            assert_eq!(show(usual, less, false), Some(Show::Line));
        }
        assert_eq!(show(usual, terminal, true), Some(Show::Line), "with --json");
        let (chosen, refused) =
            (Choice { live: true, no_live: false }, Choice { live: false, no_live: true });
        assert_eq!(show(refused, terminal, false), Some(Show::Line));
        let at_once = |colour| Some(Show::Screen { after: Duration::ZERO, colour });
        assert_eq!(show(chosen, Terminal { output: false, ..terminal }, true), at_once(true));
        assert_eq!(show(chosen, Terminal { plain: true, ..terminal }, false), at_once(false));
        assert_eq!(show(chosen, nowhere, false), None);
        assert_eq!(show(chosen, Terminal { dumb: true, ..terminal }, false), None);
    }
}
