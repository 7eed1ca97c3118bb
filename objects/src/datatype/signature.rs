//! The signature: the basic elements of a datatype in packing order (MPI-5.0 §5.1), run-length
//! coded.
//!
//! It shows how many elements a number of bytes holds and whether a datatype consists of one basic
//! type. It also drives the conversion to "external32", which works on packed data and therefore
//! needs no layout.

use std::sync::Arc;

use super::basic::{Basic, Repr};

/// Most items of a sequence that is inlined into the one around it.
const MAX_INLINED_ITEMS: usize = 64;

/// Runs of basic elements. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Signature {
    Empty,
    /// A number of elements of one basic type.
    Run(Basic, u64),
    /// A repeated signature.
    Repeat(Arc<Repeat>),
    /// A sequence of signatures.
    Sequence(Arc<Sequence>),
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Repeat {
    count: u64,
    totals: Totals,
    pub(super) body: Signature,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Sequence {
    totals: Totals,
    pub(super) items: Box<[Signature]>,
}

/// The most used totals of a signature. Never above 2^63.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Packed bytes.
    pub(crate) size: u64,
    /// Basic elements; a pair counts as two.
    pub(crate) elements: u64,
    /// Bytes in "external32".
    pub(crate) external: u64,
    /// Depth of the recursion.
    pub(crate) depth: u32,
}

impl Totals {
    fn times(self, count: u64) -> Option<Totals> {
        let size = self.size.checked_mul(count).filter(|&size| size <= i64::MAX as u64)?;
        Some(Totals {
            size,
            elements: self.elements.checked_mul(count)?,
            external: self.external.checked_mul(count).filter(|&size| size <= i64::MAX as u64)?,
            depth: self.depth + 1,
        })
    }

    fn plus(self, other: Totals) -> Option<Totals> {
        Some(Totals {
            size: self.size.checked_add(other.size).filter(|&size| size <= i64::MAX as u64)?,
            elements: self.elements.checked_add(other.elements)?,
            external: self.external.checked_add(other.external)?,
            depth: self.depth.max(other.depth + 1),
        })
    }
}

impl Signature {
    /// Returns sizes and counts.
    pub(crate) fn totals(&self) -> Totals {
        match self {
            Signature::Empty => Totals::default(),
            Signature::Run(basic, count) => Totals {
                size: basic.repr.size() * count,
                elements: basic.repr.elements() * count,
                external: basic.repr.external_size() * count,
                depth: 1,
            },
            Signature::Repeat(inner) => inner.totals,
            Signature::Sequence(inner) => inner.totals,
        }
    }

    /// Returns the basic type, if there is only one.
    pub(crate) fn basic(&self) -> Option<Basic> {
        match self {
            Signature::Run(basic, _) => Some(*basic),
            _ => None,
        }
    }

    /// Returns the signature `count` times; `None` if out of range.
    pub(crate) fn repeat(&self, count: u64) -> Option<Signature> {
        let totals = self.totals().times(count)?;
        Some(match self {
            _ if count == 0 => Signature::Empty,
            _ if count == 1 => self.clone(),
            Signature::Empty => Signature::Empty,
            Signature::Run(basic, each) => Signature::Run(*basic, each * count),
            Signature::Repeat(inner) => {
                Signature::repeated(inner.count * count, totals, &inner.body)
            }
            Signature::Sequence(_) => Signature::repeated(count, totals, self),
        })
    }

    /// Returns the whole basic elements in the first `bytes` packed bytes, and whether a part of
    /// one remains.
    pub(crate) fn elements_of(&self, bytes: u64) -> (u64, bool) {
        let totals = self.totals();
        if totals.size == 0 {
            return (0, bytes > 0);
        }
        match self {
            Signature::Empty => (0, bytes > 0),
            Signature::Run(basic, _) => run_elements(*basic, bytes),
            Signature::Repeat(inner) => {
                let body = inner.body.totals();
                let (elements, partial) = inner.body.elements_of(bytes % body.size);
                (bytes / body.size * body.elements + elements, partial)
            }
            Signature::Sequence(inner) => {
                let (mut left, mut elements) = (bytes, 0);
                for item in &inner.items {
                    let each = item.totals();
                    if left < each.size {
                        let (more, partial) = item.elements_of(left);
                        return (elements + more, partial);
                    }
                    left -= each.size;
                    elements += each.elements;
                }
                (elements, left > 0)
            }
        }
    }

    /// Returns the packed bytes of the first `elements` basic elements; there are as many.
    pub(crate) fn bytes_of(&self, elements: u64) -> u64 {
        match self {
            Signature::Empty => 0,
            Signature::Run(basic, _) => run_bytes(*basic, elements),
            Signature::Repeat(inner) => {
                let body = inner.body.totals();
                elements / body.elements * body.size + inner.body.bytes_of(elements % body.elements)
            }
            Signature::Sequence(inner) => {
                let (mut left, mut bytes) = (elements, 0);
                for item in &inner.items {
                    let each = item.totals();
                    if left < each.elements {
                        return bytes + item.bytes_of(left);
                    }
                    left -= each.elements;
                    bytes += each.size;
                }
                bytes
            }
        }
    }

    /// Calls `run` for each run of equal elements; it may end the iteration by an error.
    pub(crate) fn try_for_each_run<E>(
        &self,
        run: &mut impl FnMut(Basic, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            Signature::Empty => Ok(()),
            Signature::Run(basic, count) => run(*basic, *count),
            Signature::Repeat(inner) => {
                (0..inner.count).try_for_each(|_| inner.body.try_for_each_run(run))
            }
            Signature::Sequence(inner) => {
                inner.items.iter().try_for_each(|item| item.try_for_each_run(run))
            }
        }
    }

    fn repeated(count: u64, totals: Totals, body: &Signature) -> Signature {
        Signature::Repeat(Arc::new(Repeat { count, totals, body: body.clone() }))
    }

    /// Returns the signature as a repeated body.
    fn factors(&self) -> (u64, &Signature) {
        match self {
            Signature::Repeat(inner) => (inner.count, &inner.body),
            other => (1, other),
        }
    }
}

fn run_elements(basic: Basic, bytes: u64) -> (u64, bool) {
    let (size, each) = (basic.repr.size(), basic.repr.elements());
    let (whole, rest) = (bytes / size * each, bytes % size);
    match basic.repr {
        Repr::Pair(value, _) if rest >= value.size() => (whole + 1, rest > value.size()),
        _ => (whole, rest > 0),
    }
}

fn run_bytes(basic: Basic, elements: u64) -> u64 {
    let (size, each) = (basic.repr.size(), basic.repr.elements());
    let rest = match basic.repr {
        Repr::Pair(value, _) if elements % each == 1 => value.size(),
        _ => 0,
    };
    elements / each * size + rest
}

/// Concatenates signatures.
#[derive(Default)]
pub(crate) struct Builder {
    items: Vec<Signature>,
    totals: Totals,
}

impl Builder {
    /// Adds a signature; `None` if out of range.
    pub(crate) fn push(&mut self, signature: &Signature) -> Option<()> {
        self.totals = self.totals.plus(signature.totals())?;
        match signature {
            Signature::Empty => Some(()),
            other => self.append(other),
        }
    }

    /// Returns the whole; `None` if out of range.
    pub(crate) fn finish(self) -> Option<Signature> {
        let mut items = dissolved(self.items)?;
        Some(match items.len() {
            0 => Signature::Empty,
            1 => items.swap_remove(0),
            _ => {
                let depth = 1 + items.iter().map(|item| item.totals().depth).max().unwrap_or(0);
                let totals = Totals { depth, ..self.totals };
                Signature::Sequence(Arc::new(Sequence { totals, items: items.into() }))
            }
        })
    }

    fn append(&mut self, signature: &Signature) -> Option<()> {
        if let Some(last) = self.items.last_mut() {
            match (&mut *last, signature) {
                (Signature::Run(basic, count), Signature::Run(next, more)) if basic == next => {
                    *count += more;
                    return Some(());
                }
                (Signature::Run(..), _) | (_, Signature::Run(..)) => {}
                (last, next) if last.factors().1 == next.factors().1 => {
                    let ((count, body), more) = (last.factors(), next.factors().0);
                    *last = body.clone().repeat(count + more)?;
                    return Some(());
                }
                _ => {}
            }
        }
        self.items.push(signature.clone());
        Some(())
    }
}

/// Returns the items, with short sequences among them inlined (except for a single one).
fn dissolved(items: Vec<Signature>) -> Option<Vec<Signature>> {
    if items.len() < 2 {
        return Some(items);
    }
    let mut flat = Builder::default();
    for item in &items {
        match item {
            Signature::Sequence(inner) if inner.items.len() <= MAX_INLINED_ITEMS => {
                inner.items.iter().try_for_each(|item| flat.append(item))?;
            }
            other => flat.append(other)?,
        }
    }
    Some(flat.items)
}
