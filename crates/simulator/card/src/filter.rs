//! The receive filters: addresses, multicast hash, VLANs (SDM 3.2.1, 9.3, 13.5).

use crate::Params;
use kpps_datasheet::bit::{rah, rctl};
use kpps_datasheet::reg;

/// Length of an Ethernet address in bytes.
const ADDRESS_BYTES: usize = 6;

/// The filter tables.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    /// RAL and RAH, alternating.
    addresses: [u32; 2 * reg::RAR_ENTRIES as usize],
    multicast: [u32; reg::MTA_WORDS as usize],
    vlans: [u32; reg::VFTA_WORDS as usize],
    /// The valid entries of `addresses`: the address as a number, and whether it is compared with
    /// the source instead of the destination.
    exact: [(u64, bool); reg::RAR_ENTRIES as usize],
    exact_count: usize,
    /// [`Params::mpe_passes_broadcasts`](crate::Params::mpe_passes_broadcasts).
    mpe_passes_broadcasts: bool,
}

/// How a frame passed the filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// By an address, by promiscuity or as a broadcast.
    Exact,
    /// Only by the multicast hash: the driver has to check (PIF, SDM 3.2.3.1).
    Inexact,
}

/// The kind of a destination address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cast {
    Uni,
    Multi,
    Broad,
}

/// The kind of a frame's destination; a frame may be too short to have one.
#[inline]
pub(crate) fn cast(frame: &[u8]) -> Cast {
    match frame.first_chunk().map(number) {
        Some(BROADCAST) => Cast::Broad,
        Some(a) if a & GROUP != 0 => Cast::Multi,
        _ => Cast::Uni,
    }
}

/// The broadcast address, as a number.
const BROADCAST: u64 = 0xFFFF_FFFF_FFFF;
/// The group bit of an address, as a number.
const GROUP: u64 = 1;

/// An address as a number; the first byte is the lowest.
#[inline]
fn number(a: &[u8; ADDRESS_BYTES]) -> u64 {
    let (low, high) = (u32::from_le_bytes([a[0], a[1], a[2], a[3]]), u16::from_le_bytes([a[4], a[5]]));
    u64::from(low) | u64::from(high) << 32
}

impl Filter {
    /// The state after a reset with an EEPROM: only the station address is valid (SDM 13.5.3).
    pub(crate) fn new(params: &Params, station: [u8; ADDRESS_BYTES]) -> Self {
        let mut f = Self {
            addresses: [0; 2 * reg::RAR_ENTRIES as usize],
            multicast: [0; reg::MTA_WORDS as usize],
            vlans: [0; reg::VFTA_WORDS as usize],
            exact: [(0, false); reg::RAR_ENTRIES as usize],
            exact_count: 0,
            mpe_passes_broadcasts: params.mpe_passes_broadcasts,
        };
        let n = number(&station);
        f.addresses[0] = n as u32;
        f.addresses[1] = (n >> 32) as u32 | rah::AV;
        f.index();
        f
    }

    fn index(&mut self) {
        self.exact_count = 0;
        for pair in self.addresses.chunks_exact(2) {
            if pair[1] & rah::AV != 0 {
                let address = u64::from(pair[0]) | u64::from(pair[1] & rah::ADDRESS_MASK) << 32;
                self.exact[self.exact_count] = (address, pair[1] & rah::AS_SOURCE != 0);
                self.exact_count += 1;
            }
        }
    }

    /// The register at `offset`, if it belongs to the filters.
    pub(crate) fn read(&self, offset: u32) -> Option<u32> {
        let (table, i) = self.find(offset)?;
        Some(match table {
            Table::Address => self.addresses[i],
            Table::Multicast => self.multicast[i],
            Table::Vlan => self.vlans[i],
        })
    }

    /// Writes the register at `offset`; `false` if it does not belong to the filters.
    pub(crate) fn write(&mut self, offset: u32, value: u32) -> bool {
        let Some((table, i)) = self.find(offset) else { return false };
        match table {
            Table::Address => {
                self.addresses[i] = value;
                self.index();
            }
            Table::Multicast => self.multicast[i] = value,
            Table::Vlan => self.vlans[i] = value,
        }
        true
    }

    fn find(&self, offset: u32) -> Option<(Table, usize)> {
        let inside = |first: u32, words: usize| {
            let i = offset.checked_sub(first)? as usize / 4;
            (i < words).then_some(i)
        };
        if let Some(i) = inside(reg::RAL0, self.addresses.len()) {
            return Some((Table::Address, i));
        }
        if let Some(i) = inside(reg::MTA, self.multicast.len()) {
            return Some((Table::Multicast, i));
        }
        inside(reg::VFTA, self.vlans.len()).map(|i| (Table::Vlan, i))
    }

    /// The station address: entry 0.
    pub(crate) fn station(&self) -> u64 {
        u64::from(self.addresses[0]) | u64::from(self.addresses[1] & rah::ADDRESS_MASK) << 32
    }

    /// Whether the address filters pass `frame` with this RCTL.
    #[inline]
    pub(crate) fn address(&self, control: u32, frame: &[u8]) -> Option<Pass> {
        let destination = frame.first_chunk::<ADDRESS_BYTES>()?;
        let to = number(destination);
        if to & GROUP != 0 {
            return self.group(control, frame, *destination);
        }
        (control & rctl::UPE != 0 || self.exact(to, frame)).then_some(Pass::Exact)
    }

    /// As [`address`](Self::address), for multicast and broadcast frames.
    #[inline(never)]
    fn group(&self, control: u32, frame: &[u8], destination: [u8; ADDRESS_BYTES]) -> Option<Pass> {
        let to = number(&destination);
        let open = if to == BROADCAST { rctl::BAM } else { rctl::MPE };
        if control & open != 0 || self.exact(to, frame) {
            return Some(Pass::Exact);
        }
        let (row, bit) = reg::mta_position(destination, control >> rctl::MO_SHIFT & 3);
        if self.multicast[row as usize] >> bit & 1 != 0 {
            return Some(Pass::Inexact);
        }
        // A multicast that MPE accepts has passed above, so this frame is a broadcast.
        (self.mpe_passes_broadcasts && control & rctl::MPE != 0).then_some(Pass::Exact)
    }

    /// Whether an address register passes a frame to `to`.
    #[inline]
    fn exact(&self, to: u64, frame: &[u8]) -> bool {
        let from = || frame[ADDRESS_BYTES..].first_chunk().map(number);
        let mut exact = self.exact[..self.exact_count].iter();
        exact.any(|&(address, is_source)| if is_source { from() == Some(address) } else { to == address })
    }

    /// Whether the VLAN filter passes a frame with this tag (SDM 9.3).
    pub(crate) fn vlan(&self, control: u32, tag: u16) -> bool {
        if control & rctl::VFE == 0 {
            return true;
        }
        let cfi = tag >> 12 & 1 != 0;
        if control & rctl::CFIEN != 0 && cfi != (control & rctl::CFI != 0) {
            return false;
        }
        let (row, bit) = reg::vfta_position(tag);
        self.vlans[row as usize] >> bit & 1 != 0
    }
}

enum Table {
    Address,
    Multicast,
    Vlan,
}

/// The VLAN tag of a frame whose type is `vet` (SDM 9.3).
#[inline]
pub(crate) fn vlan_tag(frame: &[u8], vet: u32) -> Option<u16> {
    let b = frame.get(12..16)?;
    (u32::from(u16::from_be_bytes([b[0], b[1]])) == vet).then(|| u16::from_be_bytes([b[2], b[3]]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kpps_datasheet::Chip;

    const STATION: [u8; 6] = [0x02, 0, 0, 0, 0, 1];

    fn to(destination: [u8; 6]) -> [u8; 60] {
        let mut frame = [0; 60];
        frame[..6].copy_from_slice(&destination);
        frame[6..12].copy_from_slice(&[0x02, 0, 0, 0, 0, 9]);
        frame
    }

    #[test]
    fn addresses() {
        let mut f = Filter::new(&Params::of(Chip::I82540em), STATION);
        let other = to([0x02, 0, 0, 0, 0, 2]);
        assert_eq!(f.address(0, &to(STATION)), Some(Pass::Exact));
        assert_eq!(f.address(0, &other), None);
        assert_eq!(f.address(rctl::UPE, &other), Some(Pass::Exact));
        assert_eq!(f.address(0, &to([0xFF; 6])), None);
        assert_eq!(f.address(rctl::BAM, &to([0xFF; 6])), Some(Pass::Exact));
        assert_eq!(f.address(rctl::BAM, &[0xFF; 5]), None);
        // By source address (SDM 13.5.3, AS).
        assert!(f.write(reg::ral(3), 0x0000_0002));
        assert!(f.write(reg::rah(3), 0x0900 | rah::AV | rah::AS_SOURCE));
        assert_eq!(f.address(0, &other), Some(Pass::Exact));
        assert_eq!(f.read(reg::ral(3)), Some(2));
    }

    #[test]
    fn multicast_hash() {
        let mut f = Filter::new(&Params::of(Chip::I82540em), STATION);
        let group = [0x13, 0x34, 0x56, 0x78, 0x9A, 0xBC];
        assert_eq!(f.address(0, &to(group)), None);
        assert_eq!(f.address(rctl::MPE, &to(group)), Some(Pass::Exact));
        // SDM 13.5.1: row 94, bit 9.
        assert!(f.write(reg::mta(94), 1 << 9));
        assert_eq!(f.address(0, &to(group)), Some(Pass::Inexact));
        assert_eq!(f.address(1 << rctl::MO_SHIFT, &to(group)), None);
        // The hash is not for unicasts.
        assert_eq!(f.address(0, &to([0x12, 0x34, 0x56, 0x78, 0x9A, 0xBC])), None);
    }

    #[test]
    fn broadcasts_under_mpe() {
        let strict = Params::of(Chip::I82540em);
        let lenient = Params { mpe_passes_broadcasts: true, ..strict.clone() };
        let broadcast = to([0xFF; 6]);
        let passed = |params: &Params, control| Filter::new(params, STATION).address(control, &broadcast);
        for control in [rctl::MPE, rctl::MPE | rctl::UPE] {
            assert_eq!(passed(&strict, control), None);
            assert_eq!(passed(&lenient, control), Some(Pass::Exact));
        }
        for params in [&strict, &lenient] {
            assert_eq!(passed(params, rctl::BAM), Some(Pass::Exact));
            assert_eq!(passed(params, rctl::UPE), None);
        }
        // The perfect and the imperfect filter pass broadcasts, too (SDM 13.4.22, BAM).
        let mut f = Filter::new(&strict, STATION);
        assert!(f.write(reg::mta(127), 1 << 31));
        assert_eq!(f.address(rctl::MPE, &broadcast), Some(Pass::Inexact));
        assert!(f.write(reg::ral(1), u32::MAX) && f.write(reg::rah(1), 0xFFFF | rah::AV));
        assert_eq!(f.address(0, &broadcast), Some(Pass::Exact));
    }

    #[test]
    fn vlans() {
        let mut f = Filter::new(&Params::of(Chip::I82540em), STATION);
        assert!(f.vlan(0, 5));
        assert!(!f.vlan(rctl::VFE, 5));
        assert!(f.write(reg::vfta(0), 1 << 5));
        assert!(f.vlan(rctl::VFE, 0xE005));
        assert!(!f.vlan(rctl::VFE | rctl::CFIEN, 0x1005));
        assert!(f.vlan(rctl::VFE | rctl::CFIEN | rctl::CFI, 0x1005));
        let mut frame = to(STATION);
        frame[12..16].copy_from_slice(&[0x81, 0, 0x20, 5]);
        assert_eq!(vlan_tag(&frame, 0x8100), Some(0x2005));
        assert_eq!(vlan_tag(&frame, 0x9100), None);
        assert_eq!(vlan_tag(&frame[..15], 0x8100), None);
    }
}
