//! The compressed parts of a kernel package: the kernel inside its boot image, and modules.

use lzma_rust2::XzReader;
use std::io::{self, Read};

const XZ: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// A limit: kernels and modules are smaller.
const LARGEST: u64 = 1 << 30;

/// Where an x86 boot image describes its compressed kernel (Documentation/arch/x86/boot.rst: the number of
/// setup sectors, the signature, payload_offset, payload_length).
const SETUP_SECTORS: usize = 0x1f1;
const SIGNATURE: usize = 0x202;
const PAYLOAD_OFFSET: usize = 0x248;
const PAYLOAD_LENGTH: usize = 0x24c;

/// Decompresses `bytes` of xz or zstd. Other bytes are returned as they are.
///
/// # Errors
/// If they are damaged.
pub fn expand(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    if bytes.starts_with(XZ) {
        XzReader::new(bytes, false).take(LARGEST).read_to_end(&mut out)?;
    } else if bytes.starts_with(ZSTD) {
        let decoder = ruzstd::decoding::StreamingDecoder::new(bytes).map_err(io::Error::other)?;
        decoder.take(LARGEST).read_to_end(&mut out)?;
    } else {
        out.extend_from_slice(bytes);
    }
    Ok(out)
}

/// The kernel of a boot image: an ELF file that QEMU enters directly (PVH). That saves the time of
/// decompression on an emulated CPU.
///
/// # Errors
/// If this is no boot image, or its kernel is compressed in another way.
pub fn kernel_of(image: &[u8]) -> io::Result<Vec<u8>> {
    let bad = |what: &str| io::Error::other(what.to_owned());
    let word = |at: usize| {
        let bytes = image.get(at..)?.first_chunk::<4>()?;
        usize::try_from(u32::from_le_bytes(*bytes)).ok()
    };
    if image.get(SIGNATURE..SIGNATURE + 4) != Some(b"HdrS") {
        return Err(bad("no Linux boot image"));
    }
    // 0 means 4, for historical reasons.
    let sectors = match image.get(SETUP_SECTORS) {
        Some(0) | None => 4,
        Some(&n) => usize::from(n),
    };
    let payload = word(PAYLOAD_OFFSET).zip(word(PAYLOAD_LENGTH)).and_then(|(offset, length)| {
        let start = (sectors + 1) * 512 + offset;
        image.get(start..start.checked_add(length)?)
    });
    let kernel = expand(payload.ok_or_else(|| bad("a boot image without a kernel"))?)?;
    if kernel.starts_with(b"\x7fELF") { Ok(kernel) } else { Err(bad("a kernel of unknown compression")) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_kernel_is_found_where_the_header_says() {
        let mut image = vec![0; 512 * 2 + 16 + 8];
        image[SETUP_SECTORS] = 1;
        image[SIGNATURE..SIGNATURE + 4].copy_from_slice(b"HdrS");
        image[PAYLOAD_OFFSET] = 16;
        image[PAYLOAD_LENGTH] = 8;
        image[1024 + 16..].copy_from_slice(b"\x7fELF1234");
        assert_eq!(kernel_of(&image).unwrap(), b"\x7fELF1234");
        image[PAYLOAD_LENGTH] = 9;
        assert!(kernel_of(&image).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(mut bytes in proptest::collection::vec(any::<u8>(), 0..2000), magic in 0..3) {
            if let (1.., Some(start)) = (magic, bytes.get_mut(..6)) {
                start.copy_from_slice(if magic == 1 { XZ } else { &[0x28, 0xb5, 0x2f, 0xfd, 0, 0] });
            }
            let _ = expand(&bytes);
            if let Some(place) = bytes.get_mut(SIGNATURE..SIGNATURE + 4) {
                place.copy_from_slice(b"HdrS");
            }
            let _ = kernel_of(&bytes);
        }
    }
}
