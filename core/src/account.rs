//! All the limits of one key at the instant of one call.
//!
//! A take is charged to every limit or to none. Refusals change nothing, with
//! two exceptions, so that the wait they answer is true: after the clock stepped
//! back, a refused take stores the state as of now; and where the state was
//! written under other limits, it marks the instant from which on the usage
//! counts as carried over to the limits of the call, if that makes the wait
//! shorter and these limits have no mark yet. A mark means nothing to calls with
//! other limits, those that are stored included. It goes with the next take that
//! is admitted and with what is given back. A refusal for ever (a wait of -1)
//! stores nothing.

use crate::decision::{governing, Answer, Ask, Report, TooMuch, Wait};
use crate::limit::Limit;
use crate::slots::{Slots, MAX_LIMITS};
use crate::state::{self, Foreign, Marks};
use crate::usage::{Moved, Unmoved, Unstored, Usage};

/// One limit of the account.
#[derive(Clone, Copy, Debug)]
struct Line<'a> {
    limit: Limit,
    usage: Usage<'a>,
    /// The stored usage, where it was carried over to this limit.
    unmoved: Option<Unmoved<'a>>,
    /// Bytes that its stored record takes; 0 if it had none.
    stored_len: usize,
    /// What the call is answered, once it is decided.
    answer: Answer,
}

/// What a key holds, seen through the limits of a call.
#[derive(Clone, Copy, Debug)]
pub struct Account<'a> {
    lines: Slots<Line<'a>>,
    now_us: u64,
    /// The stored state spoke of the future: the clock stepped back.
    stepped_back: bool,
    /// The stored state was written under another limit.
    carried: bool,
    /// Bytes that are not to be stored again: of limits that the call no longer
    /// has, and of marks.
    dropped_len: usize,
    marks: Marks<'a>,
    /// The stored records behind the marks.
    records: &'a [u8],
    /// The limits of the call have a mark.
    marked: bool,
    /// All that is to be stored is a mark for them.
    adds_mark: bool,
}

impl<'a> Account<'a> {
    /// An account without limits, for a call at `now_us`, which is at most
    /// [`crate::MAX_INSTANT_US`].
    pub fn new(now_us: u64) -> Account<'a> {
        Account {
            lines: Slots::new(),
            now_us,
            stepped_back: false,
            carried: false,
            dropped_len: 0,
            marks: Marks::default(),
            records: &[],
            marked: false,
            adds_mark: false,
        }
    }

    /// A new account that has read a key: [`Account::new`] and
    /// [`Account::read`].
    ///
    /// # Errors
    ///
    /// [`Foreign`] if the bytes were not written by this module.
    pub fn open(
        stored: Option<&'a [u8]>,
        limits: &Slots<Limit>,
        now_us: u64,
    ) -> Result<Account<'a>, Foreign> {
        let mut account = Account::new(now_us);
        account.read(stored, limits)?;
        Ok(account)
    }

    /// Reads the bytes of a key (`None`: there is no key) into a new account.
    /// Limits are matched to stored ones by position; limits beyond the stored
    /// ones start unused, and stored ones beyond the limits are dropped at the
    /// next write.
    ///
    /// # Errors
    ///
    /// [`Foreign`] if the bytes were not written by this module.
    pub fn read(&mut self, stored: Option<&'a [u8]>, limits: &Slots<Limit>) -> Result<(), Foreign> {
        let mut rest = match stored {
            Some([]) => return Err(Foreign),
            Some(bytes) => bytes,
            None => &[],
        };
        self.marks = Marks::read(&mut rest)?;
        self.records = rest;
        for limit in limits.iter() {
            let line = self.lines.push(Line::new(limit)).map_err(|_| Foreign)?;
            if rest.is_empty() {
                line.usage = Usage::empty(limit, self.now_us);
            } else {
                let before = rest.len();
                let usage = &mut line.usage;
                match usage.resume(&mut rest, limit, self.now_us, &mut line.unmoved)? {
                    Moved::Not => {}
                    Moved::ByLimit => self.carried = true,
                    Moved::ByClock => self.stepped_back = true,
                }
                line.stored_len = before - rest.len();
            }
        }
        if !rest.is_empty() {
            self.drop_rest(rest)?;
        }
        if self.marks.is_empty() {
            Ok(())
        } else {
            self.carry_since_mark()
        }
    }

    /// If the limits have a mark, lets the usages count as carried over since.
    #[cold]
    fn carry_since_mark(&mut self) -> Result<(), Foreign> {
        self.dropped_len += self.marks.len();
        let Some(since_us) = self.marks.since(self.fingerprint(), self.now_us) else {
            return Ok(());
        };
        self.marked = true;
        let (mut rest, span) = (self.records, (since_us, self.now_us));
        for line in self.lines.iter_mut().filter(|line| line.stored_len > 0) {
            let (record, others) = rest.split_at_checked(line.stored_len).ok_or(Foreign)?;
            let Line { usage, limit, .. } = line;
            self.carried |= usage.carry_since(record, limit, span, &mut line.unmoved)?;
            rest = others;
        }
        Ok(())
    }

    /// Checks the records that no limit of the call is for.
    #[cold]
    fn drop_rest(&mut self, mut rest: &[u8]) -> Result<(), Foreign> {
        self.dropped_len = rest.len();
        let mut records = self.lines.len();
        while !rest.is_empty() {
            state::skip(&mut rest)?;
            records += 1;
        }
        if records > MAX_LIMITS {
            return Err(Foreign);
        }
        Ok(())
    }

    /// Decides a take and charges what it admits.
    ///
    /// # Errors
    ///
    /// [`TooMuch`] if a FORCE would leave the range of a limit; nothing is charged.
    #[inline(always)]
    pub fn take(&mut self, ask: Ask) -> Result<Report, TooMuch> {
        match self.decide(ask) {
            Verdict::Admit { taken } if taken > 0 => {
                if ask.force {
                    self.can_force(taken)?;
                }
                Ok(self.charge(taken))
            }
            Verdict::Refuse { cost } if ask.cost > 0 => Ok(self.refused(cost)),
            _ => Ok(self.peek(ask)),
        }
    }

    /// Answers what [`Account::take`] would have answered, and how things
    /// stand. Nothing is to be stored.
    pub fn peek(&mut self, ask: Ask) -> Report {
        let now_us = self.now_us;
        let (admitted, taken) = match self.decide(ask) {
            Verdict::Admit { taken } => {
                self.answer(|line| line.usage.hold_back(&line.limit, now_us));
                (true, taken)
            }
            Verdict::Refuse { cost } => {
                self.settle_waits(cost);
                self.answer(|line| line.answer.wait);
                (false, 0)
            }
        };
        self.report(admitted, taken, false)
    }

    /// Whether every limit admits `cost` units.
    pub fn admits(&self, cost: u64) -> bool {
        self.lines
            .iter()
            .all(|line| line.wait(self.now_us, cost) == Wait::Now)
    }

    /// Refuses a take of `cost` units, with the wait for them.
    pub fn refuse(&mut self, cost: u64) -> Report {
        self.ask(cost);
        self.refused(cost)
    }

    /// Refuses the cost that the limits were just asked for.
    fn refused(&mut self, cost: u64) -> Report {
        self.adds_mark = self.settle_waits(cost);
        self.answer(|line| line.answer.wait);
        let mut report = self.report(false, 0, false);
        // The wait counts from the state as of now or from the mark, so that is stored.
        report.store = (self.stepped_back || self.adds_mark)
            && matches!(report.governing.wait, Wait::AfterUs(_));
        report
    }

    /// Notes the waits of a refused cost where the state was written under other
    /// limits, and returns whether a new mark is what makes them true.
    fn settle_waits(&mut self, cost: u64) -> bool {
        if !self.carried || self.stepped_back {
            return false;
        }
        let now_us = self.now_us;
        let lines = || self.lines.iter();
        let marked = lines().map(|line| line.wait_marked(now_us, cost)).max();
        let unmoved = lines().map(|line| line.wait_unmoved(now_us, cost)).max();
        let adds_mark = !self.marked && marked < unmoved;
        for line in self.lines.iter_mut() {
            line.answer.wait = if self.marked || adds_mark {
                line.wait_marked(now_us, cost)
            } else {
                line.wait_unmoved(now_us, cost)
            };
        }
        adds_mark
    }

    /// Charges `cost` units to every limit without asking them: they were
    /// asked by [`Account::admits`], or it is a force that was found in range.
    pub fn charge(&mut self, cost: u64) -> Report {
        let now_us = self.now_us;
        self.answer(|line| {
            let hold_back = line.usage.hold_back(&line.limit, now_us);
            line.usage.charge(now_us, cost);
            hold_back
        });
        self.report(true, cost, true)
    }

    /// Returns `cost` units to every limit.
    pub fn give(&mut self, cost: u64) -> Report {
        let store = cost > 0 && !self.is_unused();
        let now_us = self.now_us;
        self.answer(|line| {
            if store {
                line.usage.give(now_us, cost);
            }
            Wait::Now
        });
        self.report(true, 0, store)
    }

    /// The answers to the call, one a limit.
    pub fn answers(&self) -> impl Iterator<Item = &Answer> {
        self.lines.iter().map(|line| &line.answer)
    }

    /// The instant of the call.
    pub fn now_us(&self) -> u64 {
        self.now_us
    }

    /// Whether nothing is used of any limit: then the key may as well not exist.
    pub fn is_unused(&self) -> bool {
        self.lines.iter().all(|line| line.usage.is_unused())
    }

    /// The instant, in microseconds, from which the state says the same as no
    /// key at all; known once the call is decided.
    pub fn free_at_us(&self) -> u64 {
        if self.adds_mark {
            // They were read before, so they are ours.
            return state::free_at_us(self.records).unwrap_or(self.now_us);
        }
        self.lines
            .iter()
            .map(|line| line.answer.reset_us)
            .max()
            .map_or(self.now_us, |reset_us| self.now_us + reset_us)
    }

    /// Bytes of the state to be stored.
    pub fn stored_len(&self) -> usize {
        if self.adds_mark {
            let marks = self.new_marks().map(|mark| mark.len());
            return marks.sum::<usize>() + self.records.len();
        }
        let records = self.lines.iter();
        let records = records.map(|line| stored_len(&line.for_storage(self.now_us)));
        records.sum()
    }

    /// Whether every record keeps its place and its length, so that the stored
    /// bytes can be changed where they are, by [`Account::patches`].
    pub fn keeps_layout(&self) -> bool {
        self.dropped_len == 0
            && !self.adds_mark
            && self
                .lines
                .iter()
                .all(|line| line.keeps_place(&line.for_storage(self.now_us)))
    }

    /// The pieces, as (offset, bytes), that bring the stored bytes to this
    /// state, if [`Account::keeps_layout`]; else there are none, and it returns
    /// false. The stored bytes are not read while the pieces are handed out.
    pub fn patches(&self, mut patch: impl FnMut(usize, &[u8])) -> bool {
        if self.dropped_len > 0 || self.adds_mark {
            return false;
        }
        let mut records = Slots::new();
        for line in self.lines.iter() {
            let unstored = line.for_storage(self.now_us);
            if !line.keeps_place(&unstored) || records.push(unstored).is_err() {
                return false;
            }
        }
        let mut offset = 0;
        for (line, unstored) in self.lines.iter().zip(records.iter()) {
            match unstored {
                Unstored::Record(record) => patch(offset, record.bytes()),
                Unstored::Log(log) => {
                    let header = log.header_in_place(log_count(&line.limit));
                    patch(offset, &state::log_header(&header, line.limit.period_us()));
                    if let Some((slot, entry)) = log.edit_in_place() {
                        let at = offset + state::log_entry_at(slot);
                        patch(at, &state::log_entry(&entry));
                    }
                }
            }
            offset += line.stored_len;
        }
        true
    }

    /// The whole state as (offset, bytes) pieces, to be put into
    /// [`Account::stored_len`] zero bytes.
    pub fn pieces(&self, mut put: impl FnMut(usize, &[u8])) {
        let mut offset = 0;
        if self.adds_mark {
            for mark in self.new_marks() {
                put(offset, &mark);
                offset += mark.len();
            }
            return put(offset, self.records);
        }
        for line in self.lines.iter() {
            let unstored = line.for_storage(self.now_us);
            match &unstored {
                Unstored::Record(record) => put(offset, record.bytes()),
                Unstored::Log(log) => {
                    let (header, entries) = log.rebuilt(log_count(&line.limit));
                    put(offset, &state::log_header(&header, line.limit.period_us()));
                    for (slot, entry) in entries.enumerate() {
                        let at = offset + state::log_entry_at(slot);
                        put(at, &state::log_entry(&entry));
                    }
                }
            }
            offset += stored_len(&unstored);
        }
    }

    fn fingerprint(&self) -> u64 {
        let limits = self.lines.iter().map(|line| &line.limit);
        limits.fold(0, |before, limit| limit.fingerprint(before))
    }

    /// The marks with one for the limits of the call.
    fn new_marks(&self) -> impl Iterator<Item = [u8; state::MARK_LEN]> + 'a {
        self.marks.and(self.fingerprint(), self.now_us)
    }

    /// What the limits say to an ask. Of a refusal, each has its wait noted.
    #[inline(always)]
    fn decide(&mut self, ask: Ask) -> Verdict {
        if ask.cost == 0 {
            return self.all_or_none(0);
        }
        if ask.force {
            return Verdict::Admit { taken: ask.cost };
        }
        if !ask.at_most {
            return self.all_or_none(ask.cost);
        }
        let remaining = |line: &Line| line.usage.remaining(&line.limit);
        match self.lines.iter().map(remaining).min() {
            // What "at most n" was refused is the first unit.
            None | Some(0) => {
                self.ask(1);
                Verdict::Refuse { cost: 1 }
            }
            Some(room) => Verdict::Admit {
                taken: ask.cost.min(room),
            },
        }
    }

    fn all_or_none(&mut self, cost: u64) -> Verdict {
        if self.ask(cost) {
            Verdict::Admit { taken: cost }
        } else {
            Verdict::Refuse { cost }
        }
    }

    /// Notes every limit's wait for `cost` units; returns whether there is none.
    fn ask(&mut self, cost: u64) -> bool {
        let mut admitted = true;
        for line in self.lines.iter_mut() {
            let wait = line.wait(self.now_us, cost);
            line.answer.wait = wait;
            admitted &= wait == Wait::Now;
        }
        admitted
    }

    /// Whether `cost` can be charged to every limit whatever they say.
    fn can_force(&self, cost: u64) -> Result<(), TooMuch> {
        self.lines
            .iter()
            .try_for_each(|line| line.usage.can_force(&line.limit, cost))
    }

    /// Settles every limit's answer; `act` does to it what the call does and
    /// says the wait.
    fn answer(&mut self, mut act: impl FnMut(&mut Line) -> Wait) {
        for line in self.lines.iter_mut() {
            let wait = act(line);
            line.answer = line.usage.answer(&line.limit, self.now_us, wait);
        }
    }

    #[inline(always)]
    fn report(&self, admitted: bool, taken: u64, store: bool) -> Report {
        Report {
            admitted,
            taken,
            store,
            governing: governing(admitted, self.answers()),
        }
    }
}

impl<'a> Line<'a> {
    fn new(limit: &Limit) -> Line<'a> {
        Line {
            limit: *limit,
            usage: Usage::unread(),
            unmoved: None,
            stored_len: 0,
            answer: Answer::NONE,
        }
    }

    fn for_storage(&self, now_us: u64) -> Unstored<'_, 'a> {
        self.usage.for_storage(&self.limit, now_us)
    }

    /// Whether what is to be stored fits where the stored record lies.
    fn keeps_place(&self, unstored: &Unstored) -> bool {
        let in_place = match unstored {
            Unstored::Record(_) => true,
            // A log that was begun anew has no ring yet, even if the one it
            // will get is as long as what is stored.
            Unstored::Log(log) => log.keeps_ring(),
        };
        in_place && self.stored_len == stored_len(unstored)
    }

    #[inline(always)]
    fn wait(&self, now_us: u64, cost: u64) -> Wait {
        self.usage.wait(&self.limit, now_us, cost)
    }

    /// The wait if the stored state stays as it is.
    fn wait_unmoved(&self, now_us: u64, cost: u64) -> Wait {
        match &self.unmoved {
            Some(unmoved) => unmoved.wait(now_us, cost),
            None => self.wait(now_us, cost),
        }
    }

    /// The wait if the key is marked, or was.
    fn wait_marked(&self, now_us: u64, cost: u64) -> Wait {
        match &self.unmoved {
            Some(unmoved) => unmoved.wait_marked(&self.usage, &self.limit, now_us, cost),
            None => self.wait(now_us, cost),
        }
    }
}

/// What the limits say to an ask.
#[derive(Clone, Copy)]
enum Verdict {
    /// So many units may be charged.
    Admit { taken: u64 },
    /// None may; the caller is told the waits for `cost`, which were noted.
    Refuse { cost: u64 },
}

fn stored_len(unstored: &Unstored) -> usize {
    match unstored {
        Unstored::Record(record) => record.bytes().len(),
        Unstored::Log(log) => {
            state::log_entry_at(usize::try_from(log.slots_to_store()).unwrap_or(0))
        }
    }
}

/// The count in a log's header; a log's count is at most 100,000.
fn log_count(limit: &Limit) -> u32 {
    u32::try_from(limit.count()).unwrap_or(u32::MAX)
}
