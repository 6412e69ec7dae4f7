//! The full-screen view. It restores the terminal at its end.

use super::draw::draw;
use super::keys::{Keys, Pressed};
use super::sample::{Sampler, Snapshot};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::crossterm::terminal::{
    self, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{cursor, execute};
use std::io::{self, BufWriter, Stderr, stderr};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How often keys and the end of the run are checked.
const KEYS: Duration = Duration::from_millis(100);
/// How often the screen is drawn: five times a second.
const FRAME: Duration = Duration::from_millis(200);

/// Columns of the terminal; 80 if it does not report them.
pub(super) fn columns() -> usize {
    terminal::size().map_or(80, |(columns, _)| columns.into())
}

/// The view has the screen.
static ON_SCREEN: AtomicBool = AtomicBool::new(false);

/// Restores the terminal if the view has it. May be called at any time, by any thread.
pub fn restore() {
    // A thread that draws holds this lock and checks the flag first.
    let mut screen = stderr().lock();
    if ON_SCREEN.swap(false, Ordering::SeqCst) {
        // The terminal may be gone: an error has no remedy.
        let _ = disable_raw_mode();
        let _ = execute!(screen, LeaveAlternateScreen, cursor::Show);
    }
}

/// Takes the whole screen. A panic restores it, too.
fn take_screen() -> io::Result<Terminal<CrosstermBackend<BufWriter<Stderr>>>> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            restore();
            usual(panic);
        }));
    });
    let mut screen = stderr().lock();
    ON_SCREEN.store(true, Ordering::SeqCst);
    enable_raw_mode()?;
    execute!(screen, EnterAlternateScreen, cursor::Hide)?;
    // A picture is one write.
    Terminal::new(CrosstermBackend::new(BufWriter::with_capacity(1 << 16, stderr())))
}

/// Shows the run on the whole screen until it is over.
pub(super) fn watch(
    mut sampler: Sampler,
    is_over: &Receiver<()>,
    after: Duration,
    colour: bool,
    end: &dyn Fn(),
) -> io::Result<()> {
    let begin = Instant::now() + after;
    while Instant::now() < begin {
        // Counters from before are part of the first picture.
        sampler.sample(Instant::now());
        if is_over_within(is_over, FRAME.min(begin.saturating_duration_since(Instant::now()))) {
            return Ok(());
        }
    }
    let mut terminal = take_screen()?;
    let (mut next, mut keys) = (Instant::now(), Keys::default());
    while !is_over_within(is_over, Duration::ZERO) {
        if Instant::now() >= next {
            next = Instant::now() + FRAME;
            let footer = keys.footer(sampler.source().can_change_rate(), Instant::now());
            let snapshot = Snapshot { footer, ..sampler.sample(Instant::now()) };
            let _screen = stderr().lock();
            if !ON_SCREEN.load(Ordering::SeqCst) {
                break;
            }
            terminal.draw(|frame| draw(&snapshot, frame.area(), frame.buffer_mut(), colour))?;
        }
        if event::poll(KEYS)?
            && let Event::Key(key) = event::read()?
            && key.kind == KeyEventKind::Press
        {
            match keys.press(key, sampler.source().can_change_rate()) {
                Pressed::Nothing => {}
                Pressed::Ends => end(),
                Pressed::Rate(to) => keys.says(sampler.source().change_rate(&to), Instant::now()),
            }
            next = Instant::now();
        }
    }
    Ok(())
}

/// Waits. Returns true when the run is over.
fn is_over_within(is_over: &Receiver<()>, time: Duration) -> bool {
    is_over.recv_timeout(time) != Err(RecvTimeoutError::Timeout)
}
