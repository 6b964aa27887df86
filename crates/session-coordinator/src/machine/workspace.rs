//! One workspace of a host: opened once for all its sessions, disposed when the last one is gone.
//!
//! Generic over the waiter, so that a duty to tell somebody the result is a value here too.

use std::sync::Arc;

use zcode_runtime::model::{CallError, WorkspaceState};

/// What happens to a workspace.
#[derive(Debug)]
pub(crate) enum Input<W> {
    /// A session wants it.
    Acquire(W),
    /// Opening has ended.
    Opened(Result<WorkspaceState, CallError>),
    /// A session is done with it.
    Released,
    /// Disposing has ended, well or not, or took too long.
    Disposed,
}

/// What a workspace wants done.
#[derive(Debug)]
pub(crate) enum Effect<W> {
    /// Opens it.
    Open,
    /// Tells a waiter.
    Deliver(W, Result<Arc<WorkspaceState>, CallError>),
    /// Disposes it.
    Dispose,
}

/// The state. A failed one is absent again: the next explicit operation starts anew.
#[derive(Debug)]
pub(crate) enum Workspace<W> {
    /// Not open.
    Absent,
    /// Being opened, for these.
    Starting(Vec<W>),
    /// Open.
    Ready {
        /// What it said.
        state: Arc<WorkspaceState>,
        /// Sessions that use it.
        users: usize,
    },
    /// Being disposed; these came meanwhile.
    Stopping(Vec<W>),
}

impl<W> Workspace<W> {
    /// Nobody uses it and nothing is under way.
    pub(crate) fn is_absent(&self) -> bool {
        matches!(self, Workspace::Absent)
    }

    /// Takes one step.
    pub(crate) fn step(self, input: Input<W>) -> (Self, Vec<Effect<W>>) {
        use Workspace::{Absent, Ready, Starting, Stopping};
        match (self, input) {
            (Absent, Input::Acquire(waiter)) => (Starting(vec![waiter]), vec![Effect::Open]),
            (Starting(mut waiters), Input::Acquire(waiter)) => {
                waiters.push(waiter);
                (Starting(waiters), Vec::new())
            }
            (Ready { state, users }, Input::Acquire(waiter)) => {
                let answer = Effect::Deliver(waiter, Ok(Arc::clone(&state)));
                (Ready { state, users: users + 1 }, vec![answer])
            }
            (Stopping(mut waiters), Input::Acquire(waiter)) => {
                waiters.push(waiter);
                (Stopping(waiters), Vec::new())
            }
            (Starting(waiters), Input::Opened(Ok(state))) => {
                let state = Arc::new(state);
                let users = waiters.len();
                let tell = |waiter| Effect::Deliver(waiter, Ok(Arc::clone(&state)));
                let effects = waiters.into_iter().map(tell).collect();
                (Ready { state, users }, effects)
            }
            (Starting(waiters), Input::Opened(Err(error))) => (
                Absent,
                waiters.into_iter().map(|waiter| Effect::Deliver(waiter, Err(error.clone()))).collect(),
            ),
            (Ready { users: 0 | 1, .. }, Input::Released) => (Stopping(Vec::new()), vec![Effect::Dispose]),
            (Ready { state, users }, Input::Released) => (Ready { state, users: users - 1 }, Vec::new()),
            (Stopping(waiters), Input::Disposed) if waiters.is_empty() => (Absent, Vec::new()),
            (Stopping(waiters), Input::Disposed) => (Starting(waiters), vec![Effect::Open]),
            (state, Input::Opened(_) | Input::Released | Input::Disposed) => (state, Vec::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use diag_model::{ErrorCode, Failure};

    use super::*;

    fn run(inputs: Vec<Input<u8>>) -> (Workspace<u8>, Vec<String>) {
        let mut log = Vec::new();
        let mut workspace = Workspace::Absent;
        for input in inputs {
            let (next, effects) = workspace.step(input);
            workspace = next;
            log.extend(effects.into_iter().map(|effect| match effect {
                Effect::Open => "open".to_owned(),
                Effect::Dispose => "dispose".to_owned(),
                Effect::Deliver(waiter, result) => format!("{waiter}:{}", result.is_ok()),
            }));
        }
        (workspace, log)
    }

    fn opened() -> Input<u8> {
        Input::Opened(Ok(WorkspaceState::default()))
    }

    fn failed() -> Input<u8> {
        Input::Opened(Err(CallError::TimedOut(Failure::new(ErrorCode::SessionRefused))))
    }

    #[test]
    fn opening_is_single_flight_and_shared() {
        let (_, log) = run(vec![Input::Acquire(1), Input::Acquire(2), opened(), Input::Acquire(3)]);
        assert_eq!(log, ["open", "1:true", "2:true", "3:true"]);
    }

    #[test]
    fn a_failed_one_starts_anew_with_the_next_operation() {
        let (workspace, log) =
            run(vec![Input::Acquire(1), Input::Acquire(2), failed(), Input::Acquire(3), opened()]);
        assert_eq!(log, ["open", "1:false", "2:false", "open", "3:true"]);
        assert!(matches!(workspace, Workspace::Ready { users: 1, .. }));
    }

    #[test]
    fn it_is_disposed_once_when_its_last_session_is_gone() {
        let (workspace, log) = run(vec![
            Input::Acquire(1),
            Input::Acquire(2),
            opened(),
            Input::Released,
            Input::Released,
            Input::Disposed,
        ]);
        assert_eq!(log, ["open", "1:true", "2:true", "dispose"]);
        assert!(workspace.is_absent());
    }

    #[test]
    fn who_comes_while_it_is_disposed_gets_a_fresh_one() {
        let (_, log) = run(vec![
            Input::Acquire(1),
            opened(),
            Input::Released,
            Input::Acquire(2),
            Input::Disposed,
            opened(),
        ]);
        assert_eq!(log, ["open", "1:true", "dispose", "open", "2:true"]);
    }
}
