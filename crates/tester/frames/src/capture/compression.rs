//! Compressed captures, known by their first bytes as in Wireshark: gzip, Zstandard, LZ4.

use flate2::bufread::MultiGzDecoder;
use lz4_flex::frame::FrameDecoder as Lz4Decoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::boxed::Box;
use std::io::{self, BufRead, BufReader, Read};
use std::vec::Vec;

const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const LZ4: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];

/// The uncompressed bytes of an input, and whether it is compressed.
pub(super) fn plain<'i>(mut input: impl Read + 'i) -> io::Result<(Box<dyn Read + 'i>, bool)> {
    let mut magic = Vec::new();
    // A pipe may give less at once.
    input.by_ref().take(4).read_to_end(&mut magic)?;
    let [gzip, zstd, lz4] = [&GZIP[..], &ZSTD, &LZ4].map(|kind| magic.starts_with(kind));
    let whole = io::Cursor::new(magic).chain(BufReader::new(input));
    Ok(if gzip {
        (Box::new(MultiGzDecoder::new(whole)), true)
    } else if zstd {
        (Box::new(Zstd { source: whole, decoder: None }), true)
    } else if lz4 {
        (Box::new(Lz4(Lz4Decoder::new(whole))), true)
    } else {
        (Box::new(whole), false)
    })
}

/// LZ4 frames, one after the other.
struct Lz4<R: Read>(Lz4Decoder<R>);

impl<R: Read> Read for Lz4<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.0.read(into)? {
            // The end of a frame, or of all.
            0 => self.0.read(into),
            bytes => Ok(bytes),
        }
    }
}

/// Zstandard frames, one after the other.
struct Zstd<R> {
    source: R,
    /// The decoder of the frame under way.
    decoder: Option<FrameDecoder>,
}

impl<R: BufRead> Zstd<R> {
    /// Begins a frame, behind frames that decoders skip; `None` at the end.
    fn begin(&mut self) -> io::Result<Option<FrameDecoder>> {
        while !self.source.fill_buf()?.is_empty() {
            let mut decoder = FrameDecoder::new();
            match decoder.init(&mut self.source) {
                Ok(()) => return Ok(Some(decoder)),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    io::copy(&mut self.source.by_ref().take(length.into()), &mut io::sink())?;
                }
                Err(error) => return Err(self.ended(error)),
            }
        }
        Ok(None)
    }

    /// An error, or the end of the input before that of a frame.
    fn ended(&mut self, error: FrameDecoderError) -> io::Error {
        match self.source.fill_buf() {
            Ok([]) => io::ErrorKind::UnexpectedEof.into(),
            _ => io::Error::new(io::ErrorKind::InvalidData, error),
        }
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut decoder = match self.decoder.take() {
                Some(decoder) => decoder,
                None => match self.begin()? {
                    Some(decoder) => decoder,
                    None => return Ok(0),
                },
            };
            while decoder.can_collect() == 0 && !decoder.is_finished() {
                decoder
                    .decode_blocks(&mut self.source, BlockDecodingStrategy::UptoBlocks(1))
                    .map_err(|error| self.ended(error))?;
            }
            let bytes = decoder.read(into)?;
            if bytes > 0 || into.is_empty() {
                self.decoder = Some(decoder);
                return Ok(bytes);
            }
            let sums = decoder.get_checksum_from_data().zip(decoder.get_calculated_checksum());
            if sums.is_some_and(|(stored, computed)| stored != computed) {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "its checksum is wrong"));
            }
        }
    }
}
