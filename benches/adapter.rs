//! Whole-process figures of the adapter, each beside a floor measured in the same run.
//!
//! `cargo bench --bench adapter` builds the release binary and prints a Markdown table; `docs/performance.md` holds a
//! copy of it. Figures are never asserted: machines differ. What is measured is the spawned binary on its standard
//! streams, with the embedded simulated host behind it, so the host's own work is included.
//!
//! Linux only, because memory is read from `/proc`.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::cast_precision_loss
)]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const STARTS: usize = 40;
const FLOOD_UPDATES: usize = 200_000;
const PACED_SECONDS: usize = 3;
const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}"#;

struct Agent {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    line: String,
}

impl Agent {
    fn spawn(program: &str, args: &[&str], home: &Path) -> Self {
        let mut child = Command::new(program)
            .args(args)
            .env("HOME", home)
            .env("ZCODE_ACP_SIM_STATE", home.join("sim"))
            .env("ZCODE_ACP_LOG_LEVEL", "error")
            .current_dir(home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let stdin = child.stdin.take().expect("piped");
        let stdout = BufReader::with_capacity(1 << 20, child.stdout.take().expect("piped"));
        Self { child, stdin, stdout, line: String::new() }
    }

    fn send(&mut self, line: &str) {
        self.stdin.write_all(line.as_bytes()).expect("the agent reads");
        self.stdin.write_all(b"\n").expect("the agent reads");
    }

    fn read(&mut self) -> &str {
        self.line.clear();
        assert!(
            self.stdout.read_line(&mut self.line).expect("the agent writes") > 0,
            "the agent ended early"
        );
        &self.line
    }

    fn answer(&mut self, id: u32) -> String {
        let wanted = format!("\"id\":{id}");
        loop {
            let line = self.read();
            if line.contains(&wanted) && !line.contains("\"method\"") {
                return line.to_owned();
            }
        }
    }

    fn open_session(&mut self, cwd: &Path) -> String {
        self.send(INITIALIZE);
        self.answer(0);
        self.send(&format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"session/new","params":{{"cwd":{:?},"mcpServers":[]}}}}"#,
            cwd.to_str().expect("UTF-8")
        ));
        let answer: serde_json::Value = serde_json::from_str(&self.answer(1)).expect("JSON");
        answer["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("no session: {answer}")).to_owned()
    }

    fn prompt(&mut self, session: &str, text: &str) {
        self.send(&format!(
            r#"{{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{{"sessionId":"{session}","prompt":[{{"type":"text","text":"{text}"}}]}}}}"#
        ));
    }

    fn memory_kib(&self, field: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("/proc");
        let line = status.lines().find(|line| line.starts_with(field)).expect("memory field");
        line.split_whitespace().nth(1).and_then(|value| value.parse().ok()).expect("a number")
    }

    /// User and system time so far, seconds.
    fn cpu_seconds(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("/proc");
        let after = stat.rsplit(')').next().expect("fields");
        let ticks: u64 =
            after.split_whitespace().skip(11).take(2).map(|value| value.parse::<u64>().expect("ticks")).sum();
        ticks as f64 / 100.0
    }

    fn end(mut self) {
        drop(self.stdin);
        let _ = self.child.wait();
    }
}

fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    sorted[(sorted.len() - 1) * percent / 100]
}

fn ms(duration: Duration) -> String {
    format!("{:.2} ms", duration.as_secs_f64() * 1e3)
}

/// Spawn to the first line read back, sorted.
fn start_times(program: &str, args: &[&str], home: &Path) -> Vec<Duration> {
    let mut times: Vec<Duration> = (0..STARTS)
        .map(|_| {
            let begin = Instant::now();
            let mut agent = Agent::spawn(program, args, home);
            agent.send(INITIALIZE);
            agent.read();
            let time = begin.elapsed();
            agent.end();
            time
        })
        .collect();
    times.sort_unstable();
    times
}

/// Updates a second and CPU seconds of a turn that streams as fast as it can.
fn flood(agent: &mut Agent, session: &str, scenario: &str) -> (usize, usize, f64, f64) {
    let cpu = agent.cpu_seconds();
    let begin = Instant::now();
    agent.prompt(session, &format!("sim:{scenario} {FLOOD_UPDATES}"));
    let (mut updates, mut bytes) = (0, 0);
    loop {
        let line = agent.read();
        if line.contains("\"session/update\"") {
            updates += 1;
            bytes += line.len();
        } else if line.contains("\"id\":2") {
            assert!(line.contains("stopReason"), "the turn failed: {line}");
            break;
        }
    }
    (updates, bytes, begin.elapsed().as_secs_f64(), agent.cpu_seconds() - cpu)
}

/// Time from the host's writing of a delta to its arrival here, sorted. The delta's text is the host's clock.
fn paced(agent: &mut Agent, session: &str, per_second: usize) -> Vec<Duration> {
    agent.prompt(session, &format!("sim:paced {} {per_second}", per_second * PACED_SECONDS));
    let mut times = Vec::new();
    loop {
        let line = agent.read();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_nanos();
        if line.contains("agent_message_chunk") {
            let message: serde_json::Value = serde_json::from_str(line).expect("JSON");
            let text = message["params"]["update"]["content"]["text"].as_str().unwrap_or_default();
            for stamp in text.split_whitespace().filter_map(|word| word.parse::<u128>().ok()) {
                times
                    .push(Duration::from_nanos(u64::try_from(now.saturating_sub(stamp)).unwrap_or(u64::MAX)));
            }
        } else if line.contains("\"id\":2") {
            break;
        }
    }
    times.sort_unstable();
    times
}

fn main() {
    let program = env!("CARGO_BIN_EXE_zcode-acp");
    let home = std::env::temp_dir().join(format!("zcode-acp-bench-{}", std::process::id()));
    std::fs::create_dir_all(&home).expect("a scratch directory");

    println!("| what | figure | beside |");
    println!("| --- | --- | --- |");
    let floor = start_times("cat", &[], &home);
    let ours = start_times(program, &["--simulated"], &home);
    println!(
        "| spawn to `initialize` answer, median / p95 of {STARTS} | {} / {} | `cat` echoing the line: {} / {} |",
        ms(percentile(&ours, 50)),
        ms(percentile(&ours, 95)),
        ms(percentile(&floor, 50)),
        ms(percentile(&floor, 95))
    );

    let mut agent = Agent::spawn(program, &["--simulated"], &home);
    agent.send(INITIALIZE);
    agent.answer(0);
    println!("| memory after `initialize`, resident | {} KiB | |", agent.memory_kib("VmRSS"));
    agent.end();

    let mut agent = Agent::spawn(program, &["--simulated"], &home);
    let session = agent.open_session(&home);
    println!("| memory with one session, simulated host included | {} KiB | |", agent.memory_kib("VmRSS"));
    for (scenario, what) in [("flood", "of one message"), ("flood-mixed", "that never merge")] {
        let (updates, bytes, seconds, cpu) = flood(&mut agent, &session, scenario);
        println!(
            "| host deltas {what}, through the whole adapter | {:.0}/s, {:.1} us CPU each | {FLOOD_UPDATES} deltas became {updates} updates, {:.1} MB |",
            FLOOD_UPDATES as f64 / seconds,
            cpu * 1e6 / FLOOD_UPDATES as f64,
            bytes as f64 / 1e6
        );
    }
    println!("| peak memory after those floods | {} KiB | |", agent.memory_kib("VmHWM"));
    for rate in [1_000, 10_000] {
        let times = paced(&mut agent, &session, rate);
        println!(
            "| host write to client read at {rate}/s, median / p99 of {} | {} / {} | |",
            times.len(),
            ms(percentile(&times, 50)),
            ms(percentile(&times, 99))
        );
    }
    agent.end();
    let _ = std::fs::remove_dir_all(&home);
}
