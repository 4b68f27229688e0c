//! One key of a server: the bytes it holds, and what a call does to them.
#![allow(dead_code)] // Each test binary uses its part of it.

use rl_core::{is_possible_len, Account, Answer, Ask, Foreign, Limit, Slots, TooMuch, Wait};

/// What a key holds, if it is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Key {
    pub bytes: Option<Vec<u8>>,
}

/// A call that may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Take(Ask),
    Give(u64),
}

/// Why a call got no report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    Foreign,
    TooMuch(TooMuch),
}

impl From<Foreign> for Failed {
    fn from(_: Foreign) -> Failed {
        Failed::Foreign
    }
}

impl From<TooMuch> for Failed {
    fn from(why: TooMuch) -> Failed {
        Failed::TooMuch(why)
    }
}

/// All that a call was answered.
#[derive(Clone, Debug)]
pub struct Report {
    pub admitted: bool,
    pub taken: u64,
    pub store: bool,
    pub governing: Answer,
    /// One a limit, in their order.
    pub answers: Vec<Answer>,
}

impl Report {
    fn of(report: rl_core::Report, account: &Account) -> Report {
        Report {
            admitted: report.admitted,
            taken: report.taken,
            store: report.store,
            governing: report.governing,
            answers: account.answers().copied().collect(),
        }
    }
}

/// A report, and the instant from which the key may be gone.
#[derive(Clone, Debug)]
pub struct Done {
    pub report: Report,
    pub free_at_us: u64,
}

/// What becomes of the stored bytes.
enum Write {
    Nothing,
    Remove,
    Patch(Vec<(usize, Vec<u8>)>),
    Rebuild(Vec<u8>),
}

impl Key {
    pub fn holding(bytes: &[u8]) -> Key {
        Key {
            bytes: Some(bytes.to_vec()),
        }
    }

    /// Applies a call as a server does: in place where the layout stays, anew
    /// where it does not, and without a trace where nothing is left.
    pub fn call(&mut self, limits: &Slots<Limit>, now_us: u64, call: Call) -> Result<Done, Failed> {
        let (done, write) = {
            let mut account = Account::open(self.bytes.as_deref(), limits, now_us)?;
            let report = match call {
                Call::Take(ask) => account.take(ask)?,
                Call::Give(cost) => account.give(cost),
            };
            let report = Report::of(report, &account);
            let mut patches = Vec::new();
            let in_place = account.patches(|at, piece| patches.push((at, piece.to_vec())));
            assert_eq!(in_place, account.keeps_layout());
            assert!(in_place || patches.is_empty());
            let write = if !report.store {
                Write::Nothing
            } else if account.is_unused() {
                Write::Remove
            } else if in_place {
                Write::Patch(patches)
            } else {
                Write::Rebuild(rebuilt(&account))
            };
            let free_at_us = account.free_at_us();
            (Done { report, free_at_us }, write)
        };
        match write {
            Write::Nothing => return Ok(done),
            Write::Remove => self.bytes = None,
            Write::Rebuild(bytes) => self.bytes = Some(bytes),
            Write::Patch(patches) => {
                let bytes = self.bytes.as_mut().expect("a layout to keep");
                for (at, piece) in patches {
                    bytes[at..at + piece.len()].copy_from_slice(&piece);
                }
            }
        }
        let len = self.bytes.as_ref().map(Vec::len);
        assert!(len.is_none_or(is_possible_len), "{len:?} bytes");
        Ok(done)
    }

    pub fn take(&mut self, limits: &Slots<Limit>, now_us: u64, ask: Ask) -> Report {
        self.call(limits, now_us, Call::Take(ask))
            .expect("a take that can be charged")
            .report
    }

    pub fn give(&mut self, limits: &Slots<Limit>, now_us: u64, cost: u64) -> Report {
        self.call(limits, now_us, Call::Give(cost))
            .expect("a give never fails")
            .report
    }

    pub fn peek(&self, limits: &Slots<Limit>, now_us: u64, ask: Ask) -> Report {
        self.try_peek(limits, now_us, ask).expect("our own bytes")
    }

    pub fn try_peek(
        &self,
        limits: &Slots<Limit>,
        now_us: u64,
        ask: Ask,
    ) -> Result<Report, Foreign> {
        let mut account = Account::open(self.bytes.as_deref(), limits, now_us)?;
        let report = account.peek(ask);
        Ok(Report::of(report, &account))
    }

    /// The bytes that the whole state would be written as from scratch.
    pub fn rewritten(&self, limits: &Slots<Limit>, now_us: u64) -> Result<Key, Foreign> {
        let account = Account::open(self.bytes.as_deref(), limits, now_us)?;
        Ok(Key::holding(&rebuilt(&account)))
    }
}

/// The whole state, in pieces that neither overlap nor leave their place.
fn rebuilt(account: &Account) -> Vec<u8> {
    let mut bytes = vec![0; account.stored_len()];
    let mut end = 0;
    account.pieces(|at, piece| {
        assert!(at >= end, "pieces overlap");
        end = at + piece.len();
        bytes[at..end].copy_from_slice(piece);
    });
    bytes
}

/// The five integers of a server's reply; `at_most` says what the first means.
pub fn five(report: &Report, at_most: bool) -> [i64; 5] {
    let governing = report.governing;
    let allowed = if at_most {
        report.taken
    } else {
        u64::from(report.admitted)
    };
    [
        int(allowed),
        int(governing.remaining),
        wait_ms(governing.wait),
        int(governing.reset_us.div_ceil(1_000)),
        int(governing.limit),
    ]
}

/// The four integers that DETAIL adds for each limit.
pub fn detail(report: &Report) -> Vec<[i64; 4]> {
    report
        .answers
        .iter()
        .map(|answer| {
            [
                int(answer.remaining),
                wait_ms(answer.wait),
                int(answer.reset_us.div_ceil(1_000)),
                int(answer.limit),
            ]
        })
        .collect()
}

fn wait_ms(wait: Wait) -> i64 {
    match wait {
        Wait::Now => 0,
        Wait::AfterUs(wait_us) => int(wait_us.div_ceil(1_000)),
        Wait::Never => -1,
    }
}

fn int(number: u64) -> i64 {
    i64::try_from(number).expect("a reply fits an integer")
}

/// The limits of a call.
pub fn slots(limits: &[Limit]) -> Slots<Limit> {
    let mut slots = Slots::new();
    for limit in limits {
        slots.push(*limit).expect("at most eight limits");
    }
    slots
}
