//! As fast as the server answers: a batch is always on its way.

use crate::options::{Amount, Target};
use crate::reply;
use crate::Outcome;
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

/// Sends so many requests and says how long they took.
pub fn run(mut target: Target, amount: Amount) -> Outcome<String> {
    let mut clients = VecDeque::new();
    for _ in 0..target.connections {
        clients.push_back(Client::connect(&target)?);
    }
    let mut batch = Vec::new();
    let mut unsent = amount.requests;
    let mut admitted = 0;
    let start = Instant::now();
    // Every connection in turn gets its next batch as soon as its last one is
    // answered; meanwhile the others' batches keep the server busy.
    while let Some(mut client) = clients.pop_front() {
        admitted += client.receive()?;
        let count = amount.depth.min(unsent);
        if count > 0 {
            unsent -= count;
            batch.clear();
            for _ in 0..count {
                batch.extend_from_slice(target.command.next());
            }
            client.send(&batch, count)?;
            clients.push_back(client);
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let requests = amount.requests;
    Ok(format!(
        "{{\"requests\": {requests}, \"admitted\": {admitted}, \"seconds\": {seconds:.6}}}"
    ))
}

/// A connection and what it still has to receive.
struct Client {
    stream: TcpStream,
    expected: usize,
    received: Vec<u8>,
}

impl Client {
    fn connect(target: &Target) -> Outcome<Client> {
        let stream = TcpStream::connect(target.server)?;
        stream.set_nodelay(true)?;
        Ok(Client {
            stream,
            expected: 0,
            received: Vec::new(),
        })
    }

    fn send(&mut self, batch: &[u8], count: usize) -> Outcome<()> {
        self.stream.write_all(batch)?;
        self.expected = count;
        Ok(())
    }

    /// Waits for all that is expected; how many of the replies began with 1.
    fn receive(&mut self) -> Outcome<usize> {
        let mut admitted = 0;
        let mut read = 0;
        self.received.clear();
        while self.expected > 0 {
            if let Some(reply) = reply::read(&self.received[read..])? {
                read += reply.len;
                admitted += usize::from(reply.first == Some(1));
                self.expected -= 1;
                continue;
            }
            let mut more = [0; 16 * 1024];
            let len = self.stream.read(&mut more)?;
            if len == 0 {
                return Err("the server closed the connection".into());
            }
            self.received.extend_from_slice(&more[..len]);
        }
        Ok(admitted)
    }
}
