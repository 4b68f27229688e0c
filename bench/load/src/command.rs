//! The command as bytes, on one key after another.

use crate::Outcome;

const KEY: &str = "{key}";
const PREFIX: &str = "rl:user:";
const DIGITS: usize = 9;

/// An encoded command whose key changes from request to request.
pub struct Command {
    bytes: Vec<u8>,
    /// Where the digits of the key lie, if it has one.
    digits: Option<usize>,
    keys: usize,
    in_order: bool,
    next: usize,
    random: u64,
}

impl Command {
    /// Encodes words; the first that is `{key}` stands for one of so many keys.
    pub fn new(words: &[String], keys: usize, in_order: bool) -> Outcome<Command> {
        if words.is_empty() {
            return Err("a command must follow --".into());
        }
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        let mut digits = None;
        for word in words {
            let name = format!("{PREFIX}{:0DIGITS$}", 0);
            let is_key = word == KEY;
            let word = if is_key { &name } else { word };
            bytes.extend(format!("${}\r\n{word}\r\n", word.len()).bytes());
            if is_key {
                digits = Some(bytes.len() - "\r\n".len() - DIGITS);
            }
        }
        Ok(Command {
            bytes,
            digits,
            keys,
            in_order,
            next: 0,
            // Any number but 0; the same one, so that runs are alike.
            random: 0x9e37_79b9_7f4a_7c15,
        })
    }

    /// The next request.
    pub fn next(&mut self) -> &[u8] {
        let mut index = self.next_index();
        if let Some(start) = self.digits {
            for place in (start..start + DIGITS).rev() {
                self.bytes[place] = b'0' + u8::try_from(index % 10).unwrap_or(0);
                index /= 10;
            }
        }
        &self.bytes
    }

    fn next_index(&mut self) -> usize {
        if self.in_order {
            let index = self.next;
            self.next = (index + 1) % self.keys;
            return index;
        }
        // xorshift64
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let high = usize::try_from(self.random >> 32).unwrap_or(0);
        (high * self.keys) >> 32
    }
}
