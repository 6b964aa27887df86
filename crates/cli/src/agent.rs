//! The agent: one ACP connection on stdin and stdout.

use std::io::{self, IsTerminal};
use std::time::Duration;

use acp_server::AgentOptions;
use diag_model::{ErrorCode, Failure};
use tokio_util::sync::CancellationToken;

use crate::options::Options;
use crate::wiring::Unusable;
use crate::{end, output, report, signals, wiring};

/// How long the last log records may take.
const LAST_RECORDS: Duration = Duration::from_millis(200);

/// Serves until stdin ends or a signal comes.
pub(crate) fn run(options: &Options) -> ! {
    if io::stdin().is_terminal() {
        output::stderr(
            "zcode-acp: waiting for an ACP client on stdin (Ctrl-D ends it); to see a turn by hand, run: \
             zcode-acp try --simulated \"hello\"\n",
        );
    }
    let log = diagnostics::init(diagnostics::Options {
        level: options.log_level,
        format: options.log_format,
        ..diagnostics::Options::default()
    });
    let code = match serve(options) {
        Ok(()) => 0,
        Err(Unusable::Failure(failure)) => {
            output::last_word(report::failure(&failure));
            1
        }
        Err(Unusable::Usage(text)) => {
            output::last_word(report::usage(&text));
            2
        }
    };
    log.flush(LAST_RECORDS);
    // Reader and log threads may sit in a system call for good; nothing is owed to them.
    end::now(code)
}

fn serve(options: &Options) -> Result<(), Unusable> {
    let wired = wiring::wire(options)?;
    let agent = AgentOptions {
        simulated: wired.launcher.simulated(),
        unofficial_contract: wired.unofficial,
        max_frame: options.max_frame,
        permission_timeout: options.permission_timeout.0,
        ..AgentOptions::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| {
        Failure::new(ErrorCode::Internal).cause(format!("the runtime did not start: {error}"))
    })?;
    let outcome = runtime.block_on(async {
        let stop = CancellationToken::new();
        signals::stop_on_signal(stop.clone());
        #[cfg(debug_assertions)]
        panic_for_tests();
        acp_server::serve(wired.launcher, agent, stop).await
    });
    // Dropping the runtime would wait for threads that read a pipe.
    runtime.shutdown_background();
    outcome?;
    Ok(())
}

/// Unoptimised builds can be told to panic beside the connection, because nothing else in here can be made to: a test
/// then looks at what reaches stdout and stderr.
#[cfg(debug_assertions)]
fn panic_for_tests() {
    if let Some(text) = std::env::var_os("ZCODE_ACP_PANIC_FOR_TESTS") {
        #[expect(clippy::panic, reason = "asked for")]
        tokio::spawn(async move { panic!("{}", text.display()) });
    }
}
