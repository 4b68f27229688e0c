//! Latencies, every one kept.

use std::fmt::Write;
use std::time::Duration;

/// The shares of requests whose latency is told, in percent.
const PERCENTILES: [f64; 14] = [
    10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 98.0, 99.0, 99.5, 99.9, 99.95, 99.99, 99.999, 100.0,
];

/// All latencies of a run.
pub struct Latencies(Vec<Duration>);

impl Latencies {
    /// Room for so many, so that none is measured while the room grows.
    pub fn with_capacity(requests: usize) -> Latencies {
        Latencies(Vec::with_capacity(requests))
    }

    /// Keeps one.
    pub fn push(&mut self, latency: Duration) {
        self.0.push(latency);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// `{"50": 81.2, ...}`: the percentiles in microseconds.
    pub fn into_json(mut self) -> String {
        self.0.sort_unstable();
        let mut json = String::from("{");
        for percent in PERCENTILES {
            let comma = if json.len() > 1 { ", " } else { "" };
            let latency = self.at(percent).as_secs_f64() * 1e6;
            // Writing to a string can't fail.
            let _ = write!(json, "{comma}\"{percent}\": {latency:.1}");
        }
        json + "}"
    }

    /// The latency that this share of requests does not exceed.
    fn at(&self, percent: f64) -> Duration {
        let count = self.0.len() as f64;
        // Nearest rank; a float in range becomes the integer next below it.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let rank = (count * percent / 100.0).ceil() as usize;
        let index = rank.saturating_sub(1);
        self.0.get(index).copied().unwrap_or_default()
    }
}
