//! The CLI played by shell scripts.

use std::path::PathBuf;

use runtime_discovery::contract::Contract;
use runtime_discovery::launch::{ChildEnvironment, LaunchPlan};

use super::*;

const SOON: Duration = Duration::from_secs(10);

/// A CLI whose entry is this shell script.
fn cli(dir: &Path, script: &str) -> Cli {
    let cli_entry = dir.join("zcode.sh");
    std::fs::write(&cli_entry, script).unwrap();
    let plan = LaunchPlan {
        executable: PathBuf::from("/bin/sh"),
        cwd: dir.to_path_buf(),
        host_index: PathBuf::new(),
        rpc_module: PathBuf::new(),
        exports: Contract::embedded().artifact.rpc_module.exports.clone(),
        cli_entry,
    };
    let environment = ChildEnvironment { set: vec![("CLI_SET".into(), "1".into())], ..Default::default() };
    Cli { passed: Passed { plan, environment, app_version: None }, grace: Duration::from_millis(100) }
}

async fn captured(script: &str, deadline: Duration) -> Result<(), Failure> {
    let dir = tempfile::tempdir().unwrap();
    cli(dir.path(), script).captured(CliCommand::Logout, deadline).await
}

#[tokio::test]
async fn an_unattended_command_has_nothing_to_read_and_the_environment_of_the_rule() {
    let script = r#"[ "$*" = logout ] && [ "$CLI_SET" = 1 ] && ! read -r line"#;
    captured(script, SOON).await.unwrap();
}

#[tokio::test]
async fn a_failure_has_the_exit_code_and_a_redacted_line() {
    let failure = captured("echo fine; echo 'error: token=abc refused' >&2; exit 3", SOON).await.unwrap_err();
    assert_eq!((failure.code, failure.phase.as_str()), (ErrorCode::SignOutFailed, "auth"));
    assert_eq!(failure.detail(Detail::ExitCode), Some("3"));
    assert_eq!(failure.detail(Detail::Stderr), Some("error: token=[redacted] refused"));
}

#[tokio::test]
async fn a_flood_is_read_and_forgotten() {
    let flood = "i=0; while [ $i -lt 2000 ]; do echo 'a line that nobody reads, again and again and again'; i=$((i+1)); done";
    captured(flood, SOON).await.unwrap();
}

#[tokio::test]
async fn one_that_hangs_is_ended_with_its_tree_at_the_deadline() {
    let dir = tempfile::tempdir().unwrap();
    let alive = dir.path().join("alive");
    // Deaf to the request, and so is its child, which holds the pipes open as well.
    let script = format!(
        "trap '' TERM HUP INT\n(echo $$ >'{0}.draft'; mv '{0}.draft' '{0}'; sleep 60) &\nsleep 60\n",
        alive.display()
    );
    let begun = Instant::now();
    let failure =
        cli(dir.path(), &script).captured(CliCommand::Logout, Duration::from_secs(1)).await.unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!(failure.code, ErrorCode::SignOutUnknown);
    assert_eq!(failure.detail(Detail::WaitedMs), Some("1000"));
    gone(&alive).await;
}

#[tokio::test]
async fn one_that_nobody_waits_for_is_ended() {
    let dir = tempfile::tempdir().unwrap();
    let alive = dir.path().join("alive");
    let script = format!("echo $$ >'{0}.draft'; mv '{0}.draft' '{0}'; exec sleep 60\n", alive.display());
    let cli = cli(dir.path(), &script);
    let run = tokio::spawn(async move { cli.captured(CliCommand::Logout, SOON * 6).await });
    wait_until(|| alive.exists()).await;
    run.abort();
    gone(&alive).await;
}

#[tokio::test]
async fn an_interactive_command_keeps_its_exit_code() {
    let dir = tempfile::tempdir().unwrap();
    let script = r#"[ "$*" = "login --no-browser" ] && [ "$CLI_SET" = 1 ] && exit 7"#;
    let (_end, asked) = mpsc::channel(1);
    assert_eq!(cli(dir.path(), script).interactive(CliCommand::Login, asked).await.unwrap(), 7);
}

#[tokio::test]
async fn a_request_to_end_is_passed_on_and_the_second_one_kills() {
    for (trap, expected) in [("trap 'exit 9' TERM", 9), ("trap '' TERM", 137)] {
        let dir = tempfile::tempdir().unwrap();
        let alive = dir.path().join("alive");
        let script = format!("{trap}\n: >'{}'\nwhile :; do sleep 0.05; done\n", alive.display());
        let cli = cli(dir.path(), &script);
        let (end, asked) = mpsc::channel(2);
        let run = tokio::spawn(async move { cli.interactive(CliCommand::Login, asked).await });
        wait_until(|| alive.exists()).await;
        end.send(()).await.unwrap();
        if expected == 137 {
            end.send(()).await.unwrap();
        }
        let code = tokio::time::timeout(SOON, run).await.unwrap().unwrap().unwrap();
        assert_eq!(code, expected, "{trap}");
    }
}

async fn wait_until(mut met: impl FnMut() -> bool) {
    let deadline = Instant::now() + SOON;
    while !met() {
        assert!(Instant::now() < deadline, "it did not happen in time");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Waits until the process whose id is in the file is no more.
async fn gone(file: &Path) {
    let pid: i32 = std::fs::read_to_string(file).unwrap().trim().parse().unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    wait_until(|| rustix::process::test_kill_process(pid).is_err()).await;
}
