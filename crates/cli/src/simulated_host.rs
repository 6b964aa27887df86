//! The simulated host as a process of its own: the bridge protocol on stdin and stdout.

use crate::wiring::{self, Unusable};
use crate::{end, output, report};

/// Exit code when the stream breaks.
const BROKEN: i32 = 1;

/// Serves until stdin ends.
pub(crate) fn run(scenario: Option<&str>) -> ! {
    let mut options = match wiring::sim_options(scenario) {
        Ok(options) => options,
        Err(Unusable::Usage(text)) => {
            output::last_word(report::usage(&text));
            end::now(2)
        }
        Err(Unusable::Failure(failure)) => {
            output::last_word(report::failure(&failure));
            end::now(1)
        }
    };
    options.stderr = Some(simulator::StderrSink::new(|line| output::stderr(&format!("{line}\n"))));
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            output::last_word(format!("error: {error}\n"));
            end::now(BROKEN)
        }
    };
    #[expect(clippy::disallowed_methods, reason = "the process ends without waiting for the pending read")]
    let (stdin, stdout) = (tokio::io::stdin(), tokio::io::stdout());
    let code = match runtime.block_on(simulator::serve(stdin, stdout, options)) {
        Ok(()) => 0,
        Err(error) => simulator::crash_code(&error).unwrap_or_else(|| {
            output::last_word(format!("error: {error}\n"));
            BROKEN
        }),
    };
    end::now(code)
}
