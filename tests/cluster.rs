//! A cluster of three primaries with a replica each, and the cluster client of redis-rs: slots move
//! and primaries die while it takes, and every unit is accounted for.
//!
//! The limits' period is 3650 days, in which nothing drains while a test runs. The cluster gossips
//! by the machine's clock.

// A test fails by panicking.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use redis::cluster::{ClusterClient, ClusterConnection};
use redis::cluster_routing::{Route, RoutingInfo, SingleNodeRoutingInfo, SlotAddr};
use redis::{ErrorKind, Value};

use common::traffic::{seed_from_env, Rng};
use common::{until, words, Conn, Reply, Server, Setup};

const SLOTS: u16 = 16_384;
const PRIMARIES: usize = 3;
/// Longer than any pause of a busy machine: nobody fails over unless a test asks for it.
const PATIENT_MS: u32 = 15_000;
const HURRIED_MS: u32 = 1_000;

// ---------------------------------------------------------------------------------------------
// The cluster

struct Node {
    /// `None` while it is dead.
    server: Option<Server>,
    port: u16,
    id: String,
}

impl Node {
    fn conn(&self) -> Conn {
        self.server.as_ref().expect("the node is alive").conn()
    }

    fn ok(&self, line: &str) -> Value {
        self.conn().ok(line)
    }

    fn text(&self, line: &str) -> String {
        text(&self.ok(line))
    }

    fn is_primary(&self) -> bool {
        self.conn().info_field("replication", "role") == "master"
    }

    /// How often it has answered with an error of this code.
    fn errors(&self, code: &str) -> u64 {
        let field = self
            .conn()
            .info_field("errorstats", &format!("errorstat_{code}"));
        field
            .strip_prefix("count=")
            .map_or(0, |count| count.parse().unwrap())
    }
}

struct Cluster {
    nodes: Vec<Node>,
}

impl Cluster {
    fn start() -> Cluster {
        let servers: Vec<(Server, u16)> = thread::scope(|scope| {
            let starting: Vec<_> = (0..2 * PRIMARIES)
                .map(|_| scope.spawn(start_node))
                .collect();
            starting.into_iter().map(|s| s.join().unwrap()).collect()
        });
        let nodes = servers
            .into_iter()
            .map(|(server, port)| Node {
                id: text(&server.conn().ok("CLUSTER MYID")),
                server: Some(server),
                port,
            })
            .collect();
        let cluster = Cluster { nodes };
        cluster.form();
        cluster
    }

    fn form(&self) {
        for (index, node) in self.nodes.iter().enumerate() {
            node.ok(&format!("CLUSTER SET-CONFIG-EPOCH {}", index + 1));
        }
        let width = SLOTS.div_ceil(u16::try_from(PRIMARIES).unwrap());
        for (index, node) in self.nodes[..PRIMARIES].iter().enumerate() {
            let first = width * u16::try_from(index).unwrap();
            let slots: Vec<String> = (first..SLOTS.min(first + width))
                .map(|slot| slot.to_string())
                .collect();
            node.ok(&format!("CLUSTER ADDSLOTS {}", slots.join(" ")));
        }
        for node in &self.nodes {
            for other in self.nodes.iter().filter(|other| other.port != node.port) {
                node.ok(&format!("CLUSTER MEET 127.0.0.1 {}", other.port));
            }
        }
        until("all nodes have met", || {
            self.nodes.iter().all(|node| {
                let known = node.text("CLUSTER NODES");
                known.lines().count() == self.nodes.len() && !known.contains("handshake")
            })
        });
        let (primaries, replicas) = self.nodes.split_at(PRIMARIES);
        for (primary, replica) in primaries.iter().zip(replicas) {
            let command = format!("CLUSTER REPLICATE {}", primary.id);
            // It may be told of its primary a moment before it knows it as one.
            until("the replica is one", || {
                replica.conn().call(&command).is_ok()
            });
        }
        self.wait_settled();
        self.set_timeout(PATIENT_MS);
    }

    fn alive(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.server.is_some())
    }

    fn primaries(&self) -> Vec<&Node> {
        self.alive().filter(|node| node.is_primary()).collect()
    }

    /// Until every slot is served, the primaries agree by whom, and every replica follows.
    fn wait_settled(&self) {
        let all_alive = self.alive().count() == self.nodes.len();
        until("the cluster is whole", || {
            let primaries = self.primaries();
            let mut views: Vec<String> = primaries.iter().map(|node| owners(node)).collect();
            views.dedup();
            primaries.len() == PRIMARIES
                && views.len() == 1
                && self.alive().all(|node| {
                    let mut conn = node.conn();
                    text(&conn.ok("CLUSTER INFO")).contains("cluster_state:ok")
                        && if conn.info_field("replication", "role") == "master" {
                            !all_alive || conn.info_field("replication", "connected_slaves") != "0"
                        } else {
                            conn.info_field("replication", "master_link_status") == "up"
                        }
                })
        });
    }

    fn set_timeout(&self, ms: u32) {
        for node in self.alive() {
            node.ok(&format!("CONFIG SET cluster-node-timeout {ms}"));
        }
    }

    fn errors(&self, code: &str) -> u64 {
        self.alive().map(|node| node.errors(code)).sum()
    }

    fn client(&self) -> ClusterConnection {
        let nodes: Vec<String> = self
            .alive()
            .map(|node| format!("redis://127.0.0.1:{}", node.port))
            .collect();
        let client = ClusterClient::builder(nodes)
            // 25 times 20 ms: what isn't answered then, the test tries again.
            .retries(25)
            .retry_wait_formula(20, 1)
            .min_retry_wait(20)
            .max_retry_wait(20)
            .build()
            .unwrap();
        client.get_connection().unwrap()
    }

    fn slot_of(&self, key: &str) -> u16 {
        let node = self.alive().next().expect("a node is alive");
        let slot = node.conn().int(&format!("CLUSTER KEYSLOT {key}"));
        u16::try_from(slot).unwrap()
    }

    /// Who serves a slot, once all primaries say the same: for a moment after a move, news from
    /// before it can bring one of them back to the old owner.
    fn owner(&self, slot: u16) -> &Node {
        let mut line = String::new();
        until("the primaries agree", || {
            let mut views: Vec<String> = self.primaries().into_iter().map(owners).collect();
            views.dedup();
            line = views.pop().unwrap_or_default();
            views.is_empty() && !line.is_empty()
        });
        let id = line
            .split(';')
            .find_map(|owner| {
                let (id, ranges) = owner.split_once(' ')?;
                let serves = ranges.split(' ').any(|range| {
                    let (first, last) = range.split_once('-').unwrap_or((range, range));
                    (first.parse().unwrap()..=last.parse().unwrap()).contains(&slot)
                });
                serves.then(|| id.to_owned())
            })
            .expect("every slot is served");
        self.nodes.iter().find(|node| node.id == id).unwrap()
    }

    fn replica_of(&self, primary: &Node) -> &Node {
        self.alive()
            .find(|node| {
                !node.is_primary()
                    && node.conn().info_field("replication", "master_port")
                        == primary.port.to_string()
            })
            .expect("every primary has a replica")
    }

    /// A tag whose slot this node serves.
    fn tag_on(&self, node: &Node, name: &str) -> String {
        (0..)
            .map(|number| format!("{{{name}{number}}}"))
            .find(|tag| self.owner(self.slot_of(tag)).port == node.port)
            .unwrap()
    }
}

fn start_node() -> (Server, u16) {
    for _ in 0..5 {
        let port = free_port();
        let server = Setup::new()
            .config(&format!("port {port}"))
            .config("cluster-enabled yes")
            .config("cluster-config-file nodes.conf")
            .config(&format!("cluster-node-timeout {HURRIED_MS}"))
            // However long it was out of touch, a replica stands for election.
            .config("cluster-replica-validity-factor 0")
            .config("repl-ping-replica-period 1")
            .config("repl-timeout 60")
            .try_start();
        match server {
            Ok(server) => return (server, port),
            Err(log) => assert!(log.contains("in use"), "the node did not start:\n{log}"),
        }
    }
    panic!("no free port in five tries");
}

/// A free port with a free one 10000 above it, where the cluster's own bus runs.
fn free_port() -> u16 {
    loop {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        if let Some(bus) = port.checked_add(10_000) {
            if TcpListener::bind(("127.0.0.1", bus)).is_ok() {
                return port;
            }
        }
    }
}

/// Who serves what, as a node sees it: `id ranges;id ranges`, without slots on the move.
fn owners(node: &Node) -> String {
    let mut owners: Vec<String> = node
        .text("CLUSTER NODES")
        .lines()
        .filter_map(|line| {
            let fields: Vec<&str> = line.split(' ').collect();
            let ranges: Vec<&str> = fields[8..]
                .iter()
                .copied()
                .filter(|range| !range.starts_with('['))
                .collect();
            (!ranges.is_empty()).then(|| format!("{} {}", fields[0], ranges.join(" ")))
        })
        .collect();
    owners.sort();
    owners.join(";")
}

/// The epoch of every primary, as a node sees it.
fn epochs(node: &Node) -> Vec<String> {
    let mut epochs: Vec<String> = node
        .text("CLUSTER NODES")
        .lines()
        .map(|line| line.split(' ').collect::<Vec<&str>>())
        .filter(|fields| fields[2].contains("master"))
        .map(|fields| format!("{} {}", fields[0], fields[6]))
        .collect();
    epochs.sort();
    epochs
}

fn text(value: &Value) -> String {
    match value {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::VerbatimString { text, .. } => text.clone(),
        value => panic!("not a text: {value:?}"),
    }
}

// ---------------------------------------------------------------------------------------------
// The clients

const LIMITS: [(&str, &str); 7] = [
    ("token", "100000 3650d"),
    ("gcra", "GCRA 100000 3650d"),
    ("leaky", "LEAKYBUCKET 100000 3650d"),
    ("fixed", "FIXEDWINDOW 100000 3650d"),
    ("window", "SLIDINGWINDOW 100000 3650d"),
    ("log", "SLIDINGLOG 100000 3650d"),
    ("small", "40 3650d"),
];

/// Keys of each kind of limit under each tag, with what clients were told of each.
struct Ledger {
    admitted: BTreeMap<String, (&'static str, AtomicU64)>,
    refused: AtomicU64,
    calls: AtomicU64,
}

impl Ledger {
    fn new(tags: &[String]) -> Ledger {
        let keys = tags.iter().flat_map(|tag| {
            LIMITS.map(|(name, limit)| (format!("{tag}{name}"), (limit, AtomicU64::new(0))))
        });
        Ledger {
            admitted: keys.collect(),
            refused: AtomicU64::new(0),
            calls: AtomicU64::new(0),
        }
    }

    /// Takes one to three units of a random key, or of two keys at once.
    fn take(&self, client: &mut ClusterConnection, rng: &mut Rng) -> redis::RedisResult<()> {
        let cost = 1 + rng.below(3);
        let keys: Vec<&String> = self.admitted.keys().collect();
        let key = *rng.pick(&keys);
        let mine: Vec<String> = if rng.chance(10) {
            let tag = &key[..=key.find('}').unwrap()];
            vec![format!("{tag}token"), format!("{tag}log")]
        } else {
            vec![key.clone()]
        };
        let limits: Vec<&str> = mine.iter().map(|key| self.admitted[key].0).collect();
        let limits = limits.join(" ");
        let line = match mine.as_slice() {
            [key] => format!("RL.TAKE {key} {limits} COST {cost}"),
            keys => format!(
                "RL.MTAKE {} {} {limits} COST {cost}",
                keys.len(),
                keys.join(" ")
            ),
        };
        let reply = five(client, &line)?;
        self.calls.fetch_add(1, Ordering::Relaxed);
        if reply.allowed == 0 {
            self.refused.fetch_add(1, Ordering::Relaxed);
        } else {
            for key in &mine {
                self.admitted[key].1.fetch_add(cost, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// Waits until clients have got so many more replies.
    fn wait_for(&self, more: u64) {
        let goal = self.calls.load(Ordering::Relaxed) + more;
        until("clients get replies", || {
            self.calls.load(Ordering::Relaxed) >= goal
        });
    }

    /// Every unit that was admitted is held, and not one more.
    fn assert_exact(&self, cluster: &Cluster) {
        for (key, (limit, admitted)) in &self.admitted {
            let owner = cluster.owner(cluster.slot_of(key));
            let reply = owner.conn().five(&format!("RL.PEEK {key} {limit}"));
            let held = u64::try_from(reply.limit - reply.remaining).unwrap();
            assert_eq!(held, admitted.load(Ordering::Relaxed), "{key}");
        }
    }
}

fn call(client: &mut ClusterConnection, line: &str) -> redis::RedisResult<Value> {
    let mut command = redis::Cmd::new();
    for word in words(line) {
        command.arg(word);
    }
    command.query(client)
}

fn five(client: &mut ClusterConnection, line: &str) -> redis::RedisResult<Reply> {
    call(client, line).map(|value| Reply::from_value(&value).expect("five integers"))
}

/// Whether a call was sent on once too often; each of these says that it was not served.
fn is_redirected(error: &redis::RedisError) -> bool {
    use ErrorKind::{Ask, Moved, TryAgain};
    matches!(error.kind(), Ask | Moved | TryAgain)
}

/// Three clients take without a pause while `work` does its part.
fn under_load(cluster: &Cluster, ledger: &Ledger, seed: u64, work: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for number in 0..3 {
            let mut client = cluster.client();
            let mut rng = Rng::new(seed + number);
            let stop = &stop;
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    match ledger.take(&mut client, &mut rng) {
                        // Sent to and fro between the two nodes of a slot until it gave up: with
                        // two keys, one on each node, neither can serve it.
                        Err(error) if is_redirected(&error) => {}
                        taken => taken.expect("no error"),
                    }
                }
            });
        }
        // The clients stop even if the work fails.
        let _stop = Stop(&stop);
        ledger.wait_for(100);
        work();
    });
}

struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

// ---------------------------------------------------------------------------------------------
// The tests, one after the other on one cluster

#[test]
fn a_cluster_keeps_every_unit() {
    let seed = seed_from_env("RL_SEED");
    println!("RL_SEED={seed} repeats the clients' choices");
    let mut cluster = Cluster::start();
    keys_find_their_node(&cluster);
    slots_move_under_load(&cluster, seed);
    a_primary_dies(&mut cluster, seed);
}

fn keys_find_their_node(cluster: &Cluster) {
    let mut client = cluster.client();
    for key in 0..50 {
        for remaining in [9, 8] {
            let reply = five(&mut client, &format!("RL.TAKE key:{key} 10 3650d")).unwrap();
            assert_eq!((reply.allowed, reply.remaining), (1, remaining));
        }
        let reply = five(&mut client, &format!("RL.GIVE key:{key} 10 3650d")).unwrap();
        assert_eq!(reply.remaining, 9);
        let reply = five(&mut client, &format!("CL.THROTTLE cell:{key} 15 30 60")).unwrap();
        assert_eq!((reply.allowed, reply.remaining), (0, 16), "limited 0 of 16");
    }
    for node in cluster.primaries() {
        assert!(node.conn().int("DBSIZE") > 0, "its share of the keys");
    }

    let line = "RL.MTAKE 2 {user}a {user}b 10 3650d 20 3650d";
    assert_eq!(five(&mut client, line).unwrap().remaining, 9);
    let apart = call(&mut client, "RL.MTAKE 2 a b 10 3650d 20 3650d");
    assert_eq!(apart.unwrap_err().kind(), ErrorKind::CrossSlot);

    // The client takes the number of keys for the key. It is sent on, and need not be: it can be
    // told the slot.
    let moved = cluster.errors("MOVED");
    let mut command = redis::cmd("RL.MTAKE");
    for word in words(line).split_off(1) {
        command.arg(word);
    }
    let route = Route::new(cluster.slot_of("{user}"), SlotAddr::Master);
    let routing = RoutingInfo::SingleNode(SingleNodeRoutingInfo::SpecificNode(route));
    let value = client.route_command(&command, routing).unwrap();
    assert_eq!(Reply::from_value(&value).unwrap().remaining, 8);
    assert_eq!(cluster.errors("MOVED"), moved);
}

fn slots_move_under_load(cluster: &Cluster, seed: u64) {
    let tags: Vec<String> = cluster
        .primaries()
        .iter()
        .map(|node| cluster.tag_on(node, "move"))
        .collect();
    let ledger = Ledger::new(&tags);
    let (moved, asked) = (cluster.errors("MOVED"), cluster.errors("ASK"));
    under_load(cluster, &ledger, seed, || {
        for tag in tags.iter().chain(&tags) {
            let slot = cluster.slot_of(tag);
            let source = cluster.owner(slot);
            let primaries = cluster.primaries();
            let place = primaries
                .iter()
                .position(|p| p.port == source.port)
                .unwrap();
            let target = primaries[(place + 1) % primaries.len()];
            move_slot(cluster, &ledger, slot, source, target);
        }
    });
    ledger.assert_exact(cluster);
    assert!(cluster.errors("MOVED") > moved && cluster.errors("ASK") > asked);
    assert!(ledger.refused.load(Ordering::Relaxed) > 0);
}

/// As redis-cli does it, but halfway it waits until clients were asked to ask elsewhere.
fn move_slot(cluster: &Cluster, ledger: &Ledger, slot: u16, source: &Node, target: &Node) {
    // A target that had not heard of the source's last epoch would claim the slot with a lower one,
    // and a word of the source's from before the move could then undo it for good.
    until("the primaries know each other's epochs", || {
        let mut views: Vec<Vec<String>> = cluster.primaries().into_iter().map(epochs).collect();
        views.dedup();
        views.len() == 1
    });
    target.ok(&format!("CLUSTER SETSLOT {slot} IMPORTING {}", source.id));
    source.ok(&format!("CLUSTER SETSLOT {slot} MIGRATING {}", target.id));
    let asked = cluster.errors("ASK");
    let mut batch = 3;
    loop {
        let keys: Vec<String> =
            redis::from_redis_value(&source.ok(&format!("CLUSTER GETKEYSINSLOT {slot} {batch}")))
                .unwrap();
        if keys.is_empty() {
            break;
        }
        let mut command = words(&format!("MIGRATE 127.0.0.1 {} X 0 5000 KEYS", target.port));
        command[3].clear(); // no single key, but those that follow
        command.extend(keys.into_iter().map(String::into_bytes));
        source.conn().send(command).unwrap();
        until("clients meet a slot that is halfway", || {
            cluster.errors("ASK") > asked
        });
        batch = 100;
    }
    let mut order = vec![target, source];
    order.extend(
        cluster
            .primaries()
            .into_iter()
            .filter(|node| node.port != source.port && node.port != target.port),
    );
    for node in order {
        node.ok(&format!("CLUSTER SETSLOT {slot} NODE {}", target.id));
    }
    ledger.wait_for(30);
}

/// Killed in a quiet moment, when its replica has everything: nothing at all is lost, and clients
/// go on where they were. No call that fails meanwhile was done, so none is counted twice.
fn a_primary_dies(cluster: &mut Cluster, seed: u64) {
    let tags: Vec<String> = cluster
        .primaries()
        .iter()
        .map(|node| cluster.tag_on(node, "die"))
        .collect();
    let ledger = Ledger::new(&tags);
    let mut rng = Rng::new(seed);
    let mut clients = [cluster.client(), cluster.client()];
    for client in &mut clients {
        for _ in 0..300 {
            ledger.take(client, &mut rng).expect("no error");
        }
    }
    let victim = cluster.primaries()[0].port;
    let victim = cluster.nodes.iter().position(|n| n.port == victim).unwrap();
    let replica = cluster.replica_of(&cluster.nodes[victim]);
    let successor = replica.port;
    common::wait_in_sync(&mut cluster.nodes[victim].conn(), &mut replica.conn());

    cluster.set_timeout(HURRIED_MS);
    let mut dead = cluster.nodes[victim].server.take().unwrap();
    dead.kill();
    for client in &mut clients {
        for _ in 0..300 {
            until("the client gets through", || {
                let taken = ledger.take(client, &mut rng);
                // It goes on asking the dead node as long as it lives: a new one looks around.
                if taken.is_err() {
                    *client = cluster.client();
                }
                taken.is_ok()
            });
        }
    }
    // News of the successor takes a moment to reach every node.
    let dead_id = &cluster.nodes[victim].id;
    until("nobody takes the dead node for the owner of slots", || {
        cluster.alive().all(|node| {
            node.text("CLUSTER NODES")
                .lines()
                .filter(|line| line.starts_with(dead_id.as_str()))
                .all(|line| line.split_whitespace().count() == 8)
        })
    });
    ledger.assert_exact(cluster);
    assert!(cluster.primaries().iter().any(|n| n.port == successor));

    // It comes back as the replica of the one that took over.
    cluster.nodes[victim].server = Some(dead.restart(|setup| setup));
    cluster.wait_settled();
    cluster.set_timeout(PATIENT_MS);
    ledger.assert_exact(cluster);
}
