//! What a call asks for and what it is answered.

/// What a take or a peek asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Units asked for.
    pub cost: u64,
    /// Take as many of `cost` as there are, instead of all or none.
    pub at_most: bool,
    /// Charge even where the limit says no.
    pub force: bool,
}

impl Ask {
    /// All of `cost` units or none.
    pub fn cost(cost: u64) -> Ask {
        Ask {
            cost,
            at_most: false,
            force: false,
        }
    }

    /// As many of `cost` units as there are.
    pub fn at_most(cost: u64) -> Ask {
        Ask {
            cost,
            at_most: true,
            force: false,
        }
    }

    /// `cost` units, whatever the limit says.
    pub fn forced(cost: u64) -> Ask {
        Ask {
            cost,
            at_most: false,
            force: true,
        }
    }
}

/// When a cost would be admitted. The order is that of length: now, later,
/// never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wait {
    /// At once.
    Now,
    /// In so many microseconds, at least 1, if nobody else takes meanwhile.
    AfterUs(u64),
    /// Never: the cost is above the capacity, or the capacity is 0.
    Never,
}

/// How one limit stands, as answered to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Units that can still be taken at this instant.
    pub remaining: u64,
    /// Refused: when the same call would be admitted. Admitted: now, except a
    /// LEAKYBUCKET's, which says how long to hold the request back.
    pub wait: Wait,
    /// Microseconds until nothing is held against the limit; 0 if nothing is.
    pub reset_us: u64,
    /// The capacity in force, in units.
    pub limit: u64,
}

/// The whole answer to one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Whether the call was admitted (a peek: would have been).
    pub admitted: bool,
    /// Units charged (a peek: that would have been).
    pub taken: u64,
    /// Whether the account now differs from the stored bytes, so that it has
    /// to be stored.
    pub store: bool,
    /// The answer that governs: of a refusal the longest wait, of an admission
    /// the least remaining; of equals the first.
    pub governing: Answer,
}

/// The answer that governs among several; `admitted` says by which rule.
pub fn governing<'a>(admitted: bool, answers: impl Iterator<Item = &'a Answer>) -> Answer {
    answers
        .reduce(|best, next| {
            let ahead = if admitted {
                next.remaining < best.remaining
            } else {
                next.wait > best.wait
            };
            if ahead {
                next
            } else {
                best
            }
        })
        .copied()
        .unwrap_or(Answer::NONE)
}

impl Answer {
    /// The answer of a limit that was not asked yet, and of no limit at all.
    pub(crate) const NONE: Answer = Answer {
        remaining: 0,
        wait: Wait::Never,
        reset_us: 0,
        limit: 0,
    };
}

/// A FORCE that was not charged, because usage would leave the range that can
/// be computed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TooMuch {
    /// A bucket's usage would take more than [`crate::MAX_DRAIN_US`] to drain.
    Drain,
    /// A window's or a log's usage would pass [`crate::MAX_WINDOW_UNITS`].
    Units,
    /// A log would pass [`crate::MAX_LOG_ENTRIES`].
    Entries,
}

impl std::fmt::Display for TooMuch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            TooMuch::Drain => "usage would drain too slowly",
            TooMuch::Units => "usage would pass the largest number of units",
            TooMuch::Entries => "the log would pass the largest number of entries",
        })
    }
}

impl std::error::Error for TooMuch {}
