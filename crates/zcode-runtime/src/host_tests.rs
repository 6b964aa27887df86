//! A host played by hand, byte by byte, and child processes played by shell scripts.

use std::time::Instant;

use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};

use super::*;
use crate::model::{EventBody, Refusal};

#[path = "host_calls_tests.rs"]
mod calls;

const SOON: Duration = Duration::from_secs(10);

/// The far end of the wire.
struct Peer {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    write: WriteHalf<DuplexStream>,
    nonce: String,
}

impl Peer {
    async fn next(&mut self) -> Option<Value> {
        let line = tokio::time::timeout(SOON, self.lines.next_line())
            .await
            .expect("a line in time")
            .expect("readable");
        line.map(|line| serde_json::from_str(&line).expect("the adapter writes JSON"))
    }

    async fn request(&mut self) -> Value {
        self.next().await.expect("a request")
    }

    async fn send(&mut self, value: &Value) {
        let line = format!("{} {value}\n", self.nonce);
        self.write.write_all(line.as_bytes()).await.expect("the adapter reads");
    }

    async fn raw(&mut self, bytes: &[u8]) {
        self.write.write_all(bytes).await.expect("the adapter reads");
    }

    async fn answer(&mut self, request: &Value, result: &Value) {
        self.send(&json!({"id": request["id"], "result": result})).await;
    }
}

fn profile() -> Arc<HostProfile> {
    Arc::new(HostProfile::simulated(&Contract::embedded()))
}

/// A launch and the peer that has read the configuration and not yet said that it is ready.
async fn connect() -> (tokio::task::JoinHandle<Result<Host, Failure>>, Peer) {
    connect_under(Contract::embedded()).await
}

async fn connect_under(contract: Arc<Contract>) -> (tokio::task::JoinHandle<Result<Host, Failure>>, Peer) {
    let (near, far) = tokio::io::duplex(64 << 10);
    let (read, write) = tokio::io::split(near);
    let wire = Wire { read: Box::new(read), write: Box::new(write) };
    let config = supervisor::configuration(&contract, &ArchivePaths::default());
    let nonce = config.nonce.clone();
    let start = tokio::spawn(async move { launch(profile(), &contract, config, wire, None).await });
    let (read, write) = tokio::io::split(far);
    let mut peer = Peer { lines: BufReader::new(read).lines(), write, nonce };
    let config = peer.request().await;
    assert_eq!(config["nonce"], peer.nonce.as_str());
    assert_eq!(config["init"]["type"], "init-local");
    assert!(Path::new(config["init"]["agentSpawnFallbackCwd"].as_str().unwrap()).is_dir());
    assert_eq!(config["allow"]["task"], json!(["stopGeneration", "respondPermission", "respondElicitation"]));
    (start, peer)
}

fn ready() -> Value {
    json!({"ready": {"bridge": 1, "node": "24.0.0", "pid": 7, "simulated": true}})
}

async fn running() -> (Host, Peer) {
    running_under(Contract::embedded()).await
}

async fn running_under(contract: Arc<Contract>) -> (Host, Peer) {
    let (start, mut peer) = connect_under(contract).await;
    peer.send(&ready()).await;
    (start.await.unwrap().expect("ready"), peer)
}

/// The embedded contract with every method given `ms`.
fn impatient(ms: u64) -> Arc<Contract> {
    let mut contract = Contract::clone(&Contract::embedded());
    contract.protocol.timeouts_ms.methods.values_mut().for_each(|timeout| *timeout = ms);
    contract.protocol.timeouts_ms.default = ms;
    contract.protocol.timeouts_ms.subscription_snapshot = ms;
    contract.protocol.timeouts_ms.host_ready = ms;
    Arc::new(contract)
}

fn session() -> SessionId {
    SessionId::new("s")
}

fn snapshot(seq: u64) -> Value {
    json!({"session": {"sessionId": "s", "mode": "build"}, "runtime": {"eventSeq": seq}})
}

fn delta(subscription: u64, seq: u64) -> Value {
    json!({"subscription": subscription, "event": {"type": "session.event", "event": {"eventId": format!("e{seq}"),
        "sessionId": "s", "seq": seq, "type": "model.streaming", "payload": {"kind": "text_delta", "delta": "x"}}}})
}

/// A standing subscription, with the number the adapter chose.
async fn subscribed(host: &Host, peer: &mut Peer) -> (Subscription, u64) {
    let subscribing = tokio::spawn({
        let host = host.clone();
        async move { host.subscribe(Path::new("/w"), &session()).await }
    });
    let request = peer.request().await;
    let number = request["subscribe"]["subscription"].as_u64().unwrap();
    assert_eq!(
        request["subscribe"]["params"],
        json!({"workspacePath": "/w", "sessionId": "s",
        "deliveryKind": "desktop-continuous", "includeSnapshot": true})
    );
    peer.answer(&request, &Value::Null).await;
    peer.send(&json!({"subscription": number, "event": {"type": "snapshot", "snapshot": snapshot(4)}})).await;
    (subscribing.await.unwrap().expect("subscribed"), number)
}

async fn next(events: &mut mpsc::UnboundedReceiver<HostEvent>) -> HostEvent {
    tokio::time::timeout(SOON, events.recv()).await.expect("an event in time").expect("an open stream")
}

async fn gone(host: &Host) {
    let mut state = host.state();
    let ended = state.wait_for(|state| matches!(state, HostState::Exited(_)));
    tokio::time::timeout(SOON, ended).await.expect("ended in time").expect("a state");
}

#[tokio::test]
async fn noise_is_no_frame() {
    let (start, mut peer) = connect().await;
    peer.raw(b"Gtk-WARNING: no display\nnonce {\"ready\":{}}\n\xff\xfe\n").await;
    peer.send(&ready()).await;
    let host = start.await.unwrap().expect("ready in spite of the noise");
    assert!(host.profile().simulated);
    assert!(matches!(*host.state().borrow(), HostState::Ready { pid: None }));
}

#[tokio::test]
async fn another_bridge_or_another_kind_of_host_is_refused() {
    for ready in [
        json!({"ready": {"bridge": 2, "node": "24", "pid": 1, "simulated": true}}),
        json!({"ready": {"bridge": 1, "node": "24", "pid": 1}}),
    ] {
        let (start, mut peer) = connect().await;
        peer.send(&ready).await;
        assert_eq!(
            start.await.unwrap().err().expect("refused").code,
            ErrorCode::HandshakeMismatch,
            "{ready}"
        );
        assert_eq!(peer.next().await, None, "its input is closed");
    }
}

#[tokio::test]
async fn a_host_that_gives_up_says_why() {
    let (start, mut peer) = connect().await;
    peer.send(&json!({"fatal": {"stage": "import", "message": "no module; token=abc"}})).await;
    drop(peer);
    let failure = start.await.unwrap().err().expect("refused");
    assert_eq!(failure.code, ErrorCode::HostStartFailed);
    assert_eq!(
        failure.cause_text(),
        "ZCode's host did not start: import failed: no module; token=[redacted]"
    );
}

#[tokio::test]
async fn silence_is_not_readiness() {
    let (start, _peer) = connect_under(impatient(30)).await;
    assert_eq!(start.await.unwrap().err().expect("refused").code, ErrorCode::HandshakeTimeout);
}

#[tokio::test]
async fn a_frame_that_is_no_bridge_line_ends_everything_at_once() {
    for garbage in ["{", "[]", "{\"id\":1}", "nonsense \u{1b}[31m", "{\"subscription\":1}"] {
        let (host, mut peer) = running().await;
        let (mut subscription, _) = subscribed(&host, &mut peer).await;
        let call = tokio::spawn({
            let host = host.clone();
            async move { host.stop(Path::new("/w"), &session()).await }
        });
        peer.request().await;
        let line = format!("{} {garbage}\n", peer.nonce);
        peer.raw(line.as_bytes()).await;
        let HostEvent::Lost(failure) = next(&mut subscription.events).await else {
            panic!("not lost: {garbage}")
        };
        assert_eq!(failure.code, ErrorCode::NativeProtocol);
        assert!(
            matches!(call.await.unwrap(), Err(CallError::Gone(failure)) if failure.code == ErrorCode::NativeProtocol)
        );
        assert_eq!(peer.next().await, None, "its input is closed");
        drop(peer);
        gone(&host).await;
        assert!(matches!(host.stop(Path::new("/w"), &session()).await, Err(CallError::Gone(_))));
    }
}

#[tokio::test]
async fn operations_are_the_contracts_services() {
    let (host, mut peer) = running().await;
    let workspace = tokio::spawn({
        let host = host.clone();
        async move { host.open_workspace(Path::new("/w")).await }
    });
    let request = peer.request().await;
    assert_eq!(
        request["call"],
        json!({"service": "agent", "method": "initialize", "params": {"workspacePath": "/w"}})
    );
    peer.answer(&request, &json!({"available": true, "workspaceKey": "/w"})).await;
    let request = peer.request().await;
    assert_eq!(request["call"]["method"], "readWorkspaceState");
    peer.answer(&request, &json!({"workspace": {}, "settings": {"mode": {"current": "yolo"},
        "model": {"current": {"providerId": "p", "modelId": "m"}, "available": []}},
        "modelCatalog": {"providers": [], "available": [{"ref": {"providerId": "p", "modelId": "m"}, "label": "M"}]}}))
        .await;
    let state = workspace.await.unwrap().expect("opened");
    assert_eq!((state.mode.as_deref(), state.models.len()), (Some("yolo"), 1));

    let created = tokio::spawn({
        let host = host.clone();
        let new = NewSession { workspace: "/w".into(), mode: "build".into(), mcp_servers: Vec::new() };
        async move { host.create_session(&new).await }
    });
    let request = peer.request().await;
    assert_eq!(
        request["call"]["params"],
        json!({"workspacePath": "/w", "mcpServers": [], "mode": "build",
        "persistence": "immediate", "titleGenerationEnabled": true})
    );
    peer.answer(&request, &snapshot(0)).await;
    assert_eq!(created.await.unwrap().expect("created").id, session());

    let answered = tokio::spawn({
        let host = host.clone();
        async move {
            let ws = Path::new("/w");
            let permission = host.answer_permission(ws, &session(), &AskId::new("r"), "deny").await;
            let answers = InputAnswer::Accept(vec![
                ("Q".to_owned(), vec!["a".to_owned()]),
                ("M".to_owned(), vec!["a".to_owned(), "b".to_owned()]),
            ]);
            let input = host.answer_input(ws, &session(), &AskId::new("r"), &answers).await;
            let headers = host.refuse_headers(ws, &AskId::new("r"), "no").await;
            (permission.unwrap(), input.unwrap(), headers.is_ok())
        }
    });
    let request = peer.request().await;
    assert_eq!(
        request["call"],
        json!({"service": "task", "method": "respondPermission",
        "params": {"taskId": "s", "requestId": "r", "optionId": "deny"}})
    );
    peer.answer(&request, &json!(false)).await;
    let request = peer.request().await;
    assert_eq!(
        request["call"],
        json!({"service": "task", "method": "respondElicitation", "params": {"taskId": "s",
        "requestId": "r", "action": "accept", "content": {"answers": {"Q": "a", "M": ["a", "b"]}}}})
    );
    peer.answer(&request, &json!(true)).await;
    let request = peer.request().await;
    assert_eq!(
        request["call"]["params"],
        json!({"workspacePath": "/w", "requestId": "r",
        "response": {"headersApplied": false, "errorMessage": "no"}})
    );
    peer.answer(&request, &Value::Null).await;
    assert_eq!(answered.await.unwrap(), (false, true, true));
}

#[tokio::test]
async fn a_prompt_is_sent_once_with_its_attachments() {
    use crate::model::{Attachment, AttachmentKind, AttachmentSource};
    let (host, mut peer) = running_under(impatient(50)).await;
    let input = PromptInput {
        input: "i".into(),
        text: "hi".to_owned(),
        attachments: vec![Attachment {
            kind: AttachmentKind::File,
            filename: "a".to_owned(),
            mime_type: "text/plain".to_owned(),
            source: AttachmentSource::Path("/w/a".into()),
            size_bytes: 3,
        }],
    };
    let prompted = tokio::spawn({
        let host = host.clone();
        async move { host.prompt(Path::new("/w"), &session(), &input).await }
    });
    let request = peer.request().await;
    assert_eq!(
        request["call"]["params"],
        json!({"workspacePath": "/w", "sessionId": "s", "inputId": "i", "content": "hi",
        "attachments": [{"kind": "file", "filename": "a", "mimeType": "text/plain", "localPath": "/w/a", "sizeBytes": 3}]})
    );
    let failure = prompted.await.unwrap().expect_err("not confirmed");
    assert!(
        matches!(&failure, CallError::TimedOut(failure) if failure.code == ErrorCode::PromptOutcomeUnknown)
    );
    // The late answer meets nobody, and the next call gets its own.
    peer.answer(&request, &json!({"accepted": true})).await;
    let stopped = tokio::spawn({
        let host = host.clone();
        async move { host.turn_running(Path::new("/w"), &session()).await }
    });
    let next = peer.request().await;
    assert_eq!(next["call"]["method"], "readSession", "nothing was sent again");
    peer.answer(&next, &snapshot(1)).await;
    assert!(!stopped.await.unwrap().expect("read"));
    assert_eq!(host.inner.client.discarded(), (1, 0));
    assert_eq!(host.inner.client.open_counts(), (0, 0));
}

#[tokio::test]
async fn an_abandoned_call_is_forgotten() {
    let (host, mut peer) = running().await;
    let call = tokio::spawn({
        let host = host.clone();
        async move { host.stop(Path::new("/w"), &session()).await }
    });
    peer.request().await;
    call.abort();
    let _ = call.await;
    assert_eq!(host.inner.client.open_counts(), (0, 0));
}

#[tokio::test]
async fn errors_are_told_apart() {
    let (host, mut peer) = running().await;
    let call = tokio::spawn({
        let host = host.clone();
        async move { host.stop(Path::new("/w"), &session()).await }
    });
    let request = peer.request().await;
    assert_eq!(
        request["call"],
        json!({"service": "task", "method": "stopGeneration",
        "params": {"taskId": "s", "workspacePath": "/w"}})
    );
    peer.send(&json!({"id": request["id"], "error": {"code": -32004, "message": "Session is not active"}}))
        .await;
    assert!(matches!(call.await.unwrap(), Err(CallError::Refused { why: Refusal::NotActive, .. })));
}

#[tokio::test]
async fn signing_in_is_asked_for_when_there_is_no_provider() {
    let (host, mut peer) = running().await;
    let open = tokio::spawn({
        let host = host.clone();
        async move { host.open_workspace(Path::new("/w")).await }
    });
    let request = peer.request().await;
    peer.answer(&request, &json!({"available": false, "reasonCode": "provider_not_ready", "reason": "no"}))
        .await;
    let failure = open.await.unwrap().expect_err("refused");
    assert!(
        matches!(&failure, CallError::Refused { why: Refusal::SignIn, failure } if failure.code == ErrorCode::SignInRequired)
    );
}

#[tokio::test]
async fn a_subscription_stands_with_its_snapshot_and_keeps_the_order() {
    let (host, mut peer) = running().await;
    let subscribing = tokio::spawn({
        let host = host.clone();
        async move { host.subscribe(Path::new("/w"), &session()).await }
    });
    let request = peer.request().await;
    peer.answer(&request, &Value::Null).await;
    peer.send(&delta(1, 5)).await;
    peer.send(&delta(99, 1)).await;
    assert!(!subscribing.is_finished());
    peer.send(&json!({"subscription": 1, "event": {"type": "snapshot", "snapshot": snapshot(4)}})).await;
    peer.send(&delta(1, 6)).await;
    let mut subscription = subscribing.await.unwrap().expect("subscribed");
    assert_eq!(subscription.snapshot.event_seq, 4);
    for seq in [5, 6] {
        let HostEvent::Event(event) = next(&mut subscription.events).await else { panic!("no event") };
        assert_eq!(event.seq, seq);
        assert_eq!(event.body, EventBody::Text { message: None, delta: "x".to_owned() });
    }
    assert_eq!(host.inner.client.discarded(), (0, 1), "an event of no subscription is counted");
    // Something outside the contract is said where it belongs, and the stream goes on.
    peer.send(&json!({"subscription": 1, "event": {"type": "session.event", "event": {"seq": "x"}}})).await;
    peer.send(&json!({"subscription": 1, "event": null})).await;
    peer.send(&delta(1, 7)).await;
    assert!(matches!(next(&mut subscription.events).await, HostEvent::Violation(_)));
    assert!(matches!(next(&mut subscription.events).await, HostEvent::Violation(_)));
    assert!(matches!(next(&mut subscription.events).await, HostEvent::Event(_)));
    // Dropping it unsubscribes, also when an event comes in between.
    drop(subscription);
    peer.send(&delta(1, 8)).await;
    assert_eq!(peer.request().await["unsubscribe"], json!({"subscription": 1}));
    assert_eq!(host.inner.client.open_counts().1, 0);
}

#[tokio::test]
async fn a_subscription_without_a_snapshot_is_taken_back() {
    let (host, mut peer) = running_under(impatient(50)).await;
    let subscribing = tokio::spawn({
        let host = host.clone();
        async move { host.subscribe(Path::new("/w"), &session()).await }
    });
    let request = peer.request().await;
    peer.answer(&request, &Value::Null).await;
    let failure = subscribing.await.unwrap().err().expect("no subscription");
    assert!(
        matches!(&failure, CallError::TimedOut(failure) if failure.code == ErrorCode::SubscriptionFailed)
    );
    assert_eq!(peer.request().await["unsubscribe"], json!({"subscription": 1}));
}

#[tokio::test]
async fn a_snapshot_outside_the_contract_fails_the_subscription() {
    let (host, mut peer) = running().await;
    let subscribing = tokio::spawn({
        let host = host.clone();
        async move { host.subscribe(Path::new("/w"), &session()).await }
    });
    let request = peer.request().await;
    peer.answer(&request, &Value::Null).await;
    peer.send(&json!({"subscription": 1, "event": {"type": "snapshot", "snapshot": {"session": {"sessionId": "s"}}}})).await;
    let failure = subscribing.await.unwrap().err().expect("no subscription");
    assert_eq!(failure.failure().detail(Detail::Unknown), Some("snapshot lacks runtime"));
}

#[tokio::test]
async fn the_end_of_the_host_reaches_every_subscription_and_call() {
    let (host, mut peer) = running().await;
    let (mut subscription, _) = subscribed(&host, &mut peer).await;
    let call = tokio::spawn({
        let host = host.clone();
        async move { host.stop(Path::new("/w"), &session()).await }
    });
    peer.request().await;
    peer.send(&json!({"fatal": {"stage": "worker", "message": "out of memory", "code": 5}})).await;
    drop(peer);
    let HostEvent::Lost(failure) = next(&mut subscription.events).await else { panic!("not lost") };
    assert_eq!(failure.code, ErrorCode::HostExited);
    assert!(failure.cause_text().contains("worker failed: out of memory"), "{failure:?}");
    assert_eq!(failure.detail(Detail::LastRequest), Some("stop"));
    assert!(
        matches!(call.await.unwrap(), Err(CallError::Gone(failure)) if failure.code == ErrorCode::HostExited)
    );
    assert_eq!(subscription.events.recv().await, None, "nothing after it");
    gone(&host).await;
}

#[tokio::test]
async fn the_last_handle_and_shutdown_end_the_host() {
    let (host, mut peer) = running().await;
    let other = host.clone();
    drop(host);
    let (subscription, _) = subscribed(&other, &mut peer).await;
    drop(subscription);
    peer.request().await;
    drop(other);
    assert_eq!(peer.next().await, None, "its input is closed");

    let (host, mut peer) = running().await;
    let ending = tokio::spawn({
        let host = host.clone();
        async move { (host.shutdown().await, host.shutdown().await) }
    });
    assert_eq!(peer.next().await, None);
    drop(peer);
    let (first, second) = ending.await.unwrap();
    assert_eq!(first, second);
}

#[tokio::test]
async fn a_launch_that_is_given_up_ends_what_it_started() {
    let (start, mut peer) = connect().await;
    start.abort();
    assert_eq!(peer.next().await, None);
}

#[test]
fn an_unknown_protocol_is_refused() {
    let mut contract = Contract::clone(&Contract::embedded());
    contract.protocol.id = "zcode-conversation-v4".to_owned();
    let failure = Descriptor::new(Arc::new(contract)).err().expect("refused");
    assert_eq!(failure.code, ErrorCode::ContractInvalid);
    assert_eq!(failure.detail(Detail::Detected), Some("zcode-conversation-v4"));
}

#[cfg(unix)]
mod processes {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    struct Script {
        _dir: tempfile::TempDir,
        path: std::path::PathBuf,
        cwd: std::path::PathBuf,
    }

    /// An executable that plays the bridge. `$NONCE` is set from the configuration line.
    fn script(body: &str) -> Script {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("host");
        let head = "#!/bin/sh\nread -r CONFIG\nNONCE=$(printf '%s' \"$CONFIG\" | sed 's/.*\"nonce\":\"\\([^\"]*\\)\".*/\\1/')\n\
            ready() { echo \"$NONCE {\\\"ready\\\":{\\\"bridge\\\":1,\\\"node\\\":\\\"24\\\",\\\"pid\\\":$$}}\"; }\n";
        // Written under another name: an executable that is still open for writing cannot be started.
        let draft = dir.path().join("draft");
        std::fs::write(&draft, format!("{head}{body}\n")).unwrap();
        std::fs::set_permissions(&draft, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::rename(&draft, &path).unwrap();
        Script { cwd: dir.path().to_owned(), path, _dir: dir }
    }

    fn contract() -> Arc<Contract> {
        let mut contract = Contract::clone(&Contract::embedded());
        contract.protocol.timeouts_ms.host_dispose = 100;
        contract.protocol.timeouts_ms.host_term = 100;
        Arc::new(contract)
    }

    async fn start(script: &Script) -> Result<Host, Failure> {
        let contract = contract();
        let mut tries = 0;
        let process = loop {
            // Another test may be between fork and exec with this file open.
            match os::spawn(&Spawn {
                executable: &script.path,
                arguments: &[],
                cwd: &script.cwd,
                remove: &[],
                set: &[],
            }) {
                Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy && tries < 100 => tries += 1,
                other => break other.unwrap(),
            }
        };
        let profile = Arc::new(profile_of(&contract, None, true));
        let config = supervisor::configuration(&contract, &ArchivePaths::default());
        launch_process(profile, &contract, config, process).await
    }

    fn alive(pid: i32) -> bool {
        std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
            !stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('Z'))
        })
    }

    /// Process ids that a script wrote into its folder, once all are there.
    async fn pids(script: &Script, names: &[&str]) -> Vec<i32> {
        let read = |name: &str| std::fs::read_to_string(script.cwd.join(name)).ok()?.trim().parse().ok();
        let deadline = Instant::now() + SOON;
        loop {
            let found: Vec<i32> = names.iter().filter_map(|name| read(name)).collect();
            if found.len() == names.len() {
                return found;
            }
            assert!(Instant::now() < deadline, "the script did not get that far");
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn an_early_exit_is_reported_at_once_with_its_code_and_last_error() {
        let script =
            script("echo 'loading' >&2; echo 'Error: cannot open token=abc' >&2; echo 'bye' >&2; exit 3");
        let started = Instant::now();
        let failure = start(&script).await.err().expect("refused");
        assert!(started.elapsed() < Duration::from_secs(2));
        assert_eq!(failure.code, ErrorCode::HostStartFailed);
        assert_eq!(failure.detail(Detail::ExitCode), Some("3"));
        assert_eq!(failure.detail(Detail::Stderr), Some("Error: cannot open token=[redacted]"));
    }

    #[tokio::test]
    async fn a_flood_on_stderr_blocks_nothing() {
        let script = script("yes 'noise on stderr' | head -c 3000000 >&2; ready; cat >/dev/null");
        let host = start(&script).await.expect("ready");
        let summary = host.shutdown().await;
        assert_eq!((summary.code, summary.signal), (Some(0), None));
        assert_eq!(summary.stderr.as_deref(), Some("noise on stderr"));
    }

    #[tokio::test]
    async fn a_death_by_signal_is_told_to_whoever_waits() {
        let script = script("ready; read -r LINE; kill -9 $$");
        let host = start(&script).await.expect("ready");
        let Err(CallError::Gone(failure)) = host.stop(Path::new("/w"), &session()).await else {
            panic!("not gone")
        };
        assert_eq!(failure.code, ErrorCode::HostExited);
        assert_eq!(failure.detail(Detail::Signal), Some("9"));
        assert_eq!(failure.detail(Detail::LastRequest), Some("stop"));
        assert_eq!(host.shutdown().await.signal, Some(9));
    }

    /// A child that ignores TERM, one in a session of its own, and one whose parent is gone as well.
    const BROOD: &str = "sh -c 'trap \"\" TERM; echo $$ > stubborn; while :; do sleep 1; done' &\n\
        setsid sh -c 'echo $$ > detached; while :; do sleep 1; done' &\n\
        sh -c 'setsid sh -c \"trap \\\"\\\" TERM; echo \\$\\$ > orphan; while :; do sleep 1; done\" & exit' &\n";

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn shutdown_leaves_nothing_behind() {
        let script = script(&format!("{BROOD}ready; cat >/dev/null; exec sleep 60"));
        let host = start(&script).await.expect("ready");
        let brood = pids(&script, &["stubborn", "detached", "orphan"]).await;
        let started = Instant::now();
        let summary = host.shutdown().await;
        assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
        assert!(summary.signal.is_some(), "it does not end by itself: {summary:?}");
        for pid in brood {
            assert!(!alive(pid), "{pid} is left");
        }
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_bridge_that_dies_first_leaves_nothing_behind() {
        let script = script(&format!("{BROOD}ready; read -r LINE; kill -9 $$"));
        let host = start(&script).await.expect("ready");
        let brood = pids(&script, &["stubborn", "detached", "orphan"]).await;
        assert!(matches!(host.stop(Path::new("/w"), &session()).await, Err(CallError::Gone(_))));
        gone(&host).await;
        for pid in brood {
            assert!(!alive(pid), "{pid} is left");
        }
    }

    #[tokio::test]
    async fn what_cannot_be_started_is_no_host() {
        let missing = Spawn {
            executable: Path::new("/nowhere/zcode"),
            arguments: &[],
            cwd: Path::new("/"),
            remove: &[],
            set: &[],
        };
        let error = os::spawn(&missing).err().expect("refused");
        assert_eq!(spawn_failed(&error).code, ErrorCode::SpawnFailed);
    }

    #[tokio::test]
    async fn the_environment_is_the_one_that_was_worked_out() {
        let script = script("printenv > names; ready; cat >/dev/null");
        let process = os::spawn(&Spawn {
            executable: &script.path,
            arguments: &[],
            cwd: &script.cwd,
            remove: &["HOME".into()],
            set: &[("ELECTRON_RUN_AS_NODE".into(), "1".into())],
        });
        let contract = contract();
        let config = supervisor::configuration(&contract, &ArchivePaths::default());
        let nonce = config.nonce.clone();
        let profile = Arc::new(profile_of(&contract, None, true));
        let host = launch_process(profile, &contract, config, process.unwrap()).await.expect("ready");
        let names = std::fs::read_to_string(script.cwd.join("names")).unwrap();
        assert!(names.lines().any(|line| line == "ELECTRON_RUN_AS_NODE=1"));
        assert!(!names.lines().any(|line| line.starts_with("HOME=")));
        assert!(names.lines().any(|line| line.starts_with("PATH=")), "the rest is inherited");
        assert!(!names.contains(&nonce), "the nonce is not in the environment");
        host.shutdown().await;
    }
}
