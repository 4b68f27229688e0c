//! Arguments for the fuzz run, from right ones to any bytes at all.

use super::traffic::Rng;
use super::words;

/// The most units that an argument may name.
pub const TRILLION: i64 = 1_000_000_000_000;

impl Rng {
    /// A word that may or may not have a place in a command.
    pub fn word(&mut self) -> Vec<u8> {
        const WORDS: [&str; 16] = [
            "TOKENBUCKET",
            "GCRA",
            "LEAKYBUCKET",
            "FIXEDWINDOW",
            "SLIDINGWINDOW",
            "SLIDINGLOG",
            "BURST",
            "COST",
            "ATMOST",
            "FORCE",
            "DETAIL",
            "burst",
            "Cost",
            "gcra",
            "COSTS",
            "",
        ];
        match self.below(10) {
            0..=3 => self.pick(&WORDS).as_bytes().to_vec(),
            4..=5 => self.number(),
            6..=7 => self.period(),
            8 => words(&self.limit()).swap_remove(0),
            _ => self.bytes(),
        }
    }

    /// Bytes that no client would send.
    pub fn bytes(&mut self) -> Vec<u8> {
        const NASTY: [&[u8]; 8] = [
            b"\0",
            b"10\0",
            b"\r\n",
            b"1\r\n:1\r\n",
            b"\xff\xfe",
            b"\xc3\x28",
            "\u{661}\u{662}".as_bytes(),
            b"%s%n%d",
        ];
        match self.below(20) {
            0 => vec![self.byte(); 1 << 16],
            1..=9 => self.pick(&NASTY).to_vec(),
            _ => (0..self.below(40)).map(|_| self.byte()).collect(),
        }
    }

    /// A number as a client might write it, or as it must not.
    pub fn number(&mut self) -> Vec<u8> {
        const NUMBERS: [&str; 26] = [
            "0",
            "1",
            "2",
            "10",
            "100000",
            "100001",
            "999999999999",
            "1000000000000",
            "1000000000001",
            "9223372036854775807",
            "9223372036854775808",
            "-9223372036854775808",
            "18446744073709551616",
            "340282366920938463463374607431768211456",
            "-1",
            "-0",
            "+1",
            "01",
            "1.5",
            "1e3",
            "0x10",
            " 1",
            "1 ",
            "nan",
            "inf",
            "1_000",
        ];
        if self.chance(50) {
            self.units().to_string().into_bytes()
        } else {
            self.pick(&NUMBERS).as_bytes().to_vec()
        }
    }

    /// A period, right or wrong.
    pub fn period(&mut self) -> Vec<u8> {
        const PERIODS: [&str; 30] = [
            "60",
            "1ms",
            "0.001",
            "0.0009",
            "1000us",
            "999us",
            "1.5ms",
            "3650d",
            "3650.0001d",
            "3651d",
            "315360000",
            "0.5h",
            "0.0000001d",
            "1.0000001s",
            "0.333333",
            "1H",
            "1 m",
            "-1s",
            "+1s",
            ".5",
            "5.",
            "1..5",
            "1e3",
            "nan",
            "inf",
            "99999999999999999999999999999999d",
            "0.000000000000000000000000000000000000001s",
            "00000000000000000000000000000000000000060",
            "s",
            "1msms",
        ];
        if self.chance(50) {
            self.right_period().into_bytes()
        } else {
            self.pick(&PERIODS).as_bytes().to_vec()
        }
    }

    /// A period that is accepted, from a millisecond to ten years.
    pub fn right_period(&mut self) -> String {
        match self.below(8) {
            0 => "1ms".to_owned(),
            1 => format!("{}us", 1000 + self.below(1_000_000)),
            2 => format!("{}ms", 1 + self.below(100_000)),
            3 => format!("0.{}", 1 + self.below(999)),
            4 => format!("{}", 1 + self.below(1000)),
            5 => format!("{}h", 1 + self.below(1000)),
            6 => format!("{}d", 1 + self.below(3650)),
            _ => "3650d".to_owned(),
        }
    }

    /// Units of every size, small ones most often.
    pub fn units(&mut self) -> i64 {
        let bits = self.below(40);
        let small = if self.chance(70) { 4 } else { bits + 1 };
        i64::try_from(self.below(1 << small)).unwrap().min(TRILLION)
    }

    /// One limit; its parts are in range, though a bucket's drain need not be.
    pub fn limit(&mut self) -> String {
        let name = *self.pick(&[
            "",
            "TOKENBUCKET",
            "GCRA",
            "LEAKYBUCKET",
            "FIXEDWINDOW",
            "SLIDINGWINDOW",
            "SLIDINGLOG",
        ]);
        let count = match name {
            "SLIDINGLOG" => self.units().min(100_000),
            _ => self.units(),
        };
        let period = self.right_period();
        let takes_burst = !(name.contains("WINDOW") || name == "SLIDINGLOG");
        if takes_burst && self.chance(40) {
            let burst = self.units();
            format!("{name} {count} {period} BURST {burst}")
        } else {
            format!("{name} {count} {period}")
        }
        .trim()
        .to_owned()
    }

    /// One limit, or several.
    pub fn limits(&mut self) -> String {
        let count = if self.chance(70) {
            1
        } else {
            1 + self.below(8)
        };
        let limits: Vec<String> = (0..count).map(|_| self.limit()).collect();
        limits.join(" ")
    }
}
