//! The thread that looks and shows, and the terminal that it leaves as it was.

use crate::sample::Sampler;
use crate::{Progress, Snapshot, Source, draw, line};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::crossterm::terminal::{
    self, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{cursor, execute};
use std::io::{self, BufWriter, Stderr, stderr};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often keys and the end of the run are looked for.
const KEYS: Duration = Duration::from_millis(100);
/// How often the screen is drawn: five times a second.
const FRAME: Duration = Duration::from_millis(200);
/// How often a line is written.
const LINE: Duration = Duration::from_secs(1);

/// How much is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// Nothing: nobody looks.
    Nothing,
    /// A line on standard error, once a second.
    Line,
    /// The whole screen, by standard error.
    Screen {
        /// Runs that are shorter than this are not worth it.
        after: Duration,
        /// With colours.
        colour: bool,
    },
}

/// The screen is ours.
static ON_SCREEN: AtomicBool = AtomicBool::new(false);

/// Gives the terminal back as it was, if it was taken. May be called at any time, from anywhere.
pub fn restore() {
    // Whoever draws has this lock, and looks at the flag first.
    let mut screen = stderr().lock();
    if ON_SCREEN.swap(false, Ordering::SeqCst) {
        // There is nothing to be done about a terminal that has gone.
        let _ = disable_raw_mode();
        let _ = execute!(screen, LeaveAlternateScreen, cursor::Show);
    }
}

/// Takes the whole screen, so that even a panic gives it back.
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
    // A frame is one write.
    Terminal::new(CrosstermBackend::new(BufWriter::with_capacity(1 << 16, stderr())))
}

/// A thread that shows how a run goes. It ends, and the terminal is as it was, when this is dropped.
pub struct View {
    over: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl View {
    /// Shows nothing.
    pub fn none() -> Self {
        Self { over: None, thread: None }
    }

    /// Shows a run. Calls `end` whenever a key asks for the run's end: in a view of the whole screen Ctrl-C is a key.
    pub fn start(
        progress: Progress,
        source: Box<dyn Source>,
        show: Show,
        end: impl Fn() + Send + 'static,
    ) -> Self {
        if show == Show::Nothing {
            return Self::none();
        }
        let (over, is_over) = channel();
        let sampler = Sampler::new(progress, source, Instant::now());
        let run = move || {
            give_way();
            match show {
                Show::Nothing => {}
                Show::Line => tell(sampler, &is_over),
                Show::Screen { after, colour } => {
                    // Without a screen there is no view; the run goes on.
                    let _ = watch(sampler, &is_over, after, colour, &end);
                    restore();
                }
            }
        };
        // Without a thread there is no view either.
        let thread = std::thread::Builder::new().name("live view".into()).spawn(run).ok();
        Self { over: Some(over), thread }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.over = None;
        if let Some(thread) = self.thread.take() {
            // A view that has panicked has said so, and is no reason to lose results.
            let _ = thread.join();
        }
    }
}

/// Whatever measures comes first.
fn give_way() {
    // On Linux a thread has a nice value of its own; elsewhere this would slow the whole process.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(19);
}

/// Waits; true when the run is over.
fn is_over_within(is_over: &Receiver<()>, time: Duration) -> bool {
    is_over.recv_timeout(time) != Err(RecvTimeoutError::Timeout)
}

/// A line, again and again.
fn tell(mut sampler: Sampler, is_over: &Receiver<()>) {
    let mut shown = false;
    while !is_over_within(is_over, LINE) {
        let width = terminal::size().map_or(80, |(columns, _)| usize::from(columns).max(20));
        let text: String = line(&sampler.look(Instant::now())).chars().take(width - 1).collect();
        eprint!("\r{text}\x1b[K");
        shown = true;
    }
    if shown {
        eprint!("\r\x1b[K");
    }
}

/// The whole screen, until the run is over.
fn watch(
    mut sampler: Sampler,
    is_over: &Receiver<()>,
    after: Duration,
    colour: bool,
    end: &dyn Fn(),
) -> io::Result<()> {
    let begin = Instant::now() + after;
    while Instant::now() < begin {
        // What is seen before is part of the first picture.
        sampler.look(Instant::now());
        if is_over_within(is_over, FRAME.min(begin.saturating_duration_since(Instant::now()))) {
            return Ok(());
        }
    }
    let mut terminal = take_screen()?;
    let (mut next, mut ending) = (Instant::now(), false);
    while !is_over_within(is_over, Duration::ZERO) {
        if Instant::now() >= next {
            next = Instant::now() + FRAME;
            let snapshot = Snapshot { ending, ..sampler.look(Instant::now()) };
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
            let control_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
            // Whoever types q twice is impatient, whoever types Ctrl-C twice means it.
            if control_c || key.code == KeyCode::Char('q') && !ending {
                ending = true;
                end();
            }
        }
    }
    Ok(())
}
