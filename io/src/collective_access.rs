//! Collective reads and writes: blocking, nonblocking and split.
//!
//! All forms are one access by [`Steps`]: the members compare what they want, the data moves
//! directly or through aggregators, and the members agree on the outcome. A nonblocking access
//! begins when the one that was started before it on the file is done. A split collective is a
//! nonblocking access that its end call waits for.
//!
//! A wrong argument of one member is an error of the access, so that all members hear of it.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use objects::{Class, Error, Result};

use crate::access::{Coordination, Direction, Position};
use crate::aggregators;
use crate::agreement::{agree_by, agree_with, first_error, first_error_by};
use crate::background::Wanted;
use crate::collective::{Decision, Domains, Summary, decide};
use crate::datarep::UserData;
use crate::file::{File, Split, SplitKind, too_far};
use crate::hints::{Hints, Switch};
use crate::members::Exchange;
use crate::pending::{Outcome, Pending};
use crate::statistics::Access;
use crate::steps::{Steps, Task, block_on};
use crate::two_phase::TwoPhase;
use crate::window::Window;

/// What a started access does first.
enum First {
    /// The members compare what they want.
    Compare(Result<Wanted>, Hints),
    /// Each moves its own data.
    Move(Result<Wanted>),
    /// Nothing: the data has moved.
    Agree(Outcome),
}

impl File {
    /// Reads or writes and returns when that is done. Collective if so coordinated; `data` is then
    /// an error that the caller found before, so that all members hear of it.
    pub fn access(
        self: &Arc<File>,
        direction: Direction,
        position: Position,
        coordination: Coordination,
        data: Result<UserData>,
    ) -> Outcome {
        if coordination == Coordination::Independent {
            return data
                .map_or_else(Outcome::failed, |data| self.one_access(direction, position, &data));
        }
        let first =
            First::Compare(self.wanted(direction, position, data), self.state().hints.clone());
        block_on(self.group(), async |steps| self.carry_out(&steps, direction, first).await)
    }

    /// Reads or writes in order of rank at the shared pointer. Collective.
    pub fn access_ordered(
        self: &Arc<File>,
        direction: Direction,
        data: Result<UserData>,
    ) -> Outcome {
        let first = match self.ordered(direction, data) {
            Ok(wanted) => First::Move(wanted),
            Err(error) => return Outcome::failed(error),
        };
        block_on(self.group(), async |steps| self.carry_out(&steps, direction, first).await)
    }

    /// Starts a read or write that goes on after the call. Collective if so coordinated; see
    /// [`File::access`].
    pub fn start(
        self: &Arc<File>,
        direction: Direction,
        position: Position,
        coordination: Coordination,
        data: Result<UserData>,
    ) -> Result<Arc<Pending>> {
        if coordination == Coordination::Collective {
            let wanted = self.wanted(direction, position, data);
            let first = match self.view().datarep.is_users() {
                true => First::Agree(self.transfer_now(direction, wanted)),
                false => First::Compare(wanted, self.state().hints.clone()),
            };
            return Ok(self.start_together(direction, first));
        }
        let data = data?;
        let (view, packed) = self.begin_access(direction, position, &data)?;
        if view.datarep.is_users() {
            let outcome = self.transfer(&view, packed, &data, direction);
            return Ok(Arc::new(Pending::finished(outcome)));
        }
        Ok(self.begin_transfer((view, packed, Arc::new(data)), direction))
    }

    /// Performs the begin call of a split collective. Collective.
    pub fn begin_split(
        self: &Arc<File>,
        kind: SplitKind,
        direction: Direction,
        offset: i64,
        data: Result<UserData>,
    ) -> Result<()> {
        self.check_no_split()?;
        let start =
            |position| self.start(direction, position, Coordination::Collective, data.clone());
        let pending = match kind {
            SplitKind::At => start(Position::At(offset))?,
            SplitKind::All => start(Position::Individual)?,
            SplitKind::Ordered => match self.ordered(direction, data) {
                Ok(wanted) if self.view().datarep.is_users() => {
                    let moved = self.transfer_now(direction, wanted);
                    self.start_together(direction, First::Agree(moved))
                }
                Ok(wanted) => self.start_together(direction, First::Move(wanted)),
                Err(error) => Arc::new(Pending::finished(Outcome::failed(error))),
            },
        };
        self.state().split = Some(Split { direction, kind, pending });
        Ok(())
    }

    /// Performs the end call of a split collective.
    pub fn end_split(&self, kind: SplitKind, direction: Direction) -> Outcome {
        let pending = match &self.state().split {
            Some(split) if (split.kind, split.direction) == (kind, direction) => {
                split.pending.clone()
            }
            Some(_) => {
                return Outcome::failed(Error::new(
                    Class::Other,
                    "the split collective that is active was begun by another call",
                ));
            }
            None => {
                let text = "no split collective is active on this file";
                return Outcome::failed(Error::new(Class::Other, text));
            }
        };
        self.members.wait(&pending);
        self.state().split = None;
        let vanished = || Outcome::failed(Error::internal("a split collective vanished"));
        pending.take().unwrap_or_else(vanished)
    }

    /// Checks a collective access and moves its pointer.
    fn wanted(
        &self,
        direction: Direction,
        position: Position,
        data: Result<UserData>,
    ) -> Result<Wanted> {
        self.check_no_split().and(data).and_then(|data| {
            let (view, packed) = self.begin_access(direction, position, &data)?;
            Ok((view, packed, Arc::new(data)))
        })
    }

    /// Moves the data in the call that starts an access: a user's conversion runs on the user's
    /// thread.
    fn transfer_now(&self, direction: Direction, wanted: Result<Wanted>) -> Outcome {
        match wanted {
            Ok((view, packed, data)) => self.transfer(&view, packed, &data, direction),
            Err(error) => Outcome::failed(error),
        }
    }

    /// Starts a collective access after the one that was started before it.
    fn start_together(self: &Arc<File>, direction: Direction, first: First) -> Arc<Pending> {
        let promise = Arc::new(Pending::promise());
        let before = self
            .started
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .replace(promise.clone())
            .filter(|before| !before.is_done());
        let file = self.clone();
        Task::start(self.members.clone(), promise.clone(), async move |steps: Steps<'static>| {
            if let Some(before) = before {
                steps.wait(before).await;
            }
            file.carry_out(&steps, direction, first).await
        });
        promise
    }

    /// Carries out a collective access. Collective.
    async fn carry_out(
        self: &Arc<File>,
        steps: &Steps<'_>,
        direction: Direction,
        first: First,
    ) -> Outcome {
        let outcome = match first {
            First::Compare(mine, hints) => self.compare(steps, direction, mine, &hints).await,
            First::Move(Ok(wanted)) => self.move_directly(steps, direction, wanted).await,
            First::Move(Err(error)) => Ok(agree_on(steps, Outcome::failed(error)).await),
            First::Agree(moved) => Ok(agree_on(steps, moved).await),
        };
        outcome.unwrap_or_else(Outcome::failed)
    }

    /// Moves the data as the members decide. Collective.
    async fn compare(
        self: &Arc<File>,
        steps: &Steps<'_>,
        direction: Direction,
        mine: Result<Wanted>,
        hints: &Hints,
    ) -> Result<Outcome> {
        let (summary, mine) = match mine.and_then(|mine| Ok((self.summary(&mine)?, mine))) {
            Ok((summary, mine)) => (summary, Ok(mine)),
            Err(error) => {
                (Summary { class: error.class() as i32, ..Summary::default() }, Err(error))
            }
        };
        let decision = decide(steps, summary, hints, direction).await?;
        self.reasons.count(&decision);
        match (decision, mine) {
            (Decision::Failed { rank, class }, mine) => {
                Err(first_error_by(steps, mine.map(|_| ()), rank, class).await?)
            }
            (_, Err(error)) => Err(error),
            (Decision::Direct(_), Ok(wanted)) => self.move_directly(steps, direction, wanted).await,
            (Decision::Aggregate(_, domains), Ok(wanted)) => {
                self.aggregate(steps, direction, &wanted, domains, hints).await
            }
        }
    }

    /// Moves the data of this member, and agrees on the outcome. Collective.
    async fn move_directly(
        self: &Arc<File>,
        steps: &Steps<'_>,
        direction: Direction,
        wanted: Wanted,
    ) -> Result<Outcome> {
        let moved = if steps.is_blocking() {
            let (view, packed, data) = wanted;
            self.transfer(&view, packed, &data, direction)
        } else {
            let pending = self.begin_transfer(wanted, direction);
            steps.wait(pending.clone()).await;
            let vanished = || Outcome::failed(Error::internal("a transfer vanished"));
            pending.take().unwrap_or_else(vanished)
        };
        Ok(agree_on(steps, moved).await)
    }

    /// Moves the data through aggregators. Collective.
    async fn aggregate(
        &self,
        steps: &Steps<'_>,
        direction: Direction,
        (view, packed, data): &Wanted,
        domains: Domains,
        hints: &Hints,
    ) -> Result<Outcome> {
        let locks = (hints.ds_write == Switch::Enable).then(|| self.range_locks.clone());
        let (disk, size) = (self.disk.clone(), self.members.size());
        let window = Window { disk, size, locks, short_bytes: self.short_bytes() };
        let aggregators = aggregators::choose(&self.places, domains.aggregators);
        let (view, packed) = (&**view, *packed);
        let all = TwoPhase { steps, window, view, packed, data, domains, aggregators };
        let start = Instant::now();
        let (bytes, result) = all.run(direction).await?;
        let (pieces, time) = (view.pieces_of(bytes), start.elapsed());
        self.statistics.add(direction, &Access { bytes, pieces, aggregated: true, time });
        // An aggregator that failed may have had data of any member.
        agree_by(steps, result, &[]).await?;
        Ok(Outcome { bytes, error: None })
    }

    /// Returns what this member wants, for the others.
    fn summary(&self, (view, packed, data): &Wanted) -> Result<Summary> {
        let len = view.datarep.file_bytes(data)?;
        let (start, end) = view.span(*packed, len)?;
        Ok(Summary {
            class: 0,
            // Conversions of one member may fail, and must not keep the others waiting.
            eligible: view.datarep.is_native()
                && view.is_disjoint(*packed, len)
                && !view.is_empty()
                && !self.atomicity(),
            start,
            end,
            len,
            pieces: view.pieces_of(len),
        })
    }

    /// Reserves this member's part at the shared pointer; an inner error is this member's own.
    /// Collective.
    fn ordered(&self, direction: Direction, data: Result<UserData>) -> Result<Result<Wanted>> {
        let view = self.view();
        let mine = self
            .check_no_split()
            .and_then(|()| self.check_mode(direction, true))
            .and(data)
            .and_then(|data| Ok((view.etypes(view.datarep.file_bytes(&data)?)?, data)));
        let etypes = mine.as_ref().map(|(etypes, _)| *etypes).map_err(Clone::clone);
        let before = self.reserve_ordered(etypes)?;
        let (_, data) = mine?;
        Ok(view.packed(before).map(|packed| (view, packed, Arc::new(data))))
    }

    /// Returns where this member's part begins, and moves the shared pointer past all parts. An
    /// error of one member is an error of all. Collective.
    fn reserve_ordered(&self, mine: Result<i64>) -> Result<i64> {
        let etypes = *mine.as_ref().unwrap_or(&0);
        let all = agree_with(self.group(), mine.map(|_| ()), &etypes.to_ne_bytes())?;
        let parts =
            || all.chunks_exact(8).map(|word| i64::from_ne_bytes(std::array::from_fn(|i| word[i])));
        let (mut word, mut moved) = ([0; 12], Ok(()));
        if self.members.rank() == 0 {
            let total = parts().try_fold(0i64, |sum, part| sum.checked_add(part));
            let first = total.ok_or_else(too_far).and_then(|total| {
                let first = self.shared.fetch_add(total)?;
                first.checked_add(total).map(|_| first).ok_or_else(too_far)
            });
            match first {
                Ok(first) => word[..8].copy_from_slice(&first.to_ne_bytes()),
                Err(error) => {
                    word[8..].copy_from_slice(&(error.class() as i32).to_ne_bytes());
                    moved = Err(error);
                }
            }
        }
        let exchange = Exchange::Broadcast { root: 0, bytes: word.to_vec() };
        word.copy_from_slice(&self.members.run(exchange)?.bytes);
        let class = i32::from_ne_bytes(std::array::from_fn(|i| word[8 + i]));
        if class != 0 {
            return Err(first_error(&*self.members, moved, 0, class)?);
        }
        let first = i64::from_ne_bytes(std::array::from_fn(|i| word[i]));
        let before = parts()
            .take(self.members.rank() as usize)
            .try_fold(first, |sum, part| sum.checked_add(part));
        before.ok_or_else(too_far)
    }

    fn one_access(&self, direction: Direction, position: Position, data: &UserData) -> Outcome {
        match self.begin_access(direction, position, data) {
            Ok((view, packed)) => self.transfer(&view, packed, data, direction),
            Err(error) => Outcome::failed(error),
        }
    }
}

/// Makes the failure of one member an error of all. Collective.
async fn agree_on(steps: &Steps<'_>, mine: Outcome) -> Outcome {
    let result = mine.error.map_or(Ok(()), Err);
    Outcome { bytes: mine.bytes, error: agree_by(steps, result, &[]).await.err() }
}
