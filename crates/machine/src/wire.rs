//! What hangs on the other end of a card's wire.

/// Frames that arrive at a card: something sends them, at times of its own.
pub trait Traffic {
    /// When the last bit of the next frame arrives; `u64::MAX` if there is no next frame. Only [`Traffic::frame`]
    /// changes it, and, of a source that [answers](Traffic::answers), what the card sends.
    fn next_ps(&self) -> u64;
    /// Whether it answers what the card sends, as the other end of a connection does.
    fn answers(&self) -> bool {
        false
    }
    /// The next frame, without FCS. Called at [`Traffic::next_ps`].
    fn frame(&mut self) -> &[u8];
}

/// A silent wire.
pub struct Silence;

impl Traffic for Silence {
    fn next_ps(&self) -> u64 {
        u64::MAX
    }
    fn frame(&mut self) -> &[u8] {
        &[]
    }
}

/// Frames that a card sends: something receives them.
pub trait Receiver {
    /// `frame` (without FCS) has arrived with its last bit at `now_ps`.
    fn receive(&mut self, now_ps: u64, frame: &[u8]);
}

/// Counts frames.
#[derive(Debug, Default)]
pub struct Count {
    /// Frames so far.
    pub frames: u64,
}

impl Receiver for Count {
    fn receive(&mut self, _now_ps: u64, _frame: &[u8]) {
        self.frames += 1;
    }
}
