//! Requests at fixed intervals, whether or not the server keeps up.
//!
//! Request i is due at start + i x interval, on connection i mod connections,
//! and its latency runs from that instant to its reply. On a connection one
//! request is on its way at a time, so one that comes due meanwhile waits in
//! line; the wait counts. A server that stalls for a second is thus charged for
//! every request that was due in that second, and not only for the one that
//! happened to be on its way (that mistake is called coordinated omission).

use crate::latencies::Latencies;
use crate::options::{Pace, Target};
use crate::reply;
use crate::Outcome;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};

/// When the next request is further off than this, waiting is left to the
/// kernel, whose timers are no finer than a millisecond.
const COARSE: Duration = Duration::from_millis(2);

/// Offers requests at a pace and says how long they took.
pub fn run(mut target: Target, pace: Pace) -> Outcome<String> {
    let mut poll = Poll::new()?;
    let mut clients = Vec::new();
    for index in 0..target.connections {
        clients.push(Client::connect(&target, &poll, Token(index))?);
    }
    let mut events = Events::with_capacity(target.connections);
    let mut latencies = Latencies::with_capacity(pace.requests);
    let mut schedule = Schedule::new(&pace);
    let mut unanswered = pace.warm_up + pace.requests;
    let mut admitted = 0;
    let mut latest_start = Duration::ZERO;

    let start = Instant::now();
    while unanswered > 0 {
        let now = start.elapsed();
        while let Some(request) = schedule.due(now) {
            latest_start = latest_start.max(now - request.due);
            let index = request.index % clients.len();
            clients[index].request(request, &mut target)?;
        }
        poll.poll(&mut events, Some(schedule.rest(start.elapsed())))?;
        for event in &events {
            let Some(client) = clients.get_mut(event.token().0) else {
                continue;
            };
            while let Some((request, reply)) = client.receive()? {
                if request.index >= pace.warm_up {
                    latencies.push(start.elapsed() - request.due);
                    admitted += usize::from(reply.first == Some(1));
                }
                unanswered -= 1;
                client.send_next(&mut target)?;
            }
        }
    }

    let took = start.elapsed() - pace.interval * u32::try_from(pace.warm_up)?;
    let requests = latencies.len();
    let behind_us = latest_start.as_secs_f64() * 1e6;
    Ok(format!(
        "{{\"requests\": {requests}, \"admitted\": {admitted}, \"seconds\": {:.6}, \
         \"client_behind_us\": {behind_us:.1}, \"latency_us\": {}}}",
        took.as_secs_f64(),
        latencies.into_json(),
    ))
}

/// A request and when it is due, counted from the start.
#[derive(Clone, Copy)]
struct Request {
    index: usize,
    due: Duration,
}

/// The requests that are not due yet.
struct Schedule {
    interval: Duration,
    next: Request,
    total: usize,
}

impl Schedule {
    fn new(pace: &Pace) -> Schedule {
        Schedule {
            interval: pace.interval,
            next: Request {
                index: 0,
                due: Duration::ZERO,
            },
            total: pace.warm_up + pace.requests,
        }
    }

    /// The next request, if it is due by now.
    fn due(&mut self, now: Duration) -> Option<Request> {
        let request = self.next;
        if request.index == self.total || request.due > now {
            return None;
        }
        self.next.index += 1;
        self.next.due += self.interval;
        Some(request)
    }

    /// How long the kernel may wait for replies alone.
    fn rest(&self, now: Duration) -> Duration {
        if self.next.index == self.total {
            return Duration::from_millis(100);
        }
        let wait = self.next.due.saturating_sub(now);
        if wait > COARSE {
            wait - COARSE
        } else {
            Duration::ZERO
        }
    }
}

/// A connection with at most one request on its way.
struct Client {
    stream: TcpStream,
    on_its_way: Option<Request>,
    waiting: VecDeque<Request>,
    received: Vec<u8>,
}

impl Client {
    fn connect(target: &Target, poll: &Poll, token: Token) -> Outcome<Client> {
        // Waits until it is connected, unlike mio's own.
        let stream = std::net::TcpStream::connect(target.server)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let mut stream = TcpStream::from_std(stream);
        poll.registry()
            .register(&mut stream, token, Interest::READABLE)?;
        Ok(Client {
            stream,
            on_its_way: None,
            waiting: VecDeque::new(),
            received: Vec::new(),
        })
    }

    fn request(&mut self, request: Request, target: &mut Target) -> Outcome<()> {
        self.waiting.push_back(request);
        self.send_next(target)
    }

    fn send_next(&mut self, target: &mut Target) -> Outcome<()> {
        if self.on_its_way.is_none() {
            self.on_its_way = self.waiting.pop_front();
            if self.on_its_way.is_some() {
                // With one request on its way, it always fits the socket's buffer.
                self.stream.write_all(target.command.next())?;
            }
        }
        Ok(())
    }

    /// The reply to the request on its way, if all of it has come.
    fn receive(&mut self) -> Outcome<Option<(Request, reply::Reply)>> {
        let mut more = [0; 4096];
        loop {
            match self.stream.read(&mut more) {
                Ok(0) => return Err("the server closed the connection".into()),
                Ok(len) => self.received.extend_from_slice(&more[..len]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            }
            if let Some(reply) = reply::read(&self.received)? {
                self.received.clear();
                let request = self.on_its_way.take().ok_or("a reply to no request")?;
                return Ok(Some((request, reply)));
            }
        }
    }
}
