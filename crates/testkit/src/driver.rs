//! Drives a spawned agent on raw lines.
//!
//! It knows JSON-RPC and no more, so that it sees what an SDK would hide: every byte of stdout is kept, and each line must
//! be one frame. A test fails when that is not so, whatever else it looked at.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::process;
use crate::wait::eventually;

/// How long a message may take. Generous, because test machines are slow and busy; nothing waits for it when all is well.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// What of the agent's output is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reads {
    /// All.
    Both,
    /// stdout only; stderr is a pipe that fills up.
    Stdout,
}

/// A running agent.
pub struct Agent {
    child: Child,
    stdin: Option<ChildStdin>,
    messages: mpsc::Receiver<Value>,
    #[cfg(unix)]
    stdout_pipe: Option<std::os::fd::OwnedFd>,
    held_stderr: Option<std::process::ChildStderr>,
    waiting: VecDeque<Value>,
    all: Vec<Value>,
    stdout: Arc<Mutex<Stdout>>,
    gate: Arc<Gate>,
    stderr: Arc<Mutex<Vec<u8>>>,
    readers: Vec<std::thread::JoinHandle<()>>,
    next_id: u64,
}

/// What came on stdout.
#[derive(Default)]
struct Stdout {
    bytes: Vec<u8>,
    /// The first thing that is not a frame.
    fault: Option<String>,
    /// The last line may lack its end.
    cut: bool,
}

/// Holds the reader back.
#[derive(Default)]
struct Gate {
    closed: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn set(&self, closed: bool) {
        *self.closed.lock().unwrap_or_else(PoisonError::into_inner) = closed;
        self.opened.notify_all();
    }

    fn pass(&self) {
        let closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.opened.wait_while(closed, |closed| *closed));
    }
}

/// A finished agent.
pub struct Finished {
    /// Its status.
    pub status: ExitStatus,
    /// Every message it sent.
    pub messages: Vec<Value>,
    /// Every byte of stdout.
    pub stdout: Vec<u8>,
    /// Every byte of stderr that was read.
    pub stderr: String,
    /// How long its end took since it was waited for.
    pub took: Duration,
}

impl Agent {
    /// Starts it and reads everything.
    pub fn spawn(command: Command) -> Self {
        Self::spawn_reading(command, Reads::Both)
    }

    /// Starts it.
    pub fn spawn_reading(mut command: Command, reads: Reads) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the agent starts");
        let (stdout, stderr) = (child.stdout.take().expect("stdout"), child.stderr.take().expect("stderr"));
        let (send, messages) = mpsc::channel();
        let mut agent = Self {
            stdin: child.stdin.take(),
            child,
            messages,
            #[cfg(unix)]
            stdout_pipe: std::os::fd::AsFd::as_fd(&stdout).try_clone_to_owned().ok(),
            held_stderr: None,
            waiting: VecDeque::new(),
            all: Vec::new(),
            stdout: Arc::default(),
            gate: Arc::default(),
            stderr: Arc::default(),
            readers: Vec::new(),
            next_id: 0,
        };
        let (kept, gate) = (Arc::clone(&agent.stdout), Arc::clone(&agent.gate));
        agent.readers.push(std::thread::spawn(move || read_frames(stdout, &kept, &gate, &send)));
        if reads == Reads::Stdout {
            agent.held_stderr = Some(stderr);
        } else {
            let kept = Arc::clone(&agent.stderr);
            agent.readers.push(std::thread::spawn(move || read_bytes(stderr, &kept)));
        }
        agent
    }

    /// Stops reading stdout. From here on the agent's last line may be cut.
    pub fn stop_reading(&self) {
        self.stdout.lock().unwrap_or_else(PoisonError::into_inner).cut = true;
        self.gate.set(true);
    }

    /// Bytes that wait in the stdout pipe.
    #[cfg(unix)]
    pub fn stdout_backlog(&self) -> u64 {
        self.stdout_pipe.as_ref().and_then(|pipe| rustix::io::ioctl_fionread(pipe).ok()).unwrap_or_default()
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Writes bytes and a newline. False when the agent has closed its stdin.
    pub fn try_send_line(&mut self, line: impl AsRef<[u8]>) -> bool {
        let Some(stdin) = &mut self.stdin else { return false };
        stdin
            .write_all(line.as_ref())
            .and_then(|()| stdin.write_all(b"\n"))
            .and_then(|()| stdin.flush())
            .is_ok()
    }

    /// Writes a message.
    pub fn send(&mut self, message: &Value) {
        assert!(
            self.try_send_line(message.to_string()),
            "the agent closed its stdin; stderr: {}",
            self.stderr()
        );
    }

    /// Sends a request; its id.
    pub fn request(&mut self, method: &str, params: &Value) -> Value {
        self.next_id += 1;
        let id = json!(self.next_id);
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// Sends a notification.
    pub fn notify(&mut self, method: &str, params: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Answers a request of the agent.
    pub fn answer(&mut self, request: &Value, result: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
    }

    /// Sends a request and waits for its answer.
    pub fn call(&mut self, method: &str, params: &Value) -> Value {
        let id = self.request(method, params);
        self.answer_to(&id)
    }

    /// Sends a request and returns its result.
    pub fn ok(&mut self, method: &str, params: &Value) -> Value {
        let answer = self.call(method, params);
        assert!(answer.get("result").is_some(), "{method} failed: {answer}; stderr: {}", self.stderr());
        answer["result"].clone()
    }

    /// Sends a request that must fail, and returns the error.
    pub fn err(&mut self, method: &str, params: &Value) -> Value {
        let answer = self.call(method, params);
        assert!(answer.get("error").is_some(), "{method} did not fail: {answer}");
        answer["error"].clone()
    }

    /// Initializes with no capabilities.
    pub fn initialize(&mut self) -> Value {
        let info = json!({"name": "driver", "version": "1"});
        self.ok("initialize", &json!({"protocolVersion": 1, "clientCapabilities": {}, "clientInfo": info}))
    }

    /// Opens a session; its id.
    pub fn new_session(&mut self, cwd: &std::path::Path) -> String {
        let result = self.ok("session/new", &json!({"cwd": cwd, "mcpServers": []}));
        result["sessionId"].as_str().expect("a session id").to_owned()
    }

    /// Sends a text prompt; the id of the request.
    pub fn prompt(&mut self, session: &str, text: &str) -> Value {
        self.request(
            "session/prompt",
            &json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]}),
        )
    }

    /// The answer with this id.
    pub fn answer_to(&mut self, id: &Value) -> Value {
        self.wait_for(&format!("the answer to request {id}"), |message| {
            message.get("method").is_none() && message.get("id") == Some(id)
        })
    }

    /// The next request of the agent with this method.
    pub fn asked(&mut self, method: &str) -> Value {
        self.wait_for(method, |message| message["method"] == method && message.get("id").is_some())
    }

    /// The next update of this kind.
    pub fn update(&mut self, kind: &str) -> Value {
        let message = self.wait_for(kind, |message| message["params"]["update"]["sessionUpdate"] == kind);
        message["params"]["update"].clone()
    }

    /// The first message that has not been taken yet and fits. Others stay for later.
    pub fn wait_for(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.waiting.iter().position(&fits)
            && let Some(message) = self.waiting.remove(at)
        {
            return message;
        }
        let end = Instant::now() + PATIENCE;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.messages.recv_timeout(left) {
                Ok(message) => {
                    self.all.push(message.clone());
                    if fits(&message) {
                        return message;
                    }
                    self.waiting.push_back(message);
                }
                Err(error) => {
                    let why = if error == RecvTimeoutError::Timeout {
                        "did not come"
                    } else {
                        "cannot come: stdout ended"
                    };
                    panic!("{what} {why}; unread: {:?}; stderr: {}", self.waiting, self.stderr());
                }
            }
        }
    }

    /// Everything received so far.
    pub fn received(&mut self) -> &[Value] {
        while let Ok(message) = self.messages.try_recv() {
            self.all.push(message.clone());
            self.waiting.push_back(message);
        }
        &self.all
    }

    /// What was read of stderr so far.
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.stderr.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    /// Closes its stdin.
    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Sends a signal, by name without `SIG`.
    pub fn signal(&self, name: &str) {
        assert!(process::signal(self.pid(), name), "signal {name}");
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for its end, at most `limit`, and checks every byte of stdout.
    pub fn finish(mut self, limit: Duration) -> Finished {
        let begun = Instant::now();
        let status = eventually(limit, || self.child.try_wait().expect("wait"));
        let took = begun.elapsed();
        let Some(status) = status else {
            let stderr = self.stderr();
            panic!("the agent did not end within {limit:?}; stderr: {stderr}");
        };
        self.gate.set(false);
        self.stdin = None;
        // A grandchild that holds the pipe would keep a reader; that is not this function's business.
        let readers = std::mem::take(&mut self.readers);
        eventually(Duration::from_secs(2), || {
            readers.iter().all(std::thread::JoinHandle::is_finished).then_some(())
        });
        self.received();
        let stdout = {
            let kept = self.stdout.lock().unwrap_or_else(PoisonError::into_inner);
            assert!(kept.fault.is_none(), "{}", kept.fault.as_deref().unwrap_or_default());
            kept.bytes.clone()
        };
        Finished { status, messages: std::mem::take(&mut self.all), stdout, stderr: self.stderr(), took }
    }
}

impl Finished {
    /// The answer with this id.
    pub fn answer_to(&self, id: &Value) -> Option<&Value> {
        self.messages.iter().find(|message| message.get("method").is_none() && message.get("id") == Some(id))
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.stdin = None;
        self.gate.set(false);
        let _ = self.child.kill();
        let _ = self.child.wait();
        if !std::thread::panicking() {
            let fault = self.stdout.lock().unwrap_or_else(PoisonError::into_inner).fault.take();
            assert!(fault.is_none(), "{}", fault.unwrap_or_default());
        }
    }
}

fn read_bytes(mut from: impl Read, kept: &Mutex<Vec<u8>>) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        kept.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&buffer[..read]);
    }
}

fn read_frames(from: impl Read, kept: &Mutex<Stdout>, gate: &Gate, send: &mpsc::Sender<Value>) {
    let mut reader = BufReader::new(from);
    loop {
        gate.pass();
        let mut line = Vec::new();
        match reader.read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let frame = frame(&line);
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.bytes.extend_from_slice(&line);
        match frame {
            Ok(message) => drop(send.send(message)),
            Err("no line end") if kept.cut => {}
            Err(why) => {
                let shown: String = String::from_utf8_lossy(&line).chars().take(200).collect();
                kept.fault.get_or_insert(format!("stdout has a line that is no frame ({why}): {shown:?}"));
            }
        }
    }
}

/// One JSON-RPC 2.0 message, in UTF-8, with a line feed after it and nothing else.
fn frame(line: &[u8]) -> Result<Value, &'static str> {
    let body = line.strip_suffix(b"\n").ok_or("no line end")?;
    let text = std::str::from_utf8(body).map_err(|_| "not UTF-8")?;
    if text.trim() != text {
        return Err("space around it");
    }
    let message: Value = serde_json::from_str(text).map_err(|_| "not JSON")?;
    let has = |key: &str| message.get(key).is_some();
    if !message.is_object() || message["jsonrpc"] != "2.0" {
        return Err("not JSON-RPC 2.0");
    }
    match (has("method"), has("result"), has("error")) {
        (true, false, false) => Ok(message),
        (false, true, false) | (false, false, true) if has("id") => Ok(message),
        _ => Err("neither request nor notification nor answer"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_frames_are_frames() {
        for good in
            ["{\"jsonrpc\":\"2.0\",\"method\":\"a\"}\n", "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{}}\n"]
        {
            assert!(frame(good.as_bytes()).is_ok(), "{good}");
        }
        for bad in [
            "\n",
            "hello\n",
            "{\"jsonrpc\":\"2.0\",\"method\":\"a\"}",
            "{\"jsonrpc\":\"2.0\",\"method\":\"a\"}\r\n",
            " {\"jsonrpc\":\"2.0\",\"method\":\"a\"}\n",
            "{\"method\":\"a\"}\n",
            "[]\n",
            "{\"jsonrpc\":\"2.0\",\"result\":1}\n",
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1,\"error\":{}}\n",
        ] {
            assert!(frame(bad.as_bytes()).is_err(), "{bad:?}");
        }
        assert_eq!(frame(b"\xff\n"), Err("not UTF-8"));
    }
}
