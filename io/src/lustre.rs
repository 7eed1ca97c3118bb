//! Stripes of a file of Lustre: the bytes of its public interface, without its library.
//!
//! The layout of a file is fixed before its first object is made. Therefore a file whose stripes
//! hints set is created with [`DELAY_CREATE`], which makes none, and gets its layout by the ioctl
//! [`SET_STRIPE`]. Layouts are `lov_user_md_v1` or `_v3`, which begin alike: magic (4 bytes),
//! pattern (4), object (16), stripe size (4), stripe count (2), first server (2). Tests check these
//! bytes; no Lustre was at hand.

/// Flag of open(2): makes no objects yet. Clients before 2.10 look at one bit, later ones at all.
pub(crate) const DELAY_CREATE: i32 = 0x100_0000 | libc::O_NOCTTY | libc::O_ASYNC;

/// `_IOW('f', 154, long)`.
pub(crate) const SET_STRIPE: u64 = 0x4008_669a;

const MAGIC_V1: u32 = 0x0bd1_0bd0;
const MAGIC_V3: u32 = 0x0bd3_0bd0;
/// Stripes go round the servers.
const RAID0: u32 = 1;
/// The system chooses the first server.
const ANY_SERVER: u16 = u16::MAX;
/// Stripe sizes are multiples of this.
const UNIT: u64 = 64 << 10;
/// Most stripes of a file.
const MAX_STRIPES: u64 = 2000;

/// Bytes of a `lov_user_md_v1` without objects.
const BYTES: usize = 32;

/// Returns the layout that hints ask for, 0 for what the system prefers; `None` if they ask for
/// none.
pub(crate) fn layout(stripe_bytes: u64, stripes: u64) -> Option<[u8; BYTES]> {
    if stripe_bytes == 0 && stripes == 0 {
        return None;
    }
    let size = stripe_bytes.next_multiple_of(UNIT).min(u64::from(u32::MAX) / UNIT * UNIT) as u32;
    let mut bytes = [0; BYTES];
    bytes[..4].copy_from_slice(&MAGIC_V1.to_le_bytes());
    bytes[4..8].copy_from_slice(&RAID0.to_le_bytes());
    bytes[24..28].copy_from_slice(&size.to_le_bytes());
    bytes[28..30].copy_from_slice(&(stripes.min(MAX_STRIPES) as u16).to_le_bytes());
    bytes[30..].copy_from_slice(&ANY_SERVER.to_le_bytes());
    Some(bytes)
}

/// Returns size and number of the stripes of a layout, as the attribute `lustre.lov` has it.
pub(crate) fn stripes_of(attribute: &[u8]) -> Option<(u64, u64)> {
    let magic = u32::from_le_bytes(attribute.get(..4)?.try_into().ok()?);
    let size = u32::from_le_bytes(attribute.get(24..28)?.try_into().ok()?);
    let count = u16::from_le_bytes(attribute.get(28..30)?.try_into().ok()?);
    let is_plain = matches!(magic, MAGIC_V1 | MAGIC_V3);
    (is_plain && size > 0).then_some((size.into(), count.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_the_bytes_of_the_interface() {
        assert_eq!(layout(0, 0), None);
        let layout = layout(1_000_000, 4).unwrap();
        assert_eq!(layout[..8], [0xd0, 0x0b, 0xd1, 0x0b, 1, 0, 0, 0]);
        assert_eq!(layout[8..24], [0; 16]);
        assert_eq!(layout[24..], [0, 0, 0x10, 0, 4, 0, 0xff, 0xff]);
        assert_eq!(stripes_of(&layout), Some((1 << 20, 4)));
        let most = super::layout(1 << 40, 1 << 20).unwrap();
        assert_eq!(stripes_of(&most), Some(((1 << 32) - (64 << 10), 2000)));
        // _IOW: direction 1, 8 bytes, group 'f', number 154.
        assert_eq!(SET_STRIPE, 1 << 30 | 8 << 16 | u64::from(b'f') << 8 | 154);
        assert_eq!(DELAY_CREATE, 0o100_020_400);
    }

    #[test]
    fn nonsense_is_no_layout() {
        let mut attribute = layout(1 << 20, 4).unwrap();
        assert_eq!(stripes_of(&attribute[..29]), None);
        attribute[0] = 1;
        assert_eq!(stripes_of(&attribute), None);
    }
}
