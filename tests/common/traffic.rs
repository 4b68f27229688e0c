//! Seeded traffic of every kind, and pictures of what it leaves in the keyspace.

use std::env;

use redis::Value;

use super::{words, Conn, Words};

/// A small generator of reproducible numbers (splitmix64).
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 0 up to, not including, `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(u64::try_from(len).unwrap())).unwrap()
    }

    pub fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }

    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.index(of.len())]
    }

    /// True `percent` times of a hundred.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// The seed that the environment names, or a new one. Print it.
pub fn seed_from_env(variable: &str) -> u64 {
    env::var(variable).map_or_else(
        |_| {
            let now = std::time::SystemTime::now();
            let since = now.duration_since(std::time::UNIX_EPOCH).unwrap();
            u64::from(since.subsec_nanos()) ^ (since.as_secs() << 30)
        },
        |text| {
            text.parse()
                .unwrap_or_else(|_| panic!("{variable} must be a number"))
        },
    )
}

/// Limits of every kind, alone and together, small enough to be used up.
const LIMITS: &[&str] = &[
    "100 60 BURST 20",
    "7 1",
    "GCRA 50 10s BURST 20",
    "GCRA 3 1s BURST 1",
    "LEAKYBUCKET 20 1m",
    "FIXEDWINDOW 30 60",
    "FIXEDWINDOW 5 1s",
    "SLIDINGWINDOW 30 10s",
    "SLIDINGLOG 40 30s",
    "SLIDINGLOG 10 1s",
    "10 1 FIXEDWINDOW 1000 1h",
    "SLIDINGLOG 10 1 SLIDINGLOG 60 1m",
    "GCRA 10 1 BURST 20 LEAKYBUCKET 100 1m SLIDINGWINDOW 500 1h",
    "5 1 10 2 20 4 FIXEDWINDOW 30 10 SLIDINGWINDOW 40 20 SLIDINGLOG 50 30 GCRA 60 60 LEAKYBUCKET 70 90",
    "FIXEDWINDOW 0 60",
];

/// Takes, gives, forced takes, refusals, peeks, errors and changes of limits on a few dozen keys.
pub struct Traffic {
    rng: Rng,
    limits: Vec<&'static str>,
}

impl Traffic {
    /// Traffic from the seed that RL_TEST_SEED names, or from a new one.
    pub fn new() -> Traffic {
        let seed = seed_from_env("RL_TEST_SEED");
        println!("RL_TEST_SEED={seed}");
        // Every kind of limit on three keys.
        Traffic {
            rng: Rng::new(seed),
            limits: LIMITS
                .iter()
                .copied()
                .cycle()
                .take(LIMITS.len() * 3)
                .collect(),
        }
    }

    pub fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    fn next_command(&mut self) -> Words {
        let key = self.rng.index(self.limits.len());
        let limits = self.limits[key];
        let few = 1 + self.rng.below(3);
        let line = match self.rng.below(100) {
            0..=44 => format!("RL.TAKE key:{key} {limits}"),
            45..=54 => format!("RL.TAKE key:{key} {limits} COST {few} DETAIL"),
            55..=61 => format!("RL.TAKE key:{key} {limits} ATMOST {}", few * 5),
            62..=67 => format!("RL.TAKE key:{key} {limits} COST {} FORCE", few * 4),
            68..=77 => format!("RL.GIVE key:{key} {limits} COST {few}"),
            78..=83 => format!("RL.PEEK key:{key} {limits}"),
            84..=86 => format!("RL.TAKE key:{key} {limits} COST 1000000"),
            87 => format!("RL.TAKE key:{key} {limits} COST 0"),
            88..=91 => format!(
                "RL.MTAKE 3 m:{} m:{} m:9 5 10 FIXEDWINDOW 20 1m SLIDINGLOG 30 1m COST {few}",
                self.rng.below(3),
                3 + self.rng.below(3),
            ),
            92..=96 => {
                let quantity = [-2, 0, 1, 1, 2, 40][self.rng.index(6)];
                format!("CL.THROTTLE cell:{} 15 30 60 {quantity}", self.rng.below(4))
            }
            97 => format!("RL.TAKE key:{key} {limits} COST no-number"),
            98 => {
                let other = self.rng.index(LIMITS.len());
                self.limits[key] = LIMITS[other];
                format!("RL.TAKE key:{key} {}", LIMITS[other])
            }
            _ => format!("DEL key:{key}"),
        };
        words(&line)
    }

    /// Sends the next `count` commands as one pipeline. Only the commands that are wrong on
    /// purpose get an error.
    pub fn send(&mut self, conn: &mut Conn, count: usize) {
        let commands: Vec<Words> = (0..count).map(|_| self.next_command()).collect();
        for (command, answer) in commands.iter().zip(conn.pipe(&commands)) {
            if let Err(error) = answer {
                let line = String::from_utf8_lossy(&command.join(&b' ')).into_owned();
                assert!(line.contains("no-number"), "{line}: {error}");
                assert!(error.starts_with("ERR COST must be"), "{line}: {error}");
            }
        }
    }

    /// Peeks that show the state of every key.
    pub fn peeks(&self) -> Vec<Words> {
        let keys = self.limits.iter().enumerate();
        keys.map(|(key, limits)| words(&format!("RL.PEEK key:{key} {limits} DETAIL")))
            .chain((0..4).map(|key| words(&format!("RL.PEEK cell:{key} GCRA 30 60 BURST 16"))))
            .chain([words("RL.PEEK m:9 SLIDINGLOG 30 1m")])
            .collect()
    }
}

/// A key with its DUMP and its expiry in milliseconds since 1970.
pub type Picture = Vec<(String, Value, Value)>;

/// Every key with the server's own bytes of its value and its expiry.
///
/// Redis 6.2 has no PEXPIRETIME. There it is PTTL, which tells as much while the clock stands.
pub fn picture(conn: &mut Conn) -> Picture {
    let Value::Array(keys) = conn.ok("KEYS *") else {
        panic!("KEYS is no array");
    };
    let mut names: Vec<Vec<u8>> = keys
        .iter()
        .map(|key| redis::from_redis_value(key).unwrap())
        .collect();
    names.sort();
    picture_of(conn, &names)
}

/// The same of the keys named.
pub fn picture_of(conn: &mut Conn, names: &[Vec<u8>]) -> Picture {
    let expiry = expiry_command(conn);
    let commands: Vec<Words> = names
        .iter()
        .flat_map(|name| {
            let dump = vec![b"DUMP".to_vec(), name.clone()];
            [dump, vec![expiry.as_bytes().to_vec(), name.clone()]]
        })
        .collect();
    let answers = conn.pipe(&commands);
    let mut values = answers.into_iter().map(Result::unwrap);
    names
        .iter()
        .map(|name| {
            let name = String::from_utf8_lossy(name).into_owned();
            (name, values.next().unwrap(), values.next().unwrap())
        })
        .collect()
}

/// The command that tells a key's expiry.
pub fn expiry_command(conn: &mut Conn) -> &'static str {
    if conn.has_command("PEXPIRETIME") {
        "PEXPIRETIME"
    } else {
        "PTTL"
    }
}

/// Asserts that two pictures are the same, and names the first key in which they differ.
pub fn assert_same(what: &str, left: &Picture, right: &Picture) {
    for (a, b) in left.iter().zip(right) {
        assert_eq!(a, b, "{what}");
    }
    assert_eq!(left.len(), right.len(), "{what}: the number of keys");
}
