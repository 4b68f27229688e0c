//! SLIDINGLOG: every admitted take is remembered for one period.
//!
//! ```text
//!        now - period                                now
//!   --x-----|------x---------x--x---------------x-----|
//!   gone    |      an entry taken at t counts until t + period, not at it
//! ```
//!
//! The entries lie in a ring, oldest first. Each holds its time and how many
//! units came *before* it, counted through (a running total that wraps), so
//! that the usage since any entry is one subtraction and "how many have
//! expired" or "when are 5 units free" is a binary search. A take changes one
//! entry and the header, however long the log is.

use crate::decision::{TooMuch, Wait};
use crate::limit::{Limit, MAX_LOG_ENTRIES, MAX_WINDOW_UNITS};
use crate::time::MAX_INSTANT_US;
use crate::window;

/// One take: `ENTRY_LEN` bytes in the ring.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub at_us: u64,
    /// Units logged before this entry, modulo 2^64.
    pub before: u64,
}

/// Bytes of an entry in the ring.
pub const ENTRY_LEN: usize = 16;

/// What is stored in front of the ring, besides the period.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    /// The count of the limit that last wrote the log.
    pub count: u32,
    /// Entries that the ring has room for.
    pub slots: u32,
    /// The slot of the oldest entry.
    pub head: u32,
    /// Entries in use.
    pub len: u32,
    /// Units logged through the newest entry, modulo 2^64.
    pub total: u64,
}

/// A log at the instant of a call: the stored ring as it is, and the changes
/// that are not yet in it.
#[derive(Clone, Copy, Debug)]
pub struct Log<'a> {
    ring: &'a [u8],
    slots: u32,
    head: u32,
    len: u32,
    total: u64,
    /// The oldest entry of a log that was begun anew and has no ring.
    begun: Option<Entry>,
    /// The one entry that differs from the ring, by its index from the oldest.
    /// One is enough: what is changed is always the newest entry.
    edit: Option<(u32, Entry)>,
}

impl<'a> Log<'a> {
    /// A log without entries and without a ring.
    pub fn empty() -> Log<'a> {
        Log {
            ring: &[],
            slots: 0,
            head: 0,
            len: 0,
            total: 0,
            begun: None,
            edit: None,
        }
    }

    /// `units` taken now.
    pub fn holding(units: u64, now_us: u64) -> Log<'a> {
        let entry = Entry {
            at_us: now_us,
            before: 0,
        };
        let begun = Some(entry).filter(|_| units > 0);
        Log {
            len: u32::from(units > 0),
            total: units,
            begun,
            ..Log::empty()
        }
    }

    /// A stored log, as its header says.
    pub fn stored(header: &Header, ring: &'a [u8]) -> Log<'a> {
        Log {
            ring,
            slots: header.slots,
            head: header.head,
            len: header.len,
            total: header.total,
            begun: None,
            edit: None,
        }
    }

    /// Whether the ends of a stored log are in order: times within range and
    /// units that a log can hold.
    pub fn is_plausible(&self) -> bool {
        let Some(newest) = self.newest() else {
            return true;
        };
        let oldest = self.entry(0);
        let newest_units = self.total.wrapping_sub(newest.before);
        oldest.at_us <= newest.at_us
            && newest.at_us <= MAX_INSTANT_US
            && (1..=self.used()).contains(&newest_units)
            && self.used() <= MAX_WINDOW_UNITS
    }

    /// Drops the entries that no longer count.
    pub fn expire(&mut self, period_us: u64, now_us: u64) {
        let gone = self.partition_point(|_, entry| entry.at_us.saturating_add(period_us) <= now_us);
        if self.slots > 0 {
            let head = (u64::from(self.head) + u64::from(gone)) % u64::from(self.slots);
            self.head = u32::try_from(head).unwrap_or(0);
        }
        self.len -= gone;
        self.begun = self.begun.filter(|_| gone == 0);
        self.edit = self
            .edit
            .and_then(|(index, entry)| Some((index.checked_sub(gone)?, entry)));
    }

    /// Takes entries of the future as made now: the clock stepped back.
    /// Returns whether there were any.
    pub fn pull_back(&mut self, now_us: u64) -> bool {
        let first = self.partition_point(|_, entry| entry.at_us <= now_us);
        if first == self.len {
            return false;
        }
        let before = self.entry(first).before;
        self.edit = Some((
            first,
            Entry {
                at_us: now_us,
                before,
            },
        ));
        self.len = first + 1;
        true
    }

    /// Units that count.
    pub fn used(&self) -> u64 {
        if self.len == 0 {
            0
        } else {
            self.since_oldest(self.total)
        }
    }

    /// Units from the oldest entry up to the running total `at`.
    fn since_oldest(&self, at: u64) -> u64 {
        at.wrapping_sub(self.entry(0).before)
    }

    /// When a cost of at most the count is admitted: when the entries that
    /// stand in its way have expired.
    #[inline(never)] // What a log needs is kept out of the way of the others.
    pub fn wait(&self, limit: &Limit, now_us: u64, cost: u64) -> Wait {
        let excess = self
            .used()
            .saturating_add(cost)
            .saturating_sub(limit.count());
        if excess == 0 || self.len == 0 {
            return Wait::Now;
        }
        let last = self.partition_point(|log_index, _| self.freed_by(log_index) < excess);
        let entry = self.entry(last.min(self.len - 1));
        let free_at_us = entry.at_us.saturating_add(limit.period_us());
        Wait::AfterUs(free_at_us.saturating_sub(now_us).max(1))
    }

    /// Units that are free once the entry at `index` has expired.
    fn freed_by(&self, index: u32) -> u64 {
        let next = index + 1;
        let after = if next < self.len {
            self.entry(next).before
        } else {
            self.total
        };
        self.since_oldest(after)
    }

    /// Microseconds until nothing counts any more.
    pub fn reset_us(&self, limit: &Limit, now_us: u64) -> u64 {
        self.free_at_us(limit.period_us()).saturating_sub(now_us)
    }

    /// The instant from which nothing counts any more.
    pub fn free_at_us(&self, period_us: u64) -> u64 {
        self.newest()
            .map_or(0, |entry| entry.at_us.saturating_add(period_us))
    }

    /// Whether `cost` more can be logged by force.
    pub fn can_force(&self, cost: u64) -> Result<(), TooMuch> {
        window::can_force(self.used(), cost)?;
        if u64::from(self.len) < MAX_LOG_ENTRIES {
            Ok(())
        } else {
            Err(TooMuch::Entries)
        }
    }

    /// Logs `cost` units now.
    pub fn push(&mut self, now_us: u64, cost: u64) {
        if self.len == 0 {
            self.total = 0;
        }
        let same_instant = self.newest().is_some_and(|entry| entry.at_us >= now_us);
        if !same_instant {
            let entry = Entry {
                at_us: now_us,
                before: self.total,
            };
            self.edit = Some((self.len, entry));
            self.len += 1;
        }
        self.total = self.total.wrapping_add(cost);
    }

    /// Returns `cost` units: the newest go first, as if they had not been taken.
    pub fn give(&mut self, cost: u64) {
        let left = self.used().saturating_sub(cost);
        if left == 0 {
            self.len = 0;
            self.total = 0;
            return;
        }
        self.total = self.entry(0).before.wrapping_add(left);
        self.len = self.partition_point(|_, entry| self.since_oldest(entry.before) < left);
    }

    fn newest(&self) -> Option<Entry> {
        self.len.checked_sub(1).map(|index| self.entry(index))
    }

    /// The entry at `index`, counted from the oldest.
    fn entry(&self, index: u32) -> Entry {
        match (self.edit, self.begun) {
            (Some((edited, entry)), _) if edited == index => entry,
            (_, Some(entry)) if index == 0 => entry,
            _ => self.ring_entry(self.slot(index)),
        }
    }

    /// The slot of the ring that holds the entry at `index`.
    fn slot(&self, index: u32) -> usize {
        let place = u64::from(self.head) + u64::from(index);
        usize::try_from(place % u64::from(self.slots.max(1))).unwrap_or(0)
    }

    fn ring_entry(&self, slot: usize) -> Entry {
        let start = slot * ENTRY_LEN;
        Entry {
            at_us: word(self.ring, start),
            before: word(self.ring, start + 8),
        }
    }

    /// How many entries from the oldest on satisfy `holds`, which must not
    /// hold again after it once failed. (In a ring that someone tampered with,
    /// the answer is merely wrong.)
    fn partition_point(&self, holds: impl Fn(u32, Entry) -> bool) -> u32 {
        let (mut low, mut high) = (0, self.len);
        while low < high {
            let middle = low + (high - low) / 2;
            if holds(middle, self.entry(middle)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Slots of the ring to be stored: the same ones while the entries fit and
    /// use a quarter of them, else an eighth more than are used.
    pub fn slots_to_store(&self) -> u32 {
        let wasteful = self.slots > 16 && self.len < self.slots / 4;
        if self.len <= self.slots && !wasteful {
            self.slots
        } else {
            self.len + self.len / 8 + 4
        }
    }

    /// Whether the stored ring stays as it is.
    pub fn keeps_ring(&self) -> bool {
        self.slots_to_store() == self.slots
    }

    /// The header to be stored for a ring that stays where it is.
    pub fn header_in_place(&self, count: u32) -> Header {
        Header {
            count,
            slots: self.slots,
            head: self.head,
            len: self.len,
            total: self.total,
        }
    }

    /// The change to a ring that stays where it is: a slot and its entry.
    pub fn edit_in_place(&self) -> Option<(usize, Entry)> {
        self.edit
            .filter(|(index, _)| *index < self.len)
            .map(|(index, entry)| (self.slot(index), entry))
    }

    /// The header and the entries, oldest first, of a ring built anew.
    pub fn rebuilt(&self, count: u32) -> (Header, impl Iterator<Item = Entry> + '_) {
        let header = Header {
            slots: self.slots_to_store(),
            head: 0,
            ..self.header_in_place(count)
        };
        (header, (0..self.len).map(|index| self.entry(index)))
    }
}

/// The little-endian word at `start`; 0 where there are no bytes.
fn word(bytes: &[u8], start: usize) -> u64 {
    bytes
        .get(start..)
        .and_then(|rest| rest.first_chunk::<8>())
        .map_or(0, |chunk| u64::from_le_bytes(*chunk))
}
