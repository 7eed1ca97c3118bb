//! Boxes of regions that requests no longer use: a repeated transfer allocates nothing.
//!
//! Requests hold their region in a box, since most have none. At most [`MAX_SPARE`] boxes are kept.

use fabric::Region;

/// The most boxes that are kept.
const MAX_SPARE: usize = 64;

/// Boxes for the next regions.
#[derive(Debug, Default)]
pub(crate) struct SpareRegions(
    #[expect(clippy::vec_box, reason = "requests take them")] Vec<Box<Region>>,
);

impl SpareRegions {
    /// Boxes a region.
    pub(crate) fn boxed(&mut self, region: Region) -> Box<Region> {
        match self.0.pop() {
            Some(mut spare) => {
                *spare = region;
                spare
            }
            None => Box::new(region),
        }
    }

    /// Keeps a request's box for another request.
    pub(crate) fn give(&mut self, region: Option<Box<Region>>) {
        if self.0.len() < MAX_SPARE {
            self.0.extend(region);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_is_used_again() {
        let mut spare = SpareRegions::default();
        let region = Region { addr: 64, keys: [0; 4] };
        let first = spare.boxed(region);
        let at = std::ptr::from_ref(&*first);
        spare.give(Some(first));
        assert_eq!(at, std::ptr::from_ref(&*spare.boxed(region)));
    }
}
