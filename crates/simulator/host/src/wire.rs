//! The far end of a card's wire: where frames come from, and where they go.

/// A source of frames that arrive at a card.
pub trait FrameSource {
    /// When the last bit of the next frame arrives; `u64::MAX` if there is no next frame. Only
    /// [`FrameSource::frame`] changes it, and, for a source that [answers](FrameSource::answers), the frames
    /// that the card sends.
    fn next_ps(&self) -> u64;
    /// Whether it reacts to the card's frames, as the other end of a connection does.
    #[inline]
    fn answers(&self) -> bool {
        false
    }
    /// The next frame, without FCS. Called at [`FrameSource::next_ps`].
    fn frame(&mut self) -> &[u8];
}

/// A silent wire.
pub struct Silence;

impl FrameSource for Silence {
    #[inline]
    fn next_ps(&self) -> u64 {
        u64::MAX
    }
    #[inline]
    fn frame(&mut self) -> &[u8] {
        &[]
    }
}

/// A receiver of the frames that a card sends.
pub trait Receiver {
    /// `frame` (without FCS) has arrived with its last bit at `now_ps`.
    fn receive(&mut self, now_ps: u64, frame: &[u8]);
    /// The same for a frame with a wrong FCS, which a receiver drops.
    #[inline]
    fn receive_bad(&mut self, now_ps: u64, frame: &[u8]) {
        let _ = (now_ps, frame);
    }
}

/// Counts frames.
#[derive(Debug, Default)]
pub struct Count {
    /// Frames so far.
    pub frames: u64,
}

impl Receiver for Count {
    #[inline]
    fn receive(&mut self, _now_ps: u64, _frame: &[u8]) {
        self.frames += 1;
    }
}
