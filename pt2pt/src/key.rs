//! Matching keys: context, source and tag, where source and tag may be wildcards.
//!
//! A key's *class* shows which of the two are wildcards.

/// The key of a message, or of a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) context: u64,
    pub(crate) source: u32,
    pub(crate) tag: i32,
}

/// Number of classes.
pub(crate) const CLASSES: usize = 4;

impl Key {
    /// The wildcard for the source. No communicator has that many ranks.
    pub(crate) const ANY_SOURCE: u32 = u32::MAX;
    /// The wildcard for the tag. Tags are not negative; the numbers of persistent collectives are
    /// greater.
    pub(crate) const ANY_TAG: i32 = i32::MIN;

    /// Bit 0: any source; bit 1: any tag.
    #[inline]
    pub(crate) fn class(&self) -> usize {
        usize::from(self.source == Key::ANY_SOURCE) | usize::from(self.tag == Key::ANY_TAG) << 1
    }

    /// The key of that class which accepts this message.
    #[inline]
    pub(crate) fn widened(&self, class: usize) -> Key {
        Key {
            context: self.context,
            source: if class & 1 != 0 { Key::ANY_SOURCE } else { self.source },
            tag: if class & 2 != 0 { Key::ANY_TAG } else { self.tag },
        }
    }

    /// Whether a receive with this key takes the message `of`.
    #[inline]
    pub(crate) fn accepts(&self, of: &Key) -> bool {
        self.context == of.context
            && (self.source == of.source || self.source == Key::ANY_SOURCE)
            && (self.tag == of.tag || self.tag == Key::ANY_TAG)
    }

    /// False for what no well-behaved sender names: a wildcard.
    #[inline]
    pub(crate) fn is_exact(&self) -> bool {
        self.class() == 0
    }
}
