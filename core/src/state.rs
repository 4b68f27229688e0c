//! The stored form: what the bytes of a key mean.
//!
//! A value is one to eight records, one a limit, in the order of the limits.
//! Everything is little-endian. Byte 0 of a record is its tag, 0x90 to 0x9f,
//! which no UTF-8 text starts with:
//!
//! ```text
//! bit 7..4   1001       version 1 of this form
//! bit 3      wide
//! bit 2      0
//! bit 1..0   0 bucket, 1 fixed window, 2 sliding window, 3 log
//! ```
//!
//! Bytes 1 to 7 of a bucket or a window are its instant in microseconds since
//! the epoch: of a bucket the last take, of a window its start. What follows
//! depends on the record's width. A narrow record has 20 bytes, which with the
//! server's string header fill a 24-byte block of its allocator; it is used
//! whenever its fields fit and there is no debt:
//!
//! ```text
//! narrow   bucket             windows
//!  8..14   level, grains      8..11  current
//!                            11..14  previous (0 in a fixed window)
//! 14..17   count             14..17  count
//! 17..20   period, coded     17..20  period, coded
//! wide
//!  8..24   level              8..16  current
//!                            16..24  previous
//! 24..32   count             24..32  count
//! 32..40   period, us        32..40  period, us
//! 40..48   debt capacity
//! ```
//!
//! A coded period is its length in the largest unit that divides it, with the
//! unit in the upper two bits of 24: 0 microseconds, 1 milliseconds, 2
//! seconds, 3 minutes.
//!
//! `count` and `period` are those of the limit under which the state was
//! written. The *debt capacity* is the capacity under which FORCE brought a
//! bucket's usage above it, or all ones where there is no debt: it tells a
//! debt, which stays, from a usage above the capacity because the burst was
//! lowered since, which is clamped. (Windows and logs tell by their count.)
//!
//! A log:
//!
//! ```text
//!  0..8    tag, and the period in microseconds in bytes 1 to 7
//!  8..16   total: units logged so far, modulo 2^64
//! 16..20   count of the limit that last wrote it
//! 20..24   slots of the ring
//! 24..28   head: the slot of the oldest entry
//! 28..32   len: entries in use
//! 32..     slots x 16 bytes: time in microseconds, units logged before
//! ```
//!
//! In front of the records there may be up to eight marks of 16 bytes: tag 0x94
//! (bit 2 alone); in bytes 1 to 7 an instant; in bytes 8 to 15 the fingerprint of
//! the limits of a call that was refused then, and for which the usage counts as
//! carried over from that instant on, or 0 for any limits that have no mark of
//! their own. See the account.
//!
//! Stored bytes are hostile: anyone may SET the key. Every field is checked
//! for its range, and what does not pass is not ours.

use crate::bucket::{grains, Rate};
use crate::limit::{
    MAX_LOG_COUNT, MAX_LOG_ENTRIES, MAX_PERIOD_US, MAX_UNITS, MAX_WINDOW_UNITS, MIN_PERIOD_US,
};
use crate::log::{Entry, Header, Log, ENTRY_LEN};
use crate::time::{MAX_INSTANT_US, SECOND_US};

/// The stored bytes were not written by this module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Foreign;

impl std::fmt::Display for Foreign {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("not the state of a rate limit")
    }
}

impl std::error::Error for Foreign {}

const TAG: u8 = 0x90;
const WIDE: u8 = 0x08;
const BUCKET: u8 = 0;
const FIXED: u8 = 1;
const SLIDING: u8 = 2;
const LOG: u8 = 3;
const MARK: u8 = 4;

/// Bytes of a mark.
pub const MARK_LEN: usize = 16;
const MAX_MARKS: usize = 8;
/// The fingerprint of a mark that is for any limits.
const ANY_LIMITS: u64 = 0;
const NARROW_LEN: usize = 20;
const WIDE_BUCKET_LEN: usize = 48;
const WIDE_WINDOW_LEN: usize = 40;
const LOG_HEADER_LEN: usize = 32;

const NO_DEBT: u64 = u64::MAX;

/// Which of the two window algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowKind {
    Fixed,
    Sliding,
}

/// A record of a bucket or a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    Bucket {
        at_us: u64,
        level: u128,
        rate: Rate,
        debt: Option<u64>,
    },
    Window {
        kind: WindowKind,
        start_us: u64,
        current: u64,
        previous: u64,
        count: u64,
        period_us: u64,
    },
}

/// Whether a value of `len` bytes can be ours at all: what can be told
/// without looking at it.
pub fn is_possible_len(len: usize) -> bool {
    len >= NARROW_LEN && len.is_multiple_of(4)
}

/// The marks in front of the records: which limits were refused since when.
#[derive(Clone, Copy, Debug, Default)]
pub struct Marks<'a>(&'a [u8]);

impl<'a> Marks<'a> {
    /// Takes the marks off the front of `bytes`.
    ///
    /// # Errors
    ///
    /// [`Foreign`] if this module did not write them.
    #[inline(always)]
    pub fn read(bytes: &mut &'a [u8]) -> Result<Marks<'a>, Foreign> {
        if bytes.first() == Some(&(TAG | MARK)) {
            Marks::read_some(bytes)
        } else {
            Ok(Marks::default())
        }
    }

    #[cold]
    fn read_some(bytes: &mut &'a [u8]) -> Result<Marks<'a>, Foreign> {
        let is_mark = |mark: &&[u8]| mark.first() == Some(&(TAG | MARK));
        // Hostile bytes may be nothing but marks.
        let some = bytes.chunks(MARK_LEN).take(MAX_MARKS + 1);
        let count = some.take_while(is_mark).count();
        let (marks, records) = bytes.split_at_checked(count * MARK_LEN).ok_or(Foreign)?;
        let marks = Marks(marks);
        let in_range = marks.iter().all(|(_, since_us)| since_us <= MAX_INSTANT_US);
        if count > MAX_MARKS || records.is_empty() || !in_range {
            return Err(Foreign);
        }
        *bytes = records;
        Ok(marks)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes of them.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Since when limits with this fingerprint have been refused. What speaks
    /// of the future is of a clock that stepped back, and says nothing.
    pub fn since(&self, fingerprint: u64, now_us: u64) -> Option<u64> {
        let find = |wanted: u64| {
            self.of_the_past(now_us)
                .find_map(|(limits, since_us)| (limits == wanted).then_some(since_us))
        };
        find(fingerprint).or_else(|| find(ANY_LIMITS))
    }

    /// These marks and a new one, to be stored. If there are too many, the two
    /// oldest become one for any limits, since the older of their instants: then
    /// nobody is refused without a mark any more.
    pub fn and(&self, fingerprint: u64, now_us: u64) -> impl Iterator<Item = [u8; MARK_LEN]> + 'a {
        let is_full = self.of_the_past(now_us).count() == MAX_MARKS;
        self.of_the_past(now_us)
            .chain(std::iter::once((fingerprint, now_us)))
            .enumerate()
            .filter(move |(place, _)| !is_full || *place != 1)
            .map(move |(place, (limits, since_us))| {
                let is_any = is_full && place == 0;
                let limits = if is_any { ANY_LIMITS } else { limits };
                let mark = u128::from(since_us << 8 | u64::from(TAG | MARK));
                (mark | u128::from(limits) << 64).to_le_bytes()
            })
    }

    fn of_the_past(&self, now_us: u64) -> impl Iterator<Item = (u64, u64)> + 'a {
        self.iter().filter(move |(_, since_us)| *since_us <= now_us)
    }

    /// (fingerprint, instant) of each.
    fn iter(&self) -> impl Iterator<Item = (u64, u64)> + 'a {
        self.0
            .chunks_exact(MARK_LEN)
            .filter_map(|mark| Some((u64_at(mark, 8)?, u64_at(mark, 0)? >> 8)))
    }
}

/// The instant from which `records` say the same as no key at all, if they are
/// left as they are.
pub fn free_at_us(mut records: &[u8]) -> Result<u64, Foreign> {
    let mut free_at_us = 0;
    while !records.is_empty() {
        let record_free_at_us = if begins_log(records) {
            let (_, period_us, log) = read_log(&mut records)?;
            log.free_at_us(period_us)
        } else {
            read_record(&mut records)?.free_at_us()
        };
        free_at_us = free_at_us.max(record_free_at_us);
    }
    Ok(free_at_us)
}

/// Whether the first record of `bytes` can be nothing but a log.
pub fn begins_log(bytes: &[u8]) -> bool {
    bytes.first() == Some(&(TAG | LOG))
}

/// Takes the first record off `bytes`, whatever it is.
///
/// # Errors
///
/// [`Foreign`] if this module did not write it.
pub fn skip(bytes: &mut &[u8]) -> Result<(), Foreign> {
    if begins_log(bytes) {
        read_log(bytes).map(|_| ())
    } else {
        read_record(bytes).map(|_| ())
    }
}

/// Takes the record of a bucket or a window off `bytes`.
///
/// # Errors
///
/// [`Foreign`] if this module did not write it.
#[inline(always)]
pub fn read_record(bytes: &mut &[u8]) -> Result<Record, Foreign> {
    let tag = *bytes.first().ok_or(Foreign)?;
    let record = if tag & WIDE == 0 {
        let (chunk, rest) = bytes.split_first_chunk().ok_or(Foreign)?;
        *bytes = rest;
        read_narrow(tag, chunk)
    } else {
        let len = if tag == TAG | WIDE | BUCKET {
            WIDE_BUCKET_LEN
        } else {
            WIDE_WINDOW_LEN
        };
        let (chunk, rest) = bytes.split_at_checked(len).ok_or(Foreign)?;
        *bytes = rest;
        // A wide record that could be narrow was not written here.
        read_wide(tag, chunk).filter(|record| record.narrow_period().is_none())
    };
    record.filter(Record::is_valid).ok_or(Foreign)
}

fn read_narrow(tag: u8, bytes: &[u8; NARROW_LEN]) -> Option<Record> {
    let at_us = u64_at(bytes, 0)? >> 8;
    let (low, high) = (u64_at(bytes, 8)?, u64_at(bytes, 12)? >> 16);
    let count = high & U24_MAX;
    let period_us = decode_period(high >> 24);
    match window_kind(tag ^ TAG) {
        None if tag == TAG | BUCKET => Some(Record::Bucket {
            at_us,
            level: u128::from(low & 0xffff_ffff_ffff),
            rate: Rate { count, period_us },
            debt: None,
        }),
        Some(kind) => Some(Record::Window {
            kind,
            start_us: at_us,
            current: low & U24_MAX,
            previous: (low >> 24) & U24_MAX,
            count,
            period_us,
        }),
        None => None,
    }
}

fn read_wide(tag: u8, bytes: &[u8]) -> Option<Record> {
    let at_us = u64_at(bytes, 0)? >> 8;
    let (first, second) = (u64_at(bytes, 8)?, u64_at(bytes, 16)?);
    let (count, period_us) = (u64_at(bytes, 24)?, u64_at(bytes, 32)?);
    match window_kind(tag ^ TAG ^ WIDE) {
        None if tag == TAG | WIDE | BUCKET => Some(Record::Bucket {
            at_us,
            level: u128::from(first) | u128::from(second) << 64,
            rate: Rate { count, period_us },
            debt: Some(u64_at(bytes, 40)?).filter(|capacity| *capacity != NO_DEBT),
        }),
        Some(kind) => Some(Record::Window {
            kind,
            start_us: at_us,
            current: first,
            previous: second,
            count,
            period_us,
        }),
        None => None,
    }
}

fn window_kind(kind: u8) -> Option<WindowKind> {
    match kind {
        FIXED => Some(WindowKind::Fixed),
        SLIDING => Some(WindowKind::Sliding),
        _ => None,
    }
}

/// Takes the record of a log off `bytes`: its header, its period, and the log
/// itself.
///
/// # Errors
///
/// [`Foreign`] if this module did not write it.
pub fn read_log<'a>(bytes: &mut &'a [u8]) -> Result<(Header, u64, Log<'a>), Foreign> {
    try_read_log(bytes).ok_or(Foreign)
}

fn try_read_log<'a>(bytes: &mut &'a [u8]) -> Option<(Header, u64, Log<'a>)> {
    let period_us = u64_at(bytes, 0)? >> 8;
    let header = Header {
        total: u64_at(bytes, 8)?,
        count: u32_at(bytes, 16)?,
        slots: u32_at(bytes, 20)?,
        head: u32_at(bytes, 24)?,
        len: u32_at(bytes, 28)?,
    };
    let plausible = is_period(period_us)
        && u64::from(header.count) <= MAX_LOG_COUNT
        && u64::from(header.slots) <= 2 * MAX_LOG_ENTRIES
        && header.len <= header.slots
        && (header.head < header.slots || header.slots == 0);
    if !plausible {
        return None;
    }
    let ring_len = usize::try_from(header.slots).ok()? * ENTRY_LEN;
    let (own, rest) = bytes.split_at_checked(LOG_HEADER_LEN + ring_len)?;
    let log = Log::stored(&header, own.get(LOG_HEADER_LEN..)?);
    if !log.is_plausible() {
        return None;
    }
    *bytes = rest;
    Some((header, period_us, log))
}

impl Record {
    /// Whether every field is in the range that the arithmetic is made for.
    fn is_valid(&self) -> bool {
        match *self {
            Record::Bucket {
                at_us,
                level,
                rate,
                debt,
            } => {
                let level_fits = match debt {
                    None => level <= grains(MAX_UNITS),
                    Some(capacity) => capacity <= MAX_UNITS && grains(capacity) < level,
                };
                at_us <= MAX_INSTANT_US
                    && is_period(rate.period_us)
                    && rate.count <= MAX_UNITS
                    && level_fits
                    && rate.drains(level)
            }
            Record::Window {
                kind,
                start_us,
                current,
                previous,
                count,
                period_us,
            } => {
                start_us <= MAX_INSTANT_US
                    && is_period(period_us)
                    && start_us % period_us == 0
                    && count <= MAX_UNITS
                    && current <= MAX_WINDOW_UNITS
                    && previous <= MAX_WINDOW_UNITS
                    && (kind == WindowKind::Sliding || previous == 0)
            }
        }
    }

    /// The instant from which nothing of it is used any more.
    fn free_at_us(&self) -> u64 {
        match *self {
            Record::Bucket {
                at_us, level, rate, ..
            } => at_us + rate.time_to_drain_us(level),
            Record::Window {
                start_us,
                current,
                previous,
                period_us,
                kind,
                ..
            } => {
                let fades = kind == WindowKind::Sliding && current > 0;
                let windows = u64::from(current > 0 || previous > 0) + u64::from(fades);
                start_us + windows * period_us
            }
        }
    }

    /// The coded period, if all fields fit a narrow record.
    fn narrow_period(&self) -> Option<u64> {
        let (fits, period_us) = match *self {
            Record::Bucket {
                level, rate, debt, ..
            } => (
                level >> 48 == 0 && rate.count <= U24_MAX && debt.is_none(),
                rate.period_us,
            ),
            Record::Window {
                current,
                previous,
                count,
                period_us,
                ..
            } => ((current | previous | count) <= U24_MAX, period_us),
        };
        encode_period(period_us).filter(|_| fits)
    }

    /// Its stored form.
    pub fn encode(&self) -> Encoded {
        let narrow_period = self.narrow_period();
        let width = if narrow_period.is_some() { 0 } else { WIDE };
        let tag = u64::from(TAG | width);
        let mut encoded = Encoded::new();
        match *self {
            Record::Bucket {
                at_us,
                level,
                rate,
                debt,
            } => {
                encoded.put(0, at_us << 8 | tag | u64::from(BUCKET));
                encoded.put128(8, level);
                match narrow_period {
                    Some(period) => encoded.put_narrow_rate(rate.count, period),
                    None => {
                        encoded.put_wide_rate(rate);
                        encoded.put(40, debt.unwrap_or(NO_DEBT));
                        encoded.len = WIDE_BUCKET_LEN;
                    }
                }
            }
            Record::Window {
                kind,
                start_us,
                current,
                previous,
                count,
                period_us,
            } => {
                let kind = match kind {
                    WindowKind::Fixed => FIXED,
                    WindowKind::Sliding => SLIDING,
                };
                encoded.put(0, start_us << 8 | tag | u64::from(kind));
                match narrow_period {
                    Some(period) => {
                        encoded.put(8, previous << 24 | current);
                        encoded.put_narrow_rate(count, period);
                    }
                    None => {
                        encoded.put(8, current);
                        encoded.put(16, previous);
                        encoded.put_wide_rate(Rate { count, period_us });
                        encoded.len = WIDE_WINDOW_LEN;
                    }
                }
            }
        }
        encoded
    }
}

/// A record in its stored form. It is written low fields first: the zeros
/// above a short field are overwritten by the next one.
#[derive(Clone, Copy, Debug)]
pub struct Encoded {
    bytes: [u8; WIDE_BUCKET_LEN],
    len: usize,
}

impl Encoded {
    fn new() -> Encoded {
        Encoded {
            bytes: [0; WIDE_BUCKET_LEN],
            len: NARROW_LEN,
        }
    }

    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    fn put_narrow_rate(&mut self, count: u64, coded_period: u64) {
        self.put(14, coded_period << 24 | count);
    }

    fn put_wide_rate(&mut self, rate: Rate) {
        self.put(24, rate.count);
        self.put(32, rate.period_us);
    }

    fn put(&mut self, at: usize, word: u64) {
        if let Some(place) = self.bytes.get_mut(at..at + 8) {
            place.copy_from_slice(&word.to_le_bytes());
        }
    }

    fn put128(&mut self, at: usize, word: u128) {
        if let Some(place) = self.bytes.get_mut(at..at + 16) {
            place.copy_from_slice(&word.to_le_bytes());
        }
    }
}

/// The stored form of a log's header.
pub fn log_header(header: &Header, period_us: u64) -> [u8; LOG_HEADER_LEN] {
    let mut bytes = [0; LOG_HEADER_LEN];
    let words = [period_us << 8 | u64::from(TAG | LOG), header.total];
    let halves = [header.count, header.slots, header.head, header.len];
    for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    for (place, half) in bytes[16..].chunks_exact_mut(4).zip(halves) {
        place.copy_from_slice(&half.to_le_bytes());
    }
    bytes
}

/// The stored form of a log's entry.
pub fn log_entry(entry: &Entry) -> [u8; ENTRY_LEN] {
    (u128::from(entry.at_us) | u128::from(entry.before) << 64).to_le_bytes()
}

/// Where the entry in `slot` stands in a log's stored form.
pub fn log_entry_at(slot: usize) -> usize {
    LOG_HEADER_LEN + slot * ENTRY_LEN
}

fn is_period(period_us: u64) -> bool {
    (MIN_PERIOD_US..=MAX_PERIOD_US).contains(&period_us)
}

/// The units of a coded period, in microseconds, shortest first.
const PERIOD_UNITS_US: [u64; 4] = [1, 1_000, SECOND_US, 60 * SECOND_US];
const PERIOD_VALUE_BITS: u32 = 22;
const U24_MAX: u64 = 0xff_ffff;

/// A period in 24 bits, if it has so short a form.
fn encode_period(period_us: u64) -> Option<u64> {
    let [us, ms, s, min] = PERIOD_UNITS_US;
    [(3, min), (2, s), (1, ms), (0, us)]
        .into_iter()
        .find_map(|(unit, unit_us)| {
            period_us
                .is_multiple_of(unit_us)
                .then(|| (unit, period_us / unit_us))
        })
        .filter(|(_, value)| value >> PERIOD_VALUE_BITS == 0)
        .map(|(unit, value)| unit << PERIOD_VALUE_BITS | value)
}

fn decode_period(code: u64) -> u64 {
    let value = code & ((1 << PERIOD_VALUE_BITS) - 1);
    let [us, ms, s, min] = PERIOD_UNITS_US;
    value
        * match code >> PERIOD_VALUE_BITS {
            0 => us,
            1 => ms,
            2 => s,
            _ => min,
        }
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let chunk = bytes.get(at..)?.first_chunk()?;
    Some(u64::from_le_bytes(*chunk))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let chunk = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*chunk))
}
