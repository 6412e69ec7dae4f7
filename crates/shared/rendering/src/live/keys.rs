//! The keys of the full-screen view.

use super::sample::{Footer, RateKey};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::time::{Duration, Instant};

/// How long the last row says what came of a key.
const SAYS: Duration = Duration::from_secs(4);
/// Characters of a rate at most.
const LONGEST: usize = 20;

/// The effect of a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Pressed {
    Nothing,
    /// The run ends.
    Ends,
    /// The load is to change.
    Rate(RateKey),
}

/// The keys pressed so far.
#[derive(Default)]
pub(super) struct Keys {
    ending: bool,
    /// The rate that is being typed.
    typed: Option<String>,
    /// The effect of the last key, and its time.
    said: Option<(String, Instant)>,
}

impl Keys {
    /// A key is pressed. `can_change`: whether the load can be changed now.
    pub fn press(&mut self, key: KeyEvent, can_change: bool) -> Pressed {
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            // A second one ends the process at once.
            self.ending = true;
            return Pressed::Ends;
        }
        if let Some(typed) = &mut self.typed {
            match key.code {
                KeyCode::Char(letter) if typed.chars().count() < LONGEST => typed.push(letter),
                KeyCode::Backspace => drop(typed.pop()),
                KeyCode::Esc => self.typed = None,
                KeyCode::Enter => {
                    return self
                        .typed
                        .take()
                        .map_or(Pressed::Nothing, |rate| Pressed::Rate(RateKey::To(rate)));
                }
                _ => {}
            }
            return Pressed::Nothing;
        }
        match key.code {
            KeyCode::Char('q') if !self.ending => {
                self.ending = true;
                Pressed::Ends
            }
            _ if !can_change || self.ending => Pressed::Nothing,
            // Both signs without the shift key of some keyboards.
            KeyCode::Char('+' | '=') => Pressed::Rate(RateKey::Up),
            KeyCode::Char('-' | '_') => Pressed::Rate(RateKey::Down),
            KeyCode::Char(digit) if digit.is_ascii_digit() => {
                self.typed = Some(digit.into());
                Pressed::Nothing
            }
            _ => Pressed::Nothing,
        }
    }

    /// Shows the effect of the last key.
    pub fn says(&mut self, what: String, now: Instant) {
        self.said = Some((what, now));
    }

    /// The last row.
    pub fn footer(&self, can_change: bool, now: Instant) -> Footer {
        let said = self.said.as_ref().filter(|(_, since)| now.saturating_duration_since(*since) < SAYS);
        match (self.ending, &self.typed, said) {
            (true, ..) => Footer::Ending,
            (_, Some(typed), _) => Footer::Typing(typed.clone()),
            (_, _, Some((what, _))) => Footer::Says(what.clone()),
            _ if can_change => Footer::ChangesRate,
            _ => Footer::Ends,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(keys: &mut Keys, code: KeyCode) -> Pressed {
        keys.press(KeyEvent::new(code, KeyModifiers::NONE), true)
    }

    fn type_in(keys: &mut Keys, text: &str) {
        for letter in text.chars() {
            assert_eq!(press(keys, KeyCode::Char(letter)), Pressed::Nothing);
        }
    }

    #[test]
    fn a_rate_is_changed_in_steps_or_typed() {
        let (mut keys, now) = (Keys::default(), Instant::now());
        assert_eq!(keys.footer(true, now), Footer::ChangesRate);
        assert_eq!(press(&mut keys, KeyCode::Char('+')), Pressed::Rate(RateKey::Up));
        assert_eq!(press(&mut keys, KeyCode::Char('-')), Pressed::Rate(RateKey::Down));
        type_in(&mut keys, "80.5kpq");
        // A letter of a rate ends nothing.
        assert_eq!(keys.footer(true, now), Footer::Typing("80.5kpq".into()));
        assert_eq!(press(&mut keys, KeyCode::Backspace), Pressed::Nothing);
        type_in(&mut keys, "ps");
        assert_eq!(press(&mut keys, KeyCode::Enter), Pressed::Rate(RateKey::To("80.5kpps".into())));
        keys.says("80.5 kpps from now on".into(), now);
        assert_eq!(keys.footer(true, now), Footer::Says("80.5 kpps from now on".into()));
        assert_eq!(keys.footer(true, now + SAYS), Footer::ChangesRate);
        type_in(&mut keys, "7");
        assert_eq!(press(&mut keys, KeyCode::Esc), Pressed::Nothing);
        assert_eq!(keys.footer(true, now + SAYS), Footer::ChangesRate);
        type_in(&mut keys, &"1".repeat(10 * LONGEST));
        let longest = KeyCode::Enter;
        assert_eq!(press(&mut keys, longest), Pressed::Rate(RateKey::To("1".repeat(LONGEST))));
    }

    #[test]
    fn a_run_ends_by_its_keys_and_a_fixed_load_stays() {
        let now = Instant::now();
        let mut keys = Keys::default();
        assert_eq!(keys.footer(false, now), Footer::Ends);
        for letter in ['+', '-', '8', '\n'] {
            let key = KeyEvent::new(KeyCode::Char(letter), KeyModifiers::NONE);
            assert_eq!(keys.press(key, false), Pressed::Nothing);
        }
        assert_eq!(keys.footer(false, now), Footer::Ends);
        assert_eq!(press(&mut keys, KeyCode::Char('q')), Pressed::Ends);
        assert_eq!(
            (press(&mut keys, KeyCode::Char('q')), keys.footer(true, now)),
            (Pressed::Nothing, Footer::Ending)
        );
        assert_eq!(press(&mut keys, KeyCode::Char('+')), Pressed::Nothing);
        let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(keys.press(control_c, true), Pressed::Ends);
        // While a rate is typed, too.
        let mut keys = Keys::default();
        type_in(&mut keys, "5");
        assert_eq!(keys.press(control_c, true), Pressed::Ends);
        assert_eq!(keys.footer(true, now), Footer::Ending);
    }
}
